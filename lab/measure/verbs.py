# SPDX-License-Identifier: GPL-2.0-only
"""./hydra demo: every measurement, shown, drawn, and compared with what is expected. ./hydra bench: one measurement."""
import time

from lab import paths, policies, progress
from lab.errors import LabError
from lab.measure import bench, bench_nested, bench_walks, benches, choice, demo_lines, limits, measure, report, steps_verbs, values, workload

TITLE = "What Linux, Hydra and its neighbours do, one mechanism under five policies"
OF_MACHINES = ((bench_nested.BRIEF, "Virtual machines: one tree of nested page tables for all nodes, or a tree for each"),
               (bench_walks.BRIEF, "A virtual machine that sees its nodes: last entries of 2D page walks, with replicas of no tables, of the nested ones, of both"))
QUIET_NOTE = "Where nothing is shared, times say little, and 'above' is no failure: ./hydra bench steps counts what Hydra costs there."

OF_WORKLOAD = ("cpus_per_node", "memory", "timeout")


def demo_verb(arguments):
    start = time.monotonic()
    paths.try_output(arguments.json, arguments.png)
    entries = measure.measure(list(measure.ROWS))
    machines = [(one, title, bench.run(one)) for one, title in OF_MACHINES]
    report.table(TITLE, demo_lines.LINES, entries)
    show_machines(machines)
    failed = report.verdicts(limits.check(entries) + [check for one, _, found in machines for check in bench.checked(one, found)], QUIET_NOTE)
    report.picture(arguments.png or paths.cache() / "hydra-demo.png", TITLE, demo_lines.LINES, entries)
    if arguments.json:
        values.write_json(arguments.json, measure.published(entries) + [entry for *_, found in machines for entry in found])
    progress.say(f"the demo took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if failed else 0


def show_machines(machines):
    """The tables of virtual machines, the paper's numbers under each, and once what an emulator does not show."""
    out = report.printer()
    for one, title, found in machines:
        report.table(title, one.lines, found)
        out.print(f"[bold]The paper.[/] {one.paper}\n")
    out.print(f"{bench_nested.NOT_HERE}\n")


def listing():
    rows = [f"{name:11} {machine.nodes} nodes x {machine.cpus_per_node} CPUs: {what}" for name, (machine, what) in measure.ROWS.items()]
    more = [f"{one.name:11} {one.machine.nodes} nodes x {one.machine.cpus_per_node} CPUs: {one.what}"
            + (f"; --nodes {choice.listed(one.sizes)}" if one.sizes else "") for one in benches.BENCHES.values()]
    return "\n".join(["Rows of the demo (--nodes 2 to 16):", *rows, "More, with a paper's figure beside ours:", *more, "The meter:", steps_verbs.listing(),
                      "A program of your own:", "--workload 'CMD' under each policy"])


def bench_verb(arguments):
    if arguments.list:
        print(listing())
        return 0
    if arguments.name == "steps":
        refuse(arguments, ("csv", "png"), "is not for the measurement 'steps', which has --json and --plot")
        refuse(arguments, ("policies", "runs"), "is not for the measurement 'steps', which has columns of its own, and --samples")
        refuse(arguments, ("workload", *OF_WORKLOAD), "is not for the measurement 'steps'")
        return steps_verbs.bench(arguments)
    refuse(arguments, steps_verbs.OPTIONS, "is for the measurement 'steps' only")
    if arguments.workload is not None:
        return workload_verb(arguments)
    names = [*measure.ROWS, *benches.BENCHES]
    if arguments.name not in names:
        what = f"there is no measurement '{arguments.name}'" if arguments.name else "no measurement named"
        raise LabError(what, f"There are {', '.join(names)}, and steps; ./hydra bench --list says what they are.", status=2)
    refuse(arguments, OF_WORKLOAD, f"is for --workload only; '{arguments.name}' has a machine of its own")
    measurement = bench_of(arguments) if arguments.name in benches.BENCHES else row_of(arguments)
    paths.try_output(arguments.json, arguments.csv, arguments.png)
    start = time.monotonic()
    failed = measurement()
    progress.say(f"the measurement took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if failed else 0


def refuse(arguments, options, why):
    """No option of a list may be given."""
    given = [f"--{name.replace('_', '-')}" for name in options if getattr(arguments, name) not in (None, False)]
    if given:
        raise LabError(f"{given[0]} {why}", status=2)


def bench_of(arguments):
    """What measures and shows a paper's figure, after a look at all words."""
    one = choice.of_bench(benches.BENCHES[arguments.name], arguments)
    return lambda: bench.show(one, arguments)


def row_of(arguments):
    """What measures and shows one row of the demo, after a look at all words."""
    name, runs = arguments.name, choice.runs(arguments)
    machine, columns = measure.machine_for(name, choice.nodes(arguments)), choice.columns(arguments, policies.POLICIES)

    def row_alone():
        entries = measure.alone(name, machine, columns, runs)
        return bench.publish(f"{name}, one row of the demo", demo_lines.lines(machine.nodes, machine.nodes), entries, measure.published(entries), arguments)
    return row_alone


def workload_verb(arguments):
    """A program of the user's; there are no limits to compare with."""
    if arguments.name:
        raise LabError(f"--workload is a measurement of its own, and '{arguments.name}' is another", "Leave one of them out.", status=2)
    start = time.monotonic()
    entries = workload.run(arguments)
    bench.publish(f"'{arguments.workload}' under each policy", workload.lines(arguments.workload, entries), entries, entries, arguments)
    progress.say(f"the measurement took {(time.monotonic() - start) / 60:.1f} min")
    return 0
