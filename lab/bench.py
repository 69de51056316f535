# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench: one of the demo's measurements, alone; or the meter."""
from lab import measure, report, steps_verbs
from lab.errors import LabError


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
    values = measure.measure([arguments.name])
    report.table(values)
    if arguments.json:
        measure.write_json(arguments.json, values)
    return 0
