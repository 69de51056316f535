# SPDX-License-Identifier: GPL-2.0-only
"""The papers' programs, small, under each policy, and a program whose memory and page tables are on nodes of choice: counts, and time by the cost model."""
import dataclasses

from lab import policies
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure import model
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter import misses
from lab.meter.steps import CLOCK, COUNTED, UNWATCHED

NODES, PER_NODE = 4, 2
APPEND = [CLOCK, UNWATCHED, "numa_balancing=disable", "norandmaps"]
# What each does, by workloads/miniature_programs.c.
PROGRAMS = {"gups": "random words of a table are updated", "btree": "keys are looked up in an index", "hashjoin": "rows are looked up in a hash table",
            "xsbench": "cross sections at an energy are looked up", "canneal": "elements that pointers connect change places",
            "pagerank": "ranks are summed along links", "wordcount": "words are mapped to lists and counted",
            "dedup": "chunks are copied, compared and unmapped by one thread after the other"}
MAPPING = ("wordcount", "dedup")         # they map memory in each pass
WORDS = ("--operations", "262144")       # of wordcount in a pass
# Blocks of 1 to 128, as in RadixVM's figure 4 (64 KiB and 8 MiB).
LARGE_BLOCKS, SMALL_BLOCKS = ("--block-kib", "2048"), ("--block-kib", "16")
CASES = {**{name: (name,) for name in PROGRAMS if name not in MAPPING}, "wordcount": ("wordcount", *WORDS, *LARGE_BLOCKS),
         "wordcount, small blocks": ("wordcount", *WORDS, *SMALL_BLOCKS), "dedup": ("dedup", "--mib", "8"),
         "gups, 8 MiB": ("gups", "--mib", "8"), "gups, 256 MiB": ("gups", "--mib", "256"),
         "xsbench, 4 threads": ("xsbench", "--per-node", "1"), "xsbench, 2 threads": ("xsbench", "--per-node", "1", "--nodes", "2")}
PHASES = ("load", "first", "steady")
COUNTS = ("instructions", "interrupts", "faults", "fills")
UNIFORM = ("gups", "btree", "hashjoin", "canneal")       # every thread is as likely to use any page as another
BY_ENTRY = ("radixvm", "abis")           # without prefetching: each page's entry is filled alone, so the second pass has fills, too
NEAR_ENOUGH = 0.98           # of the walks: code and stacks are the program's own
ALIKE = 0.05                 # the same program has as many walks under each policy
TOO_MANY = 1.02              # page tables of Hydra for each of Mitosis's


def nodes_of(words):
    """The nodes that have threads."""
    return int(words[words.index("--nodes") + 1]) if "--nodes" in words else NODES


def phase_counts(get, phase):
    """The counts of a phase for the cost model. get: a function of a metric."""
    of_walks = ("near_walks", "far_walks", "near_lines", "far_lines") if phase == "steady" else ()
    return {"instructions": get(f"{phase}_instructions"), **model.interrupts(get(f"{phase}_interrupts")), "faults": get(f"{phase}_faults"),
            **{metric: get(metric) for metric in of_walks}}


def taken_of(seen, share):
    """share: of the lines of data, those on the node of the CPU that takes them.

    Walks are those of the second pass. An access that walks also takes a line of data from memory: what no TLB has, no cache has either.
    """
    (sample,) = seen["sampled"]
    walks = misses.walks(sample, seen["map"], seen["domains"])
    both = walks["near"] + walks["far"]
    counts = {"near_walks": (walks["near"], "walks"), "far_walks": (walks["far"], "walks"), "near_lines": (both * share, "lines"),
              "far_lines": (both * (1 - share), "lines"), **{f"{phase}_{metric}": (seen[phase][metric], metric) for phase in PHASES for metric in COUNTS}}
    yield from ((metric, value, unit) for metric, (value, unit) in counts.items())
    yield "walks_per_op", both / seen["operations"], "walks"
    yield "near_walks_share", walks["near"] / max(1, both), "share"
    yield "pagetable_kib", seen["pagetable_kib"], "KiB"
    yield "maps", seen["maps"], "calls"
    for phase in ("load", "steady"):
        yield f"model_{phase}_ns_per_op", model.ns(phase_counts(lambda metric: counts[metric][0], phase)) / seen["operations"], "ns"


def taken(step, seen):
    """As if each thread used all of the data alike, wherever that is."""
    return taken_of(seen, 1 / nodes_of(step.command))


def steps():
    return tuple(Step(case, policy, ("--policy", policy), ("miniatures", *words)) for case, words in CASES.items() for policy in policies.POLICIES)


