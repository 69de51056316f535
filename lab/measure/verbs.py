# SPDX-License-Identifier: GPL-2.0-only
"""./hydra demo: every measurement, shown, drawn, and compared with what is expected. ./hydra bench: one of them, or the meter."""
import time

from lab import paths, progress
from lab.errors import LabError
from lab.measure import limits, measure, report, steps_verbs


def demo_verb(arguments):
    start = time.monotonic()
    paths.try_output(arguments.json, arguments.png)
    values = measure.measure(list(measure.ROWS))
    report.table(values)
    failed = report.verdicts(limits.check(values))
    report.picture(arguments.png or paths.cache() / "hydra-demo.png", values)
    if arguments.json:
        measure.write_json(arguments.json, values)
    progress.say(f"the demo took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if failed else 0


def listing():
    return "\n".join([f"{name:10} {machine.nodes} nodes x {machine.cpus_per_node} CPUs: {what}"
                      for name, (machine, what) in measure.ROWS.items()] + [steps_verbs.listing()])


def bench_verb(arguments):
    if arguments.list:
        print(listing())
        return 0
    if arguments.name == "steps":
        return steps_verbs.bench(arguments)
    if arguments.name not in measure.ROWS:
        what = f"there is no measurement '{arguments.name}'" if arguments.name else "no measurement named"
        raise LabError(what, "These are there:\n    " + listing().replace("\n", "\n    "), status=2)
    given = [f"--{name.replace('_', '-')}" for name in steps_verbs.OPTIONS if getattr(arguments, name) not in (None, False)]
    if given:
        raise LabError(f"{given[0]} is for the measurement 'steps'; '{arguments.name}' has a fixed machine and fixed repetitions",
                       status=2)
    paths.try_output(arguments.json)
    values = measure.measure([arguments.name])
    report.table(values)
    if arguments.json:
        measure.write_json(arguments.json, values)
    return 0
