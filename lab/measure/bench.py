# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench NAME: runs small programs under each policy in one boot, shows the values, and compares counts with what is exact."""
import dataclasses
import json
import typing

from lab import paths, progress, setup
from lab.kernel import build
from lab.machine import programs, vm
from lab.measure import limits, measure, report, values

TIME_LIMIT = 540             # seconds for one boot's measurements, unless the bench says otherwise


@dataclasses.dataclass(frozen=True)
class Step:
    """One run of a program under a policy, and what its values are called."""
    case: str
    policy: str              # the column
    settings: tuple          # the words that hydractl run takes for it
    command: tuple           # a word that is the name of one of workloads/ stands for it


@dataclasses.dataclass(frozen=True)
class Bench:
    name: str
    what: str                # one line for --list
    machine: vm.Machine
    programs: tuple          # of workloads/
    steps: tuple
    lines: tuple             # of the table
    taken: typing.Callable   # (step, what the program printed) -> (metric, value, unit) of it
    check: typing.Callable   # Values -> the limits
    paper: str               # the paper's figure, and what an emulator cannot show of it
    across: bool = False     # the table has a row for each policy, and a column for each line
    packages: tuple = ()     # Debian packages that it needs besides the lab's
    made: typing.Callable = tuple            # () -> files from elsewhere; a word that is the name of one stands for it
    disk: bool = False       # the programs work on a disk
    limit: int = TIME_LIMIT
    counted: typing.Callable | None = None   # () -> the values, where the meter counts them and there are no steps


def entries_of(bench, said):
    """The values of a bench, from what the machine printed for its steps."""
    made = []
    for seen in said:
        step = bench.steps[seen["step"]]
        made += [dict(zip(values.FIELDS, (bench.name, step.case, step.policy, metric, value, unit)))
                 for metric, value, unit in bench.taken(step, seen["said"])]
    return made


def run(bench):
    """Boot once, run all steps; returns the values."""
    if bench.counted:
        return bench.counted()
    setup.ensure_packages(bench.packages)
    image = build.kernel()
    home = programs.workloads()
    tools = [programs.hydractl(), *(home / name for name in bench.programs), *bench.made()]
    plan = [{"doing": f"{step.case}, {step.policy}", "settings": step.settings, "command": step.command} for step in bench.steps]
    command = ["/usr/bin/python3", "-I", str(paths.REPO / "lab/measure/guest_programs.py"),
               "--programs", *map(str, tools), "--plan", json.dumps(plan), *(["--disk"] if bench.disk else [])]
    with progress.counting("measuring", len(plan)) as bar:
        progress.say(f"booting {bench.machine.nodes} nodes of {bench.machine.cpus_per_node} CPUs for {bench.name}")
        return entries_of(bench, measure.run_guest(command, bench.machine, bar, image, bench.limit, bench.name))


def checked(bench, entries):
    """The limits of a bench; a value that was not measured fails."""
    try:
        return list(bench.check(values.Values(entries)))
    except KeyError as key:
        return [limits.missing(bench.name, key.args[0])]


def show(bench, arguments):
    """Measure and show; returns how many limits failed."""
    entries = run(bench)
    publish(f"{bench.name}: {bench.what}", bench.lines, entries, entries, arguments, bench.across)
    report.printer().print(f"[bold]The papers, and this emulator.[/] {bench.paper}\n")
    return report.verdicts(checked(bench, entries))


def publish(title, lines, entries, public, arguments, across=False):
    """The table, and the files that were asked for."""
    (report.table_across if across else report.table)(title, lines, entries)
    if arguments.json:
        values.write_json(arguments.json, public)
    if arguments.csv:
        values.write_csv(arguments.csv, public)
    if arguments.png:
        report.picture(arguments.png, title, lines, entries)
    return 0
