# SPDX-License-Identifier: GPL-2.0-only
"""Changes to pages of one thread, in a page table that all nodes share: what ABIS measures in its figure 5, by the grain of the filter."""
import statistics

from lab import policies
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter.steps import CLOCK, COUNTED, UNWATCHED

NODES, PER_NODE = 8, 2
CPUS = NODES * PER_NODE
ROUNDS = 12                  # the first core of a table is told of some changes until its link is cut
NEARLY = 0.25                # of an interrupt for each operation: a CPU may run Linux's own threads now and then
COLUMNS = {**{policy: ("--policy", policy) for policy in ("linux", "mitosis", "hydra")},
           "node, entry": ("--policy", "hydra", "--filter", "entry"), "node, accessed": ("--policy", "hydra", "--filter", "accessed"),
           **{policy: ("--policy", policy) for policy in ("radixvm", "abis")}}
CHANGES = {"drop": "a thread writes to its page and gives it back (madvise)", "protect": "a thread protects its page, or allows writing again (mprotect)",
           "copy": "a thread writes to a page of a private file mapping (copy on write)", "migrate": "a thread's page moves to another node (move_pages)",
           "sync": "a thread writes to a page of a file and waits until the page is written back (msync)",
           "reclaim": "a thread's page of a file is reclaimed (MADV_PAGEOUT)"}


def steps():
    return tuple(Step(change, column, settings, ("sharing", change, "--rounds", str(ROUNDS)))
                 for change in CHANGES for column, settings in COLUMNS.items())


def taken(_, seen):
    counts = seen["interrupts"]
    return [("interrupts_per_op", statistics.fmean(counts[-seen["cpus"]:]), "interrupts"), ("mean_per_op", statistics.fmean(counts), "interrupts"),
            ("operations", len(counts), "operations"), ("pagetable_kib", seen["pagetable_kib"], "KiB"), ("fills", seen["fills"], "fills")]


def expected(change, column):
    """Interrupts of one operation: all other CPUs, those of the node, none."""
    all_others, of_node = CPUS - 1, PER_NODE - 1
    by_table, by_node, by_core = all_others, of_node, 0
    if change == "reclaim":
        # Two flushes: of the page, and of the page that the thread before had reclaimed, in whose domain that thread is.
        by_table, by_node, by_core = 2 * all_others, of_node + (of_node + PER_NODE) / 2, 1
    if column in ("linux", "mitosis", "hydra"):
        return by_table
    if column.startswith("node"):
        # Each node has prefetched all pages of the table, and a page that moves or is written back stays in the copies.
        return by_table if change in ("migrate", "sync") and column == "node, entry" else by_node
    return by_core


def check(values, columns):
    for change in CHANGES:
        for column in columns:
            seen, wanted = values.get("sharing", change, column, "interrupts_per_op"), expected(change, column)
            if (change, column) == ("reclaim", "node, entry"):
                yield Check("sharing", f"{change}, {column}: no more than Linux (each fault also maps pages nearby, and nodes prefetch them)", f"{seen:.2f}",
                            seen <= expected(change, "linux"))
                continue
            if (change, column) == ("protect", "node, entry"):
                yield Check("sharing", f"{change}, {column}: fewer than half of Linux's (pages of the same protection are prefetched now and then)",
                            f"{seen:.2f}", seen < CPUS / 2)
                continue
            yield Check("sharing", f"{change}, {policies.called(column)}: {wanted:g} interrupts for each operation of the last round", f"{seen:.2f}",
                        abs(seen - wanted) <= NEARLY)


WORDS = {"migrate": "By entry all nodes are told, for all have prefetched the entry and keep it. RadixVM prefetches nothing, and accessed bits tell.",
         "sync": "By entry all nodes are told, for all have prefetched the entry and keep it.",
         "reclaim": "Linux flushes twice: the page, and at the next change of the address space whatever was reclaimed before, which here is the page of "
                    "the thread before. A finer filter knows whose page that was."}
LINES = [*(Line("sharing", change, "interrupts_per_op", f"interrupts when {what}; all nodes use the page table, no other thread the page",
                WORDS.get(change, "Hydra interrupts the nodes which share the table. With a finer filter no other domain is concerned."))
           for change, what in CHANGES.items()),
         *(Line("sharing", change, "pagetable_kib", f"page tables, KiB: {change}", "What telling pages apart costs: each domain has a copy.")
           for change in ("drop",))]

BENCH = Bench("sharing", "changes to pages of one thread in a page table that all nodes share (figure 5 of ABIS)",
              vm.Machine(NODES, PER_NODE, "2G", append=[CLOCK, UNWATCHED], emulator=COUNTED), ("sharing",), steps(), tuple(LINES), taken, check,
              "Figure 5 of ABIS: migration of memory sends 92 % fewer interrupts than Linux, copy on write by several threads 97 % fewer, msync 98 % fewer, reclaim "
              "of a mapped file nearly all. Its anonymous reads take 9 % longer, because ABIS inserts entries into the TLB by software. No policy here "
              "does that: the accessed bits of each domain's own copies tell, and a page fault executes the same instructions by accessed as by table "
              "(./hydra bench operations). ABIS measures on 48 threads of two nodes, with pages that some threads share; ours share none.", disk=True,
              why_fixed="the number of rounds, after which the first core of a table is no longer told, was found for 16 CPUs")
