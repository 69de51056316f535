# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench NAME: runs small programs under each policy in one boot, shows the values, and compares counts with what is exact."""
import dataclasses
import itertools
import json
import pathlib
import tempfile
import typing

from lab import paths, progress, setup
from lab.errors import LabError
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
    machine: vm.Machine | None = None        # if not that of the measurement: it boots after that, and has the files that were left in $HYDRA_OUT there


@dataclasses.dataclass(frozen=True)
class Bench:
    name: str
    what: str                # one line for --list
    machine: vm.Machine
    programs: tuple          # of workloads/
    steps: tuple
    lines: tuple             # of the table
    taken: typing.Callable   # (step, what the program printed) -> (metric, value, unit) of it
    check: typing.Callable   # (Values, columns that were measured) -> the limits
    paper: str               # the paper's figure, and what an emulator cannot show of it
    across: bool = False     # the table has a row for each policy, and a column for each line
    packages: tuple = ()     # Debian packages that it needs besides the lab's
    made: typing.Callable = tuple            # () -> files from elsewhere; a word that is the name of one stands for it
    disk: bool = False       # the programs work on a disk
    machines: bool = False   # the programs make virtual machines: others are held meanwhile
    limit: int = TIME_LIMIT
    counted: typing.Callable | None = None   # () -> the values, where the meter counts them and there are no steps
    on: typing.Callable | None = None        # (number of nodes) -> the same measurement there
    sizes: tuple = ()        # the numbers of nodes that it can have
    why_fixed: str = ""      # why it cannot have others
    plugin: typing.Callable | None = None    # () -> options of a plugin of the emulator; a program that prints "samples" gets as many lines of its
    runs: int = 1
    real: typing.Any = None  # the same measurement for ./hydra here, if its programs can be larger there

    def columns(self):
        return tuple(dict.fromkeys(step.policy for step in self.steps))


def plan(bench):
    """(run, step) in the order of the machine: the policies take turns, every second run backwards, so that none is always the first. Machines keep their order."""
    backwards = not any(step.machine for step in bench.steps)
    return [(run, step) for run in range(1, bench.runs + 1) for step in (bench.steps[::-1] if backwards and run % 2 == 0 else bench.steps)]


def entries_of(bench, said):
    """The values of a bench, from what the machine printed for its steps; of several runs each value has its run."""
    made, planned = [], plan(bench)
    for seen in said:
        run, step = planned[seen["step"]]
        more = {"run": run} if bench.runs > 1 else {}
        made += [dict(zip(values.FIELDS, (bench.name, step.case, step.policy, metric, value, unit)), **more)
                 for metric, value, unit in bench.taken(step, seen["said"])]
    return made


def with_samples(said):
    """What the programs said, each with the samples that the plugin took of it."""
    samples = iter([entry["sample"] for entry in said if "sample" in entry])
    steps = [entry for entry in said if "step" in entry]
    for seen in steps:
        if number := seen["said"].get("samples"):
            seen["said"]["sampled"] = list(itertools.islice(samples, number))
            if len(seen["said"]["sampled"]) < number:
                raise LabError(f"the emulator's plugin took no sample of step {seen['step'] + 1}")
    return steps


def run(bench):
    """Boot each machine once in each run, run all steps; returns the values."""
    if bench.counted:
        return bench.counted()
    setup.ensure_packages(bench.packages)
    image = build.kernel()
    home = programs.workloads()
    tools = [programs.hydractl(), *(home / name for name in bench.programs), *bench.made()]
    said, planned = [], plan(bench)
    several = any(step.machine for step in bench.steps)
    with progress.counting("measuring", len(planned)) as bar, tempfile.TemporaryDirectory(dir=paths.cache_dir("left")) as scratch:
        left = None
        for number, (machine, steps) in enumerate(itertools.groupby(planned, lambda one: one[1].machine or bench.machine)):
            brought = sorted(left.iterdir()) if left else []
            left = pathlib.Path(scratch, str(number)) if several else None
            made = boot(bench, machine, list(steps), [*tools, *brought], (image, bar, left))
            said += [dict(seen, step=len(said) + place) for place, seen in enumerate(made)]
    return entries_of(bench, said)


def boot(bench, machine, planned, tools, with_these):
    """What the programs of one machine said. With these: the kernel, the progress bar, where files go that they leave in $HYDRA_OUT."""
    image, bar, left = with_these
    steps = [{"doing": f"{step.case}, {step.policy}{f', run {number}' if bench.runs > 1 else ''}", "settings": step.settings,
              "command": step.command} for number, step in planned]
    command = ["/usr/bin/python3", "-I", str(paths.REPO / "lab/guest/guest_programs.py"),
               "--programs", *map(str, tools), "--plan", json.dumps(steps), *(["--disk"] if bench.disk else []),
               *(["--held", vm.HELD_VMS] if bench.machines else [])]
    progress.say(f"booting {machine.nodes} nodes of {machine.cpus_per_node} CPUs for {bench.name}")
    machine = dataclasses.replace(machine, emulator=(*machine.emulator, *(bench.plugin() if bench.plugin else ())))
    return with_samples(measure.run_guest(command, machine, bar, image, bench.limit * bench.runs, bench.name, left))


def checked(bench, entries):
    """The limits of a bench; a value that was not measured fails. Each run has to keep them."""
    made = {}
    for run in dict.fromkeys(entry.get("run", 1) for entry in entries):
        try:
            checks = list(bench.check(values.Values([entry for entry in entries if entry.get("run", 1) == run]), bench.columns()))
        except KeyError as key:
            checks = [limits.missing(bench.name, key.args[0])]
        for check in checks:
            if check.text not in made or (made[check.text].passed and not check.passed):
                where = f" in run {run}" if bench.runs > 1 and not check.passed else ""
                made[check.text] = dataclasses.replace(check, seen=check.seen + where)
    return list(made.values())


def show(bench, arguments):
    """Measure and show; returns how many limits failed."""
    entries = run(bench)
    publish(f"{bench.name}: {bench.what}", bench.lines, entries, entries, arguments, bench.across)
    report.printer().print(f"[bold]The papers, and this emulator.[/] {bench.paper}\n")
    return report.verdicts(checked(bench, entries))


def publish(title, lines, entries, public, arguments, across=False):
    """The table, and the files that were asked for."""
    (report.table_across if across else report.table)(title, lines, entries)
    if any("run" in entry for entry in entries):
        report.differing(entries)
    if arguments.json:
        values.write_json(arguments.json, public)
    if arguments.csv:
        values.write_csv(arguments.csv, public)
    if arguments.png:
        report.picture(arguments.png, title, lines, entries)
    return 0