def check_alike(name, get, case, column, linux):
    """The same program does the same work, wherever its page tables are."""
    seen, wanted = (get(case, which, "near_walks") + get(case, which, "far_walks") for which in (column, linux))
    yield Check(name, f"{case}, {policies.called(column)}: page walks (model) within {100 * ALIKE:g} % of Linux's", f"{seen:,} and {wanted:,}",
                abs(seen - wanted) <= ALIKE * wanted)


def check(values, columns):
    def get(*where):
        return values.get("miniatures", *where)
    for case in CASES:
        name, nodes = CASES[case][0], nodes_of(CASES[case])
        if name in UNIFORM:
            seen = get(case, "linux", "near_walks_share")
            yield Check("miniatures", f"{case}, Linux: one of {nodes} page walks (model) reads a table of its own node, within 5 %", f"{100 * seen:.1f} %",
                        abs(seen - 1 / nodes) <= 0.05)
        for column in [column for column in columns if column != "linux"]:
            called = policies.called(column)
            if name not in MAPPING:
                yield from check_alike("miniatures", get, case, column, "linux")
                if column not in BY_ENTRY:
                    seen = get(case, column, "steady_fills")
                    yield Check("miniatures", f"{case}, {called}: no fills in the second pass", f"{seen}", seen == 0)
                seen = get(case, column, "near_walks_share")
                yield Check("miniatures", f"{case}, {called}: page walks (model) that read a table of their own node: at least {100 * NEAR_ENOUGH:g} %",
                            f"{100 * seen:.1f} %", seen >= NEAR_ENOUGH)
        if {"hydra", "mitosis"} <= set(columns):
            seen = get(case, "hydra", "pagetable_kib") / get(case, "mitosis", "pagetable_kib")
            yield Check("miniatures", f"{case}: page tables of Hydra at most {TOO_MANY} of Mitosis's", f"{seen:.2f}", seen <= TOO_MANY)


def lines():
    for case in CASES:
        what = f"{case}: {PROGRAMS[CASES[case][0]]}"
        yield Line("miniatures", case, "model_steady_ns_per_op", f"{what}: time of an operation in the second pass, ns (model)", "")
        yield Line("miniatures", case, "model_load_ns_per_op", f"{case}: time of loading, ns for each operation (model)", "")
        yield Line("miniatures", case, "near_walks_share", f"{case}: page walks that read a table of their own node (model of TLBs)", "", "most")
        yield Line("miniatures", case, "walks_per_op", f"{case}: page walks of an operation (model of TLBs)", "", "")
        yield Line("miniatures", case, "pagetable_kib", f"{case}: page tables, KiB", "")
        yield Line("miniatures", case, "steady_interrupts", f"{case}: interrupts in the second pass", "")


MODEL = ("Times are those of the cost model (lab/measure/model.py), page walks those of a model of TLBs with 64 and 1,536 entries and 32 cached "
         "PDEs; an access that walks takes a line of data from memory, too. Caches, contention for locks and memory, and the cache lines that CPUs "
         "take from each other have no price.")

# On a real machine: memory that no cache holds, and times, which mean something there.
LARGE = ("--mib", "2048", "--operations", "4194304")


def taken_real(_, seen):
    yield from ((f"{phase}_us_per_op", 1e6 * seen[phase]["seconds"] / seen["operations"], "us") for phase in PHASES)
    yield from ((f"{phase}_{metric}", seen[phase][metric], metric) for phase in PHASES for metric in ("interrupts", "faults", "fills"))
    yield "pagetable_kib", seen["pagetable_kib"], "KiB"


def lines_real():
    for name, what in PROGRAMS.items():
        yield Line("miniatures", name, "steady_us_per_op", f"{name}: {what}: time of an operation in the second pass", "")
        yield Line("miniatures", name, "load_us_per_op", f"{name}: time of loading, for each operation", "")
        yield Line("miniatures", name, "steady_interrupts", f"{name}: interrupts in the second pass", "")
        yield Line("miniatures", name, "pagetable_kib", f"{name}: page tables, KiB", "")


BENCH = Bench(
    "miniatures", "the papers' programs, small: page walks, page tables, interrupts, time by a cost model (table 4, figure 8; figure 4 of RadixVM)",
    vm.Machine(NODES, PER_NODE, "2G", append=APPEND, emulator=COUNTED), ("miniatures",), steps(), tuple(lines()), taken, check,
    "Figure 8 of the Hydra paper, 8 sockets, 85 to 160 GB: under Mitosis and Hydra programs take about the same time, less than under Linux "
    "(Canneal: 1.22 and 1.19 times as fast); loading takes Mitosis up to 21 % longer, and Hydra as long as Linux. Table 4: Hydra's page tables are "
    "1.4 to 2.2 times Linux's, but 7.8 times for XSBench; Mitosis's are 8 times. Figure 4 of RadixVM: Metis, with blocks of 8 MB and of 64 KB. "
    f"{MODEL}", limit=1800, plugin=misses.plugin, why_fixed="its limits are those of eight CPUs on four nodes")
