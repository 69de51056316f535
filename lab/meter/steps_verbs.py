# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench steps and the stage steps of ./hydra test."""
import dataclasses
import time

from lab import paths, progress
from lab.errors import LabError
from lab.kernel import build
from lab.machine.ktap import Outcome
from lab.meter import steps, steps_limits, steps_report

MACHINES = (1, 2, 4, 8, 16)
OPTIONS = ("rows", "samples", "functions", "plot", "cross_check")       # of bench, for steps alone
# Only the policies that have limits, and few samples: more than half of them must still agree. The large machine shows what
# grows with the number of nodes.
STAGE = steps.Plan(nodes=(2, 16), policies=("off", "off-split", "unused", "hydra", "hydra-split"), samples=16, access_samples=4)


def listing():
    return f"{'steps':10} 2 and 16 nodes x 2 CPUs: instructions, locks, allocations, remote lines of each operation (see --nodes)"


def plan_of(arguments):
    nodes = tuple(sorted(set(arguments.nodes or (2, 16))))
    if not set(nodes) <= set(MACHINES):
        raise LabError(f"--nodes: choose from {', '.join(map(str, MACHINES))}", status=2)
    samples = 40 if arguments.samples is None else arguments.samples
    if not 8 <= samples <= 256:
        raise LabError(f"--samples {samples}: must be 8 to 256", status=2)
    if arguments.functions is not None and arguments.functions < 1:
        raise LabError(f"--functions {arguments.functions}: must be at least 1", status=2)
    rows = tuple(name for name in (arguments.rows or "").split(",") if name)
    return steps.Plan(nodes=nodes, rows=rows, samples=samples, functions=bool(arguments.functions))


def show(outcomes):
    """Print those that failed; returns how many did."""
    failed = [outcome for outcome in outcomes if outcome.failed]
    for outcome in failed:
        progress.say(f"FAILED {outcome.name}\n    " + "\n    ".join(outcome.why.splitlines()))
    return len(failed)


def bench(arguments):
    start = time.monotonic()
    plan = plan_of(arguments)
    paths.try_output(arguments.json, arguments.plot)
    results = steps.measure(plan)
    steps_report.tables(results)
    if arguments.functions:
        steps_report.functions(results, arguments.functions)
    checks = steps_limits.calibration(results)
    if arguments.cross_check:
        checks += steps_limits.cross_check(results)
        progress.say("the processor's clock agrees" if not show(checks[-len(results.nodes()):]) else "the processor's clock disagrees")
    if arguments.json:
        steps_report.write_json(arguments.json, results)
    if arguments.plot:
        steps_report.picture(arguments.plot, results)
    progress.say(f"counting took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if show(checks) else 0


def no_symbol(system_map):
    """Whether the kernel without Hydra, with which all others are compared, has no symbol of Hydra's."""
    found = [name for name in system_map.split() if "hydra" in name.lower()]
    return Outcome("steps, no symbol of Hydra where it is configured out", "failed" if found else "passed", " ".join(found[:20]))


def row_names():
    return [row.name for row in steps.known_rows() if row.name not in steps.CALIBRATION and not row.more]


def stage(only=""):
    """Outcomes of all limits, or of the rows in whose name is a word."""
    names = [name for name in row_names() if only in name]
    plan = dataclasses.replace(STAGE, rows=tuple(names) if only else ())
    results = steps.measure(plan)
    steps_report.tables(results)
    judged = steps_limits.judge(results, rows=names)
    steps_report.limits(judged)
    system_map = (build.kernel("off").parent / "System.map").read_text(encoding="ascii")
    return [no_symbol(system_map)] + steps_limits.calibration(results) + steps_limits.cross_check(results) + judged
