# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench: one measurement."""
import time

from lab import paths, policies, progress
from lab.bench import choice, core, workload
from lab.errors import LabError
from lab.measure import demo_lines, measure
from lab.meter import concurrent, counters, steps_verbs

OF_WORKLOAD = ("cpus_per_node", "memory", "timeout", *policies.SETTINGS)


def listing():
    rows = [f"{name:11} {machine.nodes} nodes x {machine.cpus_per_node} CPUs: {what}" for name, (machine, what) in measure.ROWS.items()]
    more = [f"{one.name:11} {one.machine.nodes} nodes x {one.machine.cpus_per_node} CPUs: {one.what}"
            + (f"; --nodes {choice.listed(one.sizes)}" if one.sizes else "") for one in choice.BENCHES.values()]
    return "\n".join(["Rows of the demo (--nodes 2 to 16):", *rows, "More, with a paper's figure beside ours:", *more, "The meter:", steps_verbs.listing(), concurrent.listing(),
                      counters.listing(), "A program of your own:", "--workload 'CMD' under each policy"])


def bench_verb(arguments):
    if arguments.list:
        print(listing())
        return 0
    if arguments.name == "steps":
        refuse(arguments, ("csv", "png"), "is not for the measurement 'steps', which has --json and --plot")
        refuse(arguments, ("policies", "runs"), "is not for the measurement 'steps', which has columns of its own, and --samples")
        refuse(arguments, ("workload", *OF_WORKLOAD), "is not for the measurement 'steps'")
        return steps_verbs.bench(arguments)
    if arguments.name in (concurrent.NAME, counters.NAME):
        refuse(arguments, ("png", "policies", "runs", *steps_verbs.OPTIONS, "workload", *OF_WORKLOAD), f"is not for the measurement '{arguments.name}'")
        return (concurrent if arguments.name == concurrent.NAME else counters).bench(arguments)
    refuse(arguments, steps_verbs.OPTIONS, "is for the measurement 'steps' only")
    if arguments.workload is not None:
        return workload_verb(arguments)
    arguments.name = choice.FORMER.get(arguments.name, arguments.name)
    names = [*measure.ROWS, *choice.BENCHES]
    if arguments.name not in names:
        what = f"there is no measurement '{arguments.name}'" if arguments.name else "no measurement named"
        raise LabError(what, f"There are {', '.join(names)}, steps, concurrent and refcache; ./hydra bench --list says what they are.", status=2)
    refuse(arguments, OF_WORKLOAD, f"is for --workload only; '{arguments.name}' has a machine of its own")
    measurement = bench_of(arguments) if arguments.name in choice.BENCHES else row_of(arguments)
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
    one = choice.of_bench(choice.BENCHES[arguments.name], arguments)
    return lambda: core.show(one, arguments)


def row_of(arguments):
    """What measures and shows one row of the demo, after a look at all words."""
    name, runs = arguments.name, choice.runs(arguments)
    machine, columns = measure.machine_for(name, choice.nodes(arguments)), choice.columns(arguments, policies.POLICIES)

    def row_alone():
        entries = measure.alone(name, machine, columns, runs)
        return core.publish(f"{name}, one row of the demo", demo_lines.lines(machine.nodes, machine.nodes), entries, measure.published(entries), arguments)
    return row_alone


def workload_verb(arguments):
    """A program of the user's; there are no limits to compare with."""
    if arguments.name:
        raise LabError(f"--workload is a measurement of its own, and '{arguments.name}' is another", "Leave one of them out.", status=2)
    start = time.monotonic()
    entries = workload.run(arguments)
    core.publish(f"'{arguments.workload}' under each policy", workload.lines(arguments.workload, entries), entries, entries, arguments)
    progress.say(f"the measurement took {(time.monotonic() - start) / 60:.1f} min")
    return 0
