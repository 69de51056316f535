# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench steps and the stage steps of ./hydra test."""
import dataclasses
import time

from lab import build, progress, steps, steps_limits, steps_report
from lab.errors import LabError
from lab.ktap import Outcome

MACHINES = (1, 2, 4, 8, 16)
# Short: what has a limit, and as few samples as more than half of can still agree. The large machine is for what must not
# grow with the number of nodes.
STAGE = steps.Plan(nodes=(2, 16), policies=("off", "off-split", "unused", "hydra", "hydra-split"), samples=16, access_samples=4)


def listing():
    return f"{'steps':10} 2 and 16 nodes x 2 CPUs: instructions, locks, allocations, remote lines of each operation (see --nodes)"


def plan_of(arguments):
    nodes = tuple(sorted(set(arguments.nodes or (2, 16))))
    if not set(nodes) <= set(MACHINES):
        raise LabError(f"--nodes: choose from {', '.join(map(str, MACHINES))}", status=2)
    if not 8 <= arguments.samples <= 256:
        raise LabError(f"--samples {arguments.samples}: must be 8 to 256", status=2)
    rows = tuple(name for name in (arguments.rows or "").split(",") if name)
    return steps.Plan(nodes=nodes, rows=rows, samples=arguments.samples, functions=arguments.functions > 0)


def show(outcomes):
    """Print those that failed; returns how many did."""
    failed = [outcome for outcome in outcomes if outcome.failed]
    for outcome in failed:
        progress.say(f"FAILED {outcome.name}\n    " + "\n    ".join(outcome.why.splitlines()))
    return len(failed)


def bench(arguments):
    start = time.monotonic()
    results = steps.measure(plan_of(arguments))
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
    """The kernel that all is compared with: has it really nothing of Hydra?"""
    found = [name for name in system_map.split() if "hydra" in name.lower()]
    return Outcome("steps, no symbol of Hydra where it is configured out", "failed" if found else "passed", " ".join(found[:20]))


def stage(only=""):
    """Outcomes of all limits, or of the rows in whose name is a word."""
    names = [row.name for row in steps.known_rows() if only in row.name and row.name not in steps.CALIBRATION]
    if not names:
        raise LabError(f"no row is called like '{only}'", "./hydra bench steps lists them.")
    plan = dataclasses.replace(STAGE, rows=tuple(names) if only else ())
    results = steps.measure(plan)
    steps_report.tables(results)
    judged = steps_limits.judge(results, rows=names)
    steps_report.limits(judged)
    system_map = (build.kernel("off").parent / "System.map").read_text(encoding="ascii")
    return [no_symbol(system_map)] + steps_limits.calibration(results) + steps_limits.cross_check(results) + judged
