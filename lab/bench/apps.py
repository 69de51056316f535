# SPDX-License-Identifier: GPL-2.0-only
"""What users of JIT compilers, of WebAssembly and of stores that save themselves complain of: interrupts for changes that few threads need to know of."""
import statistics

from lab import policies
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter.steps import CLOCK, COUNTED, UNWATCHED

NODES, PER_NODE = 8, 2
CPUS = NODES * PER_NODE
ROUNDS = 14                  # so that each memory of the pool has been on all nodes before the last round
NEARLY = 0.25                # of an interrupt for each operation: a CPU may run Linux's own threads now and then
LINKED = 9                   # eight flushes that reach a core which links a table in vain, and one that cuts the link
# By policy, in their order: Linux, Mitosis, RadixVM, ABIS, Hydra.
EXPECTED = {"jit-new": (15, 15, 0, 0, 15), "jit-patch": (30, 30, 30, 15, 30), "wasm-own": (15, 15, 0, 0, 1), "wasm-pool": (15, 15, 0, 0, 15),
            "save": (15, 15, 0, 0, 1)}
PATTERNS = {
    "jit-new": ("a JIT compiler writes a page of new code (mprotect to write, write, mprotect to run); all threads run other code of the same 2 MiB",
                "No other thread has run the page. Run it under ABIS or RadixVM: Hydra tells page tables apart, not pages, and saves nothing."),
    "jit-patch": ("the same with code that all threads run",
                  "All threads need to know of the first mprotect. No thread has run the page again before the second: ABIS saves that one. Without ABIS, stay with Linux."),
    "wasm-own": ("a WebAssembly instance's memory is allowed, written, given back and forbidden again, each thread with a memory of its own",
                 "No other thread has the memory. Run it under Hydra, or, where a node has many busy CPUs, under ABIS or RadixVM."),
    "wasm-pool": ("a WebAssembly instance's memory is used like that, and the memories go round among the threads of all nodes",
                  "Memories keep their page tables, so all nodes come to share them. Run it under ABIS or RadixVM, or give each node a pool and run it under Hydra."),
    "save": ("a thread writes to a page of its part of a store that a child process saves (as BGSAVE of Redis), so that the page is copied",
             "No other thread has the page. Run stores whose threads have parts of their own under Hydra, ABIS or RadixVM; where one thread "
             "writes everything and no other thread is busy, there is nothing to save: stay with Linux."),
}


def steps():
    return tuple(Step(pattern, policy, ("--policy", policy), ("apps", pattern, "--rounds", str(ROUNDS)))
                 for pattern in PATTERNS for policy in policies.POLICIES)


def taken(_, seen):
    counts = seen["interrupts"]
    return [("interrupts_per_op", statistics.fmean(counts[-seen["cpus"]:]), "interrupts"), ("mean_per_op", statistics.fmean(counts), "interrupts"),
            ("operations", len(counts), "operations"), ("pagetable_kib", seen["pagetable_kib"], "KiB"), ("fills", seen["fills"], "fills")]


def lines():
    for pattern, (title, words) in PATTERNS.items():
        yield Line("apps", pattern, "interrupts_per_op", f"{pattern}: interrupts when {title}", words)
        yield Line("apps", pattern, "pagetable_kib", f"{pattern}: page tables, KiB", "What the interrupts saved cost in memory.")


def check(values, columns):
    def get(pattern, policy):
        return values.get("apps", pattern, policy, "interrupts_per_op")
    for pattern in PATTERNS:
        for policy in columns:
            seen, wanted = get(pattern, policy), EXPECTED[pattern][policies.POLICIES.index(policy)]
            yield Check("apps", f"{pattern}, {policies.called(policy)}: {wanted} interrupts for each operation of the last round", f"{seen:.2f}",
                        abs(seen - wanted) <= NEARLY)
    for policy in [policy for policy in ("radixvm", "abis") if policy in columns]:
        mean, operations = (values.get("apps", "wasm-pool", policy, metric) for metric in ("mean_per_op", "operations"))
        yield Check("apps", f"wasm-pool, {policies.called(policy)}: at most {LINKED} interrupts for each memory in all rounds: the first user's core is "
                    "told until its link is cut", f"{mean * operations / CPUS:.2f}", mean * operations <= LINKED * CPUS)


BENCH = Bench("apps", "interrupts of a JIT compiler, a pool of WebAssembly memories and a store that saves itself, and which policy is for them",
              vm.Machine(NODES, PER_NODE, "2G", append=[CLOCK, UNWATCHED], emulator=COUNTED), ("apps",), steps(), tuple(lines()), taken, check,
              "No paper has these figures. The programs are ours, small, and take turns: interrupts are counted, and how often a real program does such an "
              "operation is left out.", why_fixed="its memories go round among 16 threads so that each has been on all 8 nodes before the last round")
