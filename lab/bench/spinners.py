# SPDX-License-Identifier: GPL-2.0-only
"""Interrupts of mprotect and munmap of one page, by the number of busy threads on each node: the paper's figures 1 and 10."""
from lab import policies
from lab.bench.core import Bench, Step
from lab.bench.patterns import LEAST_AGREEING, usual
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter.steps import CLOCK, COUNTED, UNWATCHED

NODES, PER_NODE = 8, 8       # nodes unless --nodes says otherwise
THREADS = (0, 1, 2, 4, 8)      # on each node; 0: the calling thread is alone
ALONE_ROUNDS = 40            # of one thread, so that nine of ten operations are more than one
CALLS = {"protect": "mprotect", "local": "mmap, touch, munmap"}


def steps():
    return tuple(Step(f"{call} {threads}", policy, ("--policy", policy),
                      ("patterns", call, "--per-node", str(threads), "--rounds", str(3 if threads else ALONE_ROUNDS), "--seconds", "3"))
                 for call in CALLS for threads in THREADS for policy in policies.POLICIES)


def taken(_, seen):
    value, agreeing = usual(seen["same_node"])
    return [("interrupts", value, "interrupts"), ("agreeing_share", agreeing, "share"), ("operations", len(seen["same_node"]), "operations")]


def expected(policy, threads, nodes=NODES):
    if not threads:
        return 0
    return {"linux": nodes * threads - 1, "mitosis": nodes * threads - 1, "hydra": threads - 1}.get(policy, 0)


def busy(threads, node="node"):
    return f"{threads} busy thread{'s' * (threads > 1)} on each {node}" if threads else "no thread busy but the caller"


def check_on(nodes):
    def check(values, columns):
        for call in CALLS:
            for threads in THREADS:
                for policy in columns:
                    seen, agreeing = (values.get("spinners", f"{call} {threads}", policy, metric) for metric in ("interrupts", "agreeing_share"))
                    wanted = expected(policy, threads, nodes)
                    yield Check("spinners", f"{CALLS[call]}, {busy(threads)}, {policies.called(policy)}: exactly {wanted}",
                                f"{seen} in {100 * agreeing:.0f} % of the operations", seen == wanted and agreeing >= LEAST_AGREEING)
    return check


def lines(nodes):
    return tuple(Line("spinners", f"{call} {threads}", "interrupts", f"interrupts per {what}, {busy(threads, f'of {nodes} nodes')}", "") for call, what in CALLS.items() for threads in THREADS)


def on(nodes):
    return Bench("spinners", "interrupts of mprotect and munmap by the number of busy threads per node (figures 1 and 10)",
                 vm.Machine(nodes, PER_NODE, "4G", append=[CLOCK, UNWATCHED], emulator=COUNTED), ("patterns",), steps(), lines(nodes), taken, check_on(nodes),
                 "Figures 1 and 10 of the Hydra paper: with threads that spin on all nodes, a call takes up to 40 times (mprotect) and 30 times (munmap) as long "
                 "under Linux and Mitosis as without; under Hydra as long as without spinners on other nodes. The time is that of the interrupts, which an emulator "
                 "shows as counts only.",
                 on=on, sizes=tuple(range(2, 9)), why_fixed=f"each node has {PER_NODE} CPUs, and a machine of the lab 64 at most")


BENCH = on(NODES)
