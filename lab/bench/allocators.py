# SPDX-License-Identifier: GPL-2.0-only
"""Interrupts of allocators that give memory back: the paper's figures 11 and 12."""
import statistics

from lab import policies
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter.steps import CLOCK, COUNTED, UNWATCHED

NODES = 8                    # unless --nodes says otherwise
SEGMENTS = 16                # of each thread at any time, where there are several; the paper has 256
PACKAGES = ("libjemalloc2", "libtcmalloc-minimal4")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
NO_DECAY = "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0"
# name: (the words before the program, those after it, what it is called in the table)
ALLOCATORS = {
    "mmap": ((), ("--mmap",), "mmap and munmap"),
    "glibc": ((), (), "glibc's malloc"),
    "tcmalloc": (("env", f"LD_PRELOAD={LIBRARIES}/libtcmalloc_minimal.so.4"), (), "tcmalloc"),
    "jemalloc": (("env", f"LD_PRELOAD={LIBRARIES}/libjemalloc.so.2"), (), "jemalloc, which keeps freed memory for seconds"),
    "jemalloc-0": (("env", f"LD_PRELOAD={LIBRARIES}/libjemalloc.so.2", NO_DECAY), (), "jemalloc that gives memory back at once (decay 0)"),
}
# Where memory goes back all the time, and not next to memory of other nodes.
MANY, FEWER = ("mmap stateful", "jemalloc-0 stateless", "jemalloc-0 stateful"), 0.9
# Next to memory of other nodes, so by marks alone.
BY_MARKS = "mmap stateless"
# A CPU on which a thread of the kernel runs just then is not interrupted.
LAZY = 0.1
KINDS = {"stateless": ("0", "each segment is freed before the next one is allocated"),
         "stateful": (str(SEGMENTS), f"each thread holds {SEGMENTS} segments, frees one and allocates one")}


def steps():
    return tuple(Step(f"{allocator} {kind}", policy, ("--policy", policy), (*before, "allocate", *after, "--segments", segments))
                 for allocator, (before, after, _) in ALLOCATORS.items() for kind, (segments, _) in KINDS.items() for policy in policies.POLICIES)


def taken(_, seen):
    return [("interrupts_per_op", statistics.fmean(seen["interrupts"]), "interrupts"), ("operations", len(seen["interrupts"]), "operations"),
            ("pagetable_kib", seen["pagetable_kib"], "KiB"), ("fills", seen["fills"], "fills")]


# What a line means, where the allocator decides it.
WORDS = {"mmap stateless": "All threads get the same addresses in turn. The page table at the upper end stays, because a stack lies in its 2 MiB, too. "
                           "So all nodes come to share it, and a flush by table interrupts them all; marks tell which of them has used the segment.",
         "tcmalloc": "tcmalloc gives no memory back in so short a run.", "jemalloc": "Little memory goes back in so short a run.",
         "glibc": "glibc keeps freed segments, and gives back what is left over."}


def lines(row, nodes):
    for kind, (_, what) in KINDS.items():
        for allocator, (_, _, called) in ALLOCATORS.items():
            case = f"{allocator} {kind}"
            words = [f"A thread on each of {nodes} nodes; {what}." if nodes > 1 else f"One thread on one node, so no CPU is interrupted; {what}.", WORDS.get(case) or WORDS.get(allocator, "")]
            yield Line(row, case, "interrupts_per_op", f"{kind}, {called}: interrupts for each allocation and free", " ".join(filter(None, words)))
    for allocator in ("mmap", "jemalloc"):
        yield Line(row, f"{allocator} stateful", "pagetable_kib", f"stateful, {ALLOCATORS[allocator][2]}: page tables, KiB", "")


def check_on(row, nodes):
    def check(values, columns):
        def get(case, policy):
            return values.get(row, case, policy, "interrupts_per_op")
        for allocator in ALLOCATORS:
            for kind in KINDS:
                case = f"{allocator} {kind}"
                linux = get(case, "linux")
                for policy in columns[1:]:
                    seen = get(case, policy)
                    yield Check(row, f"{case}, {policies.called(policy)}: no more than Linux, within {LAZY:g}", f"{seen:.2f} against {linux:.2f}", seen <= linux + LAZY)
        # What is left does not depend on the number of nodes, and Linux interrupts fewer on few.
        most = (1 - FEWER) * max(1, (NODES - 1) / max(1, nodes - 1))
        for case in (*MANY, BY_MARKS):
            for policy in [policy for policy in ("radixvm", "abis", *(("hydra",) if case in MANY else ())) if policy in columns]:
                seen, linux = get(case, policy), get(case, "linux")
                yield Check(row, f"{case}, {policies.called(policy)}: at least {100 * (1 - most):.0f} % fewer than Linux", f"{seen:.2f} against {linux:.2f}",
                            seen <= most * linux)
        for kind in KINDS:
            for policy in [policy for policy in ("linux", "mitosis") if policy in columns]:
                seen = get(f"mmap {kind}", policy)
                yield Check(row, f"mmap {kind}, {policies.called(policy)}: each munmap interrupts all {nodes - 1} other threads, but one on whose CPU the kernel works", f"{seen:.2f}",
                            nodes - 1 - LAZY <= seen <= nodes - 1)
    return check


def on(nodes, row="allocators"):
    """row: what its values are called, where several sizes are shown together."""
    return Bench(row, "interrupts of allocators that give memory back (figures 11 and 12)",
                 vm.Machine(nodes, 1, "4G", append=[CLOCK, UNWATCHED, "norandmaps"], emulator=COUNTED), ("allocate",), steps(), tuple(lines(row, nodes)), taken, check_on(row, nodes),
                 "Figures 11 and 12 of the Hydra paper: time of malloc and free on 1 to 8 sockets, a thread on each, segments of 3.3 MB in the mean (gamma "
                 "distribution). Mitosis takes 1.4 to 1.9 times as long as Linux; Hydra is faster than both. Ours counts interrupts: an emulator's "
                 "times do not tell what a change of many copies costs.", packages=PACKAGES,
                 on=on, sizes=tuple(range(1, 17)), why_fixed="a thread on each node works at the same time as those of the others")


BENCH = on(NODES)
