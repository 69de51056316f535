# SPDX-License-Identifier: GPL-2.0-only
"""Interrupts of RadixVM's three patterns of sharing (its figures 5 and 9), under each policy."""
import collections

from lab import policies
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter.steps import CLOCK, COUNTED, UNWATCHED

PATTERNS = ("local", "pipeline", "global")
CASES = {"local": "local", "same_node": "pipeline within a node", "other_node": "pipeline to the next node", "global": "global"}
LEAST_AGREEING = 0.75        # of the operations of a case, so many have to agree to the unit: each of up to 64 CPUs may run Linux's own threads now and then


def steps(rounds, seconds):
    return tuple(Step(pattern, policy, ("--policy", policy),
                      ("patterns", pattern, "--rounds", str(rounds), "--seconds", str(seconds)))
                 for pattern in PATTERNS for policy in policies.POLICIES)


def usual(counts):
    """(the number on which most operations agree, the share of them that does)."""
    value, times = collections.Counter(counts).most_common(1)[0]
    return value, times / len(counts)


def taken(step, seen):
    lists = [("same_node", seen["same_node"]), ("other_node", seen["other_node"])] if step.case == "pipeline" else [("", seen["same_node"])]
    made = []
    for name, counts in lists:
        value, agreeing = usual(counts)
        prefix = f"{name}_" if name else ""
        made += [(f"{prefix}interrupts", value, "interrupts"), (f"{prefix}agreeing_share", agreeing, "share"),
                 (f"{prefix}operations", len(counts), "operations")]
    return made


def expected(policy, case, nodes, per_node):
    """Interrupts of one operation."""
    others = nodes * per_node - 1
    if policy in ("linux", "mitosis") or case == "global":
        return others
    if policy == "hydra":
        return 2 * per_node - 1 if case == "other_node" else per_node - 1
    return 0 if case == "local" else 1


def why(policy, case):
    if policy in ("linux", "mitosis") or case == "global":
        return "all other CPUs"
    if policy == "hydra":
        return "the other CPUs of the two nodes" if case == "other_node" else "the other CPUs of its node"
    return "none" if case == "local" else "the CPU which mapped the page"


def metric_of(case):
    """(the case of the step, the beginning of the metric)."""
    return ("pipeline", f"{case}_") if case.endswith("_node") else (case, "")


def check_for(name, nodes, per_node):
    def check(values, columns):
        for case, what in CASES.items():
            pattern, prefix = metric_of(case)
            for policy in columns:
                seen, agreeing = (values.get(name, pattern, policy, f"{prefix}{metric}") for metric in ("interrupts", "agreeing_share"))
                wanted = expected(policy, case, nodes, per_node)
                yield Check(name, f"{what}, {policies.called(policy)}: exactly {wanted} ({why(policy, case)})",
                            f"{seen} in {100 * agreeing:.0f} % of the operations", seen == wanted and agreeing >= LEAST_AGREEING)
    return check


def lines(name, nodes, per_node):
    cpus = nodes * per_node
    return (
        Line(name, "local", "interrupts", f"local: interrupts when a thread maps, writes and unmaps a page, {cpus} CPUs busy",
             "No other CPU has the page."),
        Line(name, "pipeline", "same_node_interrupts", "pipeline: the next thread, on the same node, writes to the page and unmaps it",
             "One other CPU has the page: that of the thread which mapped it."),
        Line(name, "pipeline", "other_node_interrupts", "pipeline: the next thread is on the next node",
             "Again one other CPU has the page. Hydra interrupts all CPUs of both nodes."),
        Line(name, "global", "interrupts", "global: all threads write to the pages before one unmaps them",
             f"All {cpus - 1} other CPUs have the pages: no policy can spare one."))


PAPER = ("Figures 5 and 9 of RadixVM show pages written per second on up to 80 cores. Its text counts interrupts: local none, pipeline \"exactly one "
         "remote TLB shootdown\" for each munmap, global all cores. With shared page tables (figure 9) local and pipeline interrupt all cores, at "
         "some 500,000 cycles each, and \"grind to a halt\". Our threads take turns, so that each operation's interrupts are known. So what RadixVM also "
         "gains, munmap and mmap at the same time on several cores, is not shown, and Hydra does not have it: Linux's lock of the address space "
         "is as it was. ABIS has no figure of these patterns; its Apache serves each page as in local (-90 %).")


def bench(name, nodes, per_node, memory, rounds, seconds, **more):
    return Bench(name, f"interrupts of RadixVM's patterns local, pipeline, global on {nodes * per_node} CPUs (figures 5 and 9)",
                 vm.Machine(nodes, per_node, memory, append=[CLOCK, UNWATCHED], emulator=COUNTED), ("patterns",), steps(rounds, seconds), lines(name, nodes, per_node), taken,
                 check_for(name, nodes, per_node), PAPER, **more)


def on(nodes):
    return bench("pipeline", nodes, 2, "2G", 4, 20, on=on, sizes=tuple(range(2, 17)), why_fixed="a page goes from one node to the next")


BENCH = on(8)
LARGE = bench("pipeline-64", 8, 8, "4G", 2, 20, why_fixed="it is the measurement 'pipeline' on 64 CPUs; with another number, use ./hydra bench pipeline --nodes N")