BENCH = dataclasses.replace(BENCH, real=dataclasses.replace(
    BENCH, steps=tuple(Step(name, policy, ("--policy", policy), ("miniatures", name, *LARGE)) for name in PROGRAMS for policy in policies.POLICIES),
    lines=tuple(lines_real()), taken=taken_real))

# --- Memory and page tables on nodes of choice

# As table 2 of the Hydra paper: the first node's thread loads, so page tables are there; (the node of the thread that works, that of the data, policy).
LINUX, HYDRA = ("--policy", "linux"), ("--policy", "hydra")
PLACES = {"linux": (0, 0, LINUX), "LP-RD": (0, 1, LINUX), "RP-LD": (1, 1, LINUX), "RP-RD": (1, 0, LINUX), "RP-LD-M": (1, 1, ("--policy", "mitosis")),
          "RP-LD-H": (1, 1, (*HYDRA, "--prefetch", "0")), "RP-LD-HP": (1, 1, (*HYDRA, "--prefetch", "9"))}
PLACED = ("gups", "btree", "hashjoin", "xsbench", "canneal")
NEAR = {"linux": 1, "LP-RD": 1, "RP-LD": 0, "RP-RD": 0, "RP-LD-M": 1, "RP-LD-H": 1, "RP-LD-HP": 1}     # of the page walks


def steps_placed():
    def command(name, run_on, data):
        return ("miniatures", name, "--per-node", "1", "--run-on", str(run_on), "--data-node", str(data), "--operations", "16384")
    return tuple(Step(name, column, settings, command(name, run_on, data)) for name in PLACED for column, (run_on, data, settings) in PLACES.items())


def taken_placed(step, seen):
    return taken_of(seen, seen["pages_on"][PLACES[step.policy][0]] / sum(seen["pages_on"]))


def check_placed(values, columns):
    def get(*where):
        return values.get("placed", *where)
    for case in PLACED:
        for column in columns:
            seen, wanted = get(case, column, "near_walks_share"), NEAR[column]
            yield Check("placed", f"{case}, {column}: page walks (model) that read a table of their own node: {100 * wanted} %, within 2",
                        f"{100 * seen:.1f} %", abs(seen - wanted) <= 1 - NEAR_ENOUGH)
            yield from check_alike("placed", get, case, column, "linux")
            if not column.startswith("RP-LD-H"):
                seen = get(case, column, "first_fills")
                yield Check("placed", f"{case}, {column}: no fills", f"{seen:,}", seen == 0)
        lazy, ahead = ({column: get(case, column, "first_fills") for column in columns}.get(column) for column in ("RP-LD-H", "RP-LD-HP"))
        if lazy is not None and ahead is not None:
            yield Check("placed", f"{case}: with prefetching at most a hundredth of the fills", f"{ahead:,} and {lazy:,}", 0 < 100 * ahead <= lazy)


def lines_placed():
    for name in PLACED:
        yield Line("placed", name, "model_steady_ns_per_op", f"{name}: time of an operation, ns (model); linux is LP-LD", "")
        yield Line("placed", name, "near_walks_share", f"{name}: page walks that read a table of their own node (model of TLBs)", "", "most")
        yield Line("placed", name, "first_fills", f"{name}: fills in the first pass", "", "")


PLACING = Bench(
    "placed", "a program with its memory and its page tables on near or far nodes: page walks, time by a cost model (figures 3 and 7)",
    vm.Machine(2, 2, "1G", append=APPEND, emulator=COUNTED), ("miniatures",), steps_placed(), tuple(lines_placed()),
    taken_placed, check_placed,
    "Figures 3 and 7 of the Hydra paper: L is local, R remote, P page tables, D data. Remote page tables cost programs more than remote data does; a "
    "thread that has moved to its data has remote page tables under Linux (RP-LD), and near ones under Mitosis (M), Hydra (H) and Hydra with "
    "prefetching (HP). Other programs that load the connection between sockets (I) are not modelled; the doubled prices stand for them. "
    f"{MODEL}", limit=900, plugin=misses.plugin, across=True, why_fixed="one node has the page tables, and the other one not")
