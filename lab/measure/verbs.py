# SPDX-License-Identifier: GPL-2.0-only
"""./hydra demo: every measurement, shown, drawn, and compared with what is expected. ./hydra bench: one measurement."""
import time

from lab import paths, progress
from lab.errors import LabError
from lab.measure import bench, benches, demo_lines, limits, measure, report, steps_verbs, values

TITLE = "What Linux, Hydra and its neighbours do, one mechanism under five policies"
QUIET_NOTE = "Where nothing is shared, times say little, and 'above' is no failure: ./hydra bench steps counts what Hydra costs there."


def demo_verb(arguments):
    start = time.monotonic()
    paths.try_output(arguments.json, arguments.png)
    entries = measure.measure(list(measure.ROWS))
    report.table(TITLE, demo_lines.LINES, entries)
    failed = report.verdicts(limits.check(entries), QUIET_NOTE)
    report.picture(arguments.png or paths.cache() / "hydra-demo.png", TITLE, demo_lines.LINES, entries)
    if arguments.json:
        values.write_json(arguments.json, measure.published(entries))
    progress.say(f"the demo took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if failed else 0


def listing():
    rows = [f"{name:11} {machine.nodes} nodes x {machine.cpus_per_node} CPUs: {what}" for name, (machine, what) in measure.ROWS.items()]
    more = [f"{one.name:11} {one.machine.nodes} nodes x {one.machine.cpus_per_node} CPUs: {one.what}" for one in benches.BENCHES.values()]
    return "\n".join(["Rows of the demo:", *rows, "More, with a paper's figure beside ours:", *more, "The meter:", steps_verbs.listing()])


def bench_verb(arguments):
    if arguments.list:
        print(listing())
        return 0
    if arguments.name == "steps":
        refuse(arguments, ("csv", "png"), "is not for the measurement 'steps', which has --json and --plot")
        return steps_verbs.bench(arguments)
    if arguments.name not in [*measure.ROWS, *benches.BENCHES]:
        what = f"there is no measurement '{arguments.name}'" if arguments.name else "no measurement named"
        raise LabError(what, "These are there:\n    " + listing().replace("\n", "\n    "), status=2)
    refuse(arguments, steps_verbs.OPTIONS, f"is for the measurement 'steps'; '{arguments.name}' has a fixed machine and fixed repetitions")
    paths.try_output(arguments.json, arguments.csv, arguments.png)
    start = time.monotonic()
    failed = bench.show(benches.BENCHES[arguments.name], arguments) if arguments.name in benches.BENCHES else row_alone(arguments)
    progress.say(f"the measurement took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if failed else 0


def refuse(arguments, options, why):
    """No option of a list may be given."""
    given = [f"--{name.replace('_', '-')}" for name in options if getattr(arguments, name) not in (None, False)]
    if given:
        raise LabError(f"{given[0]} {why}", status=2)


def row_alone(arguments):
    """One row of the demo."""
    entries = measure.measure([arguments.name])
    return bench.publish(f"{arguments.name}, one row of the demo", demo_lines.LINES, entries, measure.published(entries), arguments)
