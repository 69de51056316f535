# SPDX-License-Identifier: GPL-2.0-only
"""The tables and figures of the four papers that have data: what each shows, which measurement shows the same here, and what it cannot show.

Part of the papers' numbers stand in pictures only; those that their texts and tables give are here.
"""
import dataclasses
import typing

from lab import policies
from lab.bench import auto, miniatures, prefetch, spinners
from lab.measure import model

PAPERS = {"hydra": "Hydra (Gao et al., ATC 2024)", "abis": "ABIS (Amit, ATC 2017)", "radixvm": "RadixVM (Clements et al., EuroSys 2013)",
          "vmitosis": "vMitosis (Panwar et al., ASPLOS 2021)"}
FULL, PART, NOT = "in full", "in part", "not possible"
NODE_POLICIES = ("linux", "mitosis", "hydra")


@dataclasses.dataclass(frozen=True)
class Shown:
    """A table and a picture of ours: by point and column, a value that was measured or a ratio by the cost model."""
    title: str
    xlabel: str
    ylabel: str
    points: tuple            # of (what stands on the axis, the case)
    columns: tuple
    value: typing.Callable   # (get, case, column) -> a number, or a model.Ratio. get: a function of row, case, policy, metric; KeyError: not measured
    metric: str              # tells how a number is written (lab/measure/values.py)


@dataclasses.dataclass(frozen=True)
class Row:
    paper: str
    label: str
    title: str
    theirs: str
    benches: tuple           # the measurements that show it
    verdict: str             # if all of them have been made
    exact: str = ""
    modelled: str = ""
    cannot: str = ""
    shown: tuple = ()


# --- Values

def counted(row, metric):
    return lambda get, case, column: get(row, case, column, metric)


def ratio(counts, base):
    """A ratio by the cost model. counts: (get, case, column) -> counts; base: (get, case) -> those to compare with."""
    return lambda get, case, column: model.ratio(counts(get, case, column), base(get, case), get.prices)


def against_linux(counts):
    return ratio(counts, lambda get, case: counts(get, case, "linux"))


def call_counts(operation):
    """Of a call which the meter counts, while others spin: its instructions, and the interrupts that its caller sends."""
    def counts(get, case, column):
        return {"instructions": get("operations", f"{operation}, apart", column, "instructions"), "sent": get("spinners", case, column, "interrupts")}
    return counts


def of_phase(row, phase):
    return lambda get, case, column: miniatures.phase_counts(lambda metric: get(row, case, column, metric), phase)


def both_passes(get, case, column):
    """The first pass has the fills; its walks are as many as those of the second one."""
    def of(metric):
        return get("placed", case, column, metric)
    steady = miniatures.phase_counts(of, "steady")
    return {**steady, **miniatures.phase_counts(of, "first")}


def two_walks(get, program, far, data=0):
    """A walk of a virtual machine reads a leaf table of the guest and a nested one. far: how many of the two are on another node, on average; data: the share of far lines."""
    def of(metric):
        return get("placed", program, "linux", metric)
    walks = of("near_walks") + of("far_walks")
    return {"instructions": of("steady_instructions"), "near_walks": (2 - far) * walks, "far_walks": far * walks, "near_lines": (1 - data) * walks, "far_lines": data * walks}


PLACES_2D = {"LL": 0, "LR": 1, "RL": 1, "RR": 2}


def far_of(get, case, column):
    """On average, of the two last entries of a 2D walk."""
    return get("walks", case, column, "one_remote_share") + 2 * get("walks", case, column, "both_remote_share")


def wide(get, program, column):
    """Data is on each node alike."""
    return two_walks(get, program, far_of(get, "uniform", column), 3 / 4)


def fill_instructions(get, entries):
    """What a fill of so many entries takes more than the same reads under Mitosis, by 'placed'."""
    def more(column):
        return (get("placed", "gups", column, "first_instructions") - get("placed", "gups", "RP-LD-M", "first_instructions")) / get("placed", "gups", column, "first_fills")
    one, all_entries = more("RP-LD-H"), more("RP-LD-HP")
    return one + (all_entries - one) * (entries - 1) / 511


def pass_counts(get, case, column):
    """Each read is of another page, on the other node: a walk and a far line."""
    pages, fills = prefetch.PAGES, get("prefetch", case, column, "first_fills")
    instructions = fills * fill_instructions(get, 1 << int(column[2:])) if column.startswith("H-") else 0
    near = 0 if column == "linux" else pages
    return {"instructions": instructions, "faults": fills, "near_walks": near, "far_walks": pages - near, "far_lines": pages}


# A process that has moved away from its tables: by the model's shares of page walks of bench auto, or of nested entries.
def moved(get, program, share):
    return two_walks(get, program, 2 * (1 - share))


def nested_moved(get, program, column):
    """The guest's tables move with its memory; the nested ones are as near as bench nested has seen."""
    return two_walks(get, program, 1 - get("nested", "followed", column, "local_share"))


PROGRAM_POINTS = tuple((name, name) for name in miniatures.PLACED)
WIDE_POINTS = tuple((name, name) for name in ("gups", "btree", "hashjoin", "xsbench", "canneal", "pagerank"))
PARSEC = (("canneal", "canneal"), ("dedup", "dedup"))
SPINNING = {call: tuple((threads, f"{call} {threads}") for threads in spinners.THREADS) for call in spinners.CALLS}
CALLS = tuple(spinners.CALLS)
OF_LINUX = "time for each of Linux's (model)"
SIZES = (("4 KiB", "4k"), ("4 MiB", "4m"))


def spinning(call, operation, more=""):
    counts = call_counts(operation)
    return (Shown(f"interrupts of a call{more}", "busy threads on each of 8 nodes", "interrupts", SPINNING[call], policies.POLICIES, counted("spinners", "interrupts"), "interrupts"),
            Shown("its time by the model, Linux without busy threads = 1", "busy threads on each of 8 nodes", "time for each of Linux's, none busy (model)", SPINNING[call],
                  policies.POLICIES, ratio(counts, lambda get, _: counts(get, f"{call} 0", "linux")), "ratio"))


def operation_points(name, sizes=SIZES):
    return tuple((size, f"{name}-{short}, apart") for size, short in sizes)


def instructions(get, case, column):
    return {"instructions": get("operations", case, column, "instructions")}


def bars(title, ylabel, row, metric, cases, columns=policies.POLICIES):
    return Shown(title, "", ylabel, tuple(cases.items()), columns, counted(row, metric), metric)


TIMES = "Times: an emulator's say nothing."
CONTENTION = "Waiting for locks and for memory."
NO_TREE = "RadixVM's radix tree and Refcache are not built: Linux's maple tree and reference counts stay."

ROWS = (
    Row("hydra", "figure 1", "mprotect of a page, with threads that spin on 8 sockets", "Linux and Mitosis: up to 40 times the time without spinners; Hydra: entirely without that on other sockets.",
        ("spinners", "operations"), FULL, "interrupts", "the caller's time", "How much slower the spinners get; the 18 cores of a socket. The model's call without spinners is faster than a real one, so its ratios are greater.", spinning(CALLS[0], "mprotect-4k")),
    Row("hydra", "figure 2", "spinners on the caller's socket or on others; mprotect of 512 KB", "Spinners on other sockets cost more. Mitosis is slower than Linux, Hydra faster.",
        ("mprotect", "operations"), PART, "interrupts; instructions of 4 KiB and 4 MiB", "", "512 KB has no row in the meter. " + TIMES,
        (bars("interrupts of mprotect", "interrupts", "mprotect", "interrupts_per_op", {"on other nodes": "remote-spinners", "on all nodes": "remote-and-local-spinners"}),
         Shown("instructions of mprotect, Linux = 1", "size", "instructions, Linux = 1", operation_points("mprotect"), NODE_POLICIES, counted("operations", "instructions_of_linux"), "instructions_of_linux"))),
    Row("hydra", "figure 3", "data and page tables on the own (L) or another socket (R)", "Remote page tables (P) often cost more than remote data (D).", ("placed",), PART,
        "where page tables and data are", "page walks; time, LP-LD = 1", "Interference by other programs (I): doubled prices stand for it. In the model remote page tables cost as much as remote data: "
        "a processor waits for a walk and not always for data.",
        (Shown("time of an operation, LP-LD = 1", "program", "time, LP-LD = 1 (model)", PROGRAM_POINTS, ("linux", "LP-RD", "RP-LD", "RP-RD"), against_linux(of_phase("placed", "steady")), "ratio"),)),
    Row("hydra", "table 4", "page tables of five programs on 8 sockets", "Linux = 1: Mitosis 8; Hydra 2.2 (Graph500), 2.0 (Btree), 1.4 (HashJoin), 7.8 (XSBench), 1.5 (Canneal).",
        ("footprint", "miniatures"), FULL, "leaf tables by sharing; page tables of small programs on 4 nodes", "", "The papers' sizes: 85 to 160 GB.",
        (bars("leaf tables for 64 of data, 8 nodes", "leaf tables", "footprint", "leaf_tables", {"none shared": "none", "pairs share": "some", "all share": "full"}),
         Shown("page tables of programs, KiB, 4 nodes", "program", "KiB", WIDE_POINTS, policies.POLICIES, counted("miniatures", "pagetable_kib"), "pagetable_kib"))),
    Row("hydra", "figure 6", "a random pass over memory of another node, by degree of prefetching", "With degree 9 Hydra takes as long as Mitosis; a second pass does so with any degree.",
        ("prefetch", "placed"), FULL, "fills", "time, Linux = 1; what a fill takes is that of 1 and of 512 entries in 'placed', and between them in proportion", "", (Shown("fills in the first pass over 16,384 pages", "", "fills", (("first pass", "first"),), tuple(prefetch.COLUMNS), counted("prefetch", "first_fills"), "fills"),
         Shown("time of the first pass, Linux = 1", "", OF_LINUX, (("first pass", "first"),), tuple(prefetch.COLUMNS), against_linux(pass_counts), "ratio"))),
    Row("hydra", "figure 7", "a thread that has moved to its data, away from its page tables", "Linux slows down, most with interference; Mitosis does not; Hydra little, with prefetching hardly.",
        ("placed", "auto"), FULL, "fills; tables that follow", "page walks; time, LP-LD = 1", "Interference (I). In the first pass 16,384 operations pay for all fills, in the paper 5 minutes do.",
        (Shown("time of an operation in the second pass, LP-LD = 1; without prefetching it still meets entries that have no copy", "program", "time, LP-LD = 1 (model)", PROGRAM_POINTS, ("RP-LD", "RP-LD-M", "RP-LD-H", "RP-LD-HP"), against_linux(of_phase("placed", "steady")), "ratio"),
         Shown("the same in the first pass, which makes most copies", "program", "time, LP-LD = 1 (model)", PROGRAM_POINTS, ("RP-LD", "RP-LD-M", "RP-LD-H", "RP-LD-HP"), ratio(both_passes, lambda get, case: both_passes(get, case, "linux")), "ratio"),
         Shown("near page walks of a program of one thread, 20 s after it has moved (model)", "", "near walks", (("moved", "thread"),), tuple(auto.COLUMNS), counted("auto", "near_walks_share"), "near_walks_share"))),
    Row("hydra", "figure 8", "run time and loading time of programs on 8 sockets", "Run: Mitosis and Hydra alike, faster than Linux (Canneal 1.22 and 1.19 times). Loading: Mitosis up to 21 % slower, Hydra as Linux.",
        ("miniatures",), FULL, "interrupts, faults, instructions", "page walks; time, Linux = 1", CONTENTION + " Caches: data and leaf entries that no TLB has come from memory, so gains are upper bounds.",
        (Shown("run time, Linux = 1", "program", OF_LINUX, WIDE_POINTS, policies.POLICIES, against_linux(of_phase("miniatures", "steady")), "ratio"),
         Shown("loading time, Linux = 1", "program", OF_LINUX, WIDE_POINTS, policies.POLICIES, against_linux(of_phase("miniatures", "load")), "ratio"))),
    Row("hydra", "figure 9", "mmap, munmap, mprotect by size, no spinners", "mmap: alike. munmap and mprotect: Mitosis pays, Hydra does not.", ("operations",), PART, "instructions of two sizes, on 4 nodes",
        "time, Linux = 1", "The sizes between; munmap alone (here with mmap and touch). Lines of other nodes have no price here.",
        (Shown("mprotect, Linux = 1", "size", OF_LINUX, operation_points("mprotect"), NODE_POLICIES, against_linux(instructions), "ratio"),
         Shown("mmap, touch, munmap, Linux = 1", "size", OF_LINUX, operation_points("map-unmap"), NODE_POLICIES, against_linux(instructions), "ratio"))),
    Row("hydra", "figure 10", "munmap of a page, with threads that spin on 8 sockets", "Mitosis: 23 % slower without spinners, almost 30 times the time with them; Hydra: 2.6 times.", ("spinners", "operations"), FULL, "interrupts",
        "the caller's time, of mmap, touch and munmap together", "munmap's time alone.", spinning(CALLS[1], "map-unmap-4k", ", of mmap, touch, munmap")),
    *(Row("hydra", label, f"{kind} allocation by sockets, a thread on each", "Mitosis: 1.4 to 1.9 times Linux's time. Hydra: faster than both.", ("allocators",), PART, "interrupts of four allocators on 8 nodes", "",
          f"{TIMES} Other numbers of nodes: ./hydra bench allocators --nodes N.{more}",
          (bars("interrupts of an allocation and free", "interrupts", "allocators", "interrupts_per_op", {name: f"{name} {kind}" for name in ("mmap", "glibc", "tcmalloc", "jemalloc-0")}),))
      for label, kind, more in (("figure 11", "stateless", ""), ("figure 12", "stateful", " 16 segments of each thread, not 256."))),
    Row("hydra", "figure 13", "a web server, up to 32 threads on four sockets", "45 % fewer shootdowns, 18 to 20 % more requests.", ("apache",), PART, "interrupts of a request, three set-ups", "", f"{TIMES} The sweep by threads; Hydra without its filter.",
        (bars("interrupts of a request to Apache", "interrupts", "apache", "interrupts_per_request", {"a CPU of each node": "quiet", "all CPUs": "all-cpus", "one node": "one-node"}),)),
    Row("hydra", "figure 14", "memcached whose store mprotect guards, by processes", "50 to 96 % fewer shootdowns, 1.36 times the throughput.", ("programs",), PART, "interrupts of one set-up, which the load of the host changes", "",
        "A store of 64 MiB and more that is protected piece by piece, servers bound to nodes: no measurement has that yet.",
        (bars("interrupts of 1,600 requests", "interrupts", "programs", "interrupts", {"memcached": "memcached-mprotect"}, (*policies.POLICIES, "node, accessed")),)),
    Row("abis", "figure 5", "vm-scalability: migrate, copy on write, msync, reclaim", "92 to 98 % fewer shootdowns; migrate 44 % faster, copy on write 15 to 20 %; reading anonymous memory 9 % slower.", ("sharing",), FULL, "interrupts of each change", "",
        f"{TIMES} vm-scalability itself.", (bars("interrupts of a change of a page", "interrupts", "sharing", "interrupts_per_op", {name: name for name in ("migrate", "copy", "sync", "reclaim")}),)),
    Row("abis", "figure 6", "Apache by cores", "Up to 90 % fewer shootdowns, 12 % more requests with all cores.", ("apache",), PART, "interrupts of a request, on 4 and 8 CPUs", "", f"{TIMES} The sweep by cores.",
        (bars("interrupts of a request", "interrupts", "apache", "interrupts_per_request", {"4 CPUs": "quiet", "8 CPUs": "all-cpus"}, ("linux", "abis")),)),
    Row("abis", "figure 7", "pbzip2 at a memory limit, by threads", "Of a shootdown, 10 remote cores for Linux's 18; up to 12 % faster.", ("programs",), PART, "interrupts with 8 threads, which the load of the host changes", "", f"{TIMES} The sweep by threads.",
        (bars("interrupts while 3 MB are compressed", "interrupts", "programs", "interrupts", {"pbzip2": "pbzip2"}),)),
    Row("abis", "figure 8", "PARSEC, 32 threads", "96 % fewer shootdowns on average; dedup 3 % faster, canneal 2.5 % slower.", ("miniatures",), PART, "interrupts and faults of programs like canneal and dedup", "page walks; time, Linux = 1",
        "PARSEC itself. ABIS inserts entries into TLBs by software, which costs it 550 cycles a fault; ours does not.",
        (Shown("interrupts in the second pass", "", "interrupts", PARSEC, ("linux", "abis"), counted("miniatures", "steady_interrupts"), "interrupts"),
         Shown("faults in the second pass", "", "faults", PARSEC, ("linux", "abis"), counted("miniatures", "steady_faults"), "faults"),
         Shown("run time, Linux = 1", "", OF_LINUX, PARSEC, ("linux", "abis"), against_linux(of_phase("miniatures", "steady")), "ratio"))),
    Row("radixvm", "figure 4", "Metis by cores, with blocks of 8 MB and of 64 KB", "RadixVM scales with both, Linux with neither. 30 % of the faults bring pages which another core has.", ("miniatures",), PART, "calls, faults, fills, interrupts of a word count with blocks of 2 MiB and 16 KiB",
        "page walks; time, Linux = 1", CONTENTION + " RadixVM's range locks, which make it scale, are not built.",
        (Shown("calls of mmap", "", "calls", (("2 MiB", "wordcount"), ("16 KiB", "wordcount, small blocks")), ("linux", "radixvm"), counted("miniatures", "maps"), "maps"),
         Shown("faults in a pass", "", "faults", (("2 MiB", "wordcount"), ("16 KiB", "wordcount, small blocks")), policies.POLICIES, counted("miniatures", "steady_faults"), "faults"),
         Shown("fills of all faults", "", "share", (("2 MiB", "wordcount"), ("16 KiB", "wordcount, small blocks")), ("radixvm", "abis", "hydra"),
               lambda get, case, column: get("miniatures", case, column, "steady_fills") / get("miniatures", case, column, "steady_faults"), "fills_share"),
         Shown("interrupts in a pass", "", "interrupts", (("2 MiB", "wordcount"), ("16 KiB", "wordcount, small blocks")), policies.POLICIES, counted("miniatures", "steady_interrupts"), "interrupts"),
         Shown("run time, Linux = 1", "", OF_LINUX, (("2 MiB", "wordcount"), ("16 KiB", "wordcount, small blocks")), policies.POLICIES, against_linux(of_phase("miniatures", "steady")), "ratio"))),
    Row("radixvm", "figure 5", "local, pipeline and global by cores", "Interrupts of RadixVM on n cores: local 0, pipeline 1, global n - 1.", ("pipeline-64",), FULL, "interrupts on 64 CPUs", "", f"{TIMES} {CONTENTION}",
        (bars("interrupts of a munmap", "interrupts", "pipeline-64", "interrupts", {"local": "local", "global": "global"}),
         bars("of a pipeline to the next node", "interrupts", "pipeline-64", "other_node_interrupts", {"pipeline": "pipeline"}))),
    Row("radixvm", "table 2", "memory of the radix tree for four programs", "At most 3.7 % of the memory in use.", (), NOT, cannot=NO_TREE),
    Row("radixvm", "figure 6", "skip list: look-ups against inserts", "Look-ups get slower with each writer.", (), NOT, cannot=NO_TREE),
    Row("radixvm", "figure 7", "radix tree: look-ups against inserts", "Look-ups stay as fast.", (), NOT, cannot=NO_TREE),
    Row("radixvm", "figure 8", "ways to count references", "Refcache scales, SNZI less, a shared counter does not.", (), NOT, cannot=NO_TREE),
    Row("radixvm", "figure 9", "page tables of each core against shared ones", "Shared: each munmap interrupts all cores, some 500,000 cycles. Of each core: as in figure 5.", ("pipeline-64",), FULL, "interrupts on 64 CPUs", "", f"{TIMES} {CONTENTION}",
        (bars("interrupts of a munmap", "interrupts", "pipeline-64", "interrupts", {"local": "local", "global": "global"}, ("linux", "radixvm")),
         bars("of a pipeline to the next node", "interrupts", "pipeline-64", "other_node_interrupts", {"pipeline": "pipeline"}, ("linux", "radixvm")))),
    Row("vmitosis", "figure 1", "the guest's and the nested page table on the own (L) or another socket (R)", "One remote: 1.1 to 1.4 times the time; both: 1.8 to 3.1 times with interference.", ("placed",), FULL, "instructions and page walks of programs in no machine",
        "time, LL = 1, if a walk reads a leaf entry of each table", "Interference (I): doubled prices stand for it. Caches of 2D walks.",
        (Shown("time, LL = 1", "program", "time, LL = 1 (model)", PROGRAM_POINTS, tuple(PLACES_2D),
               ratio(lambda get, case, column: two_walks(get, case, PLACES_2D[column]), lambda get, case: two_walks(get, case, 0)), "ratio"),)),
    Row("vmitosis", "figure 2", "where 2D walks of wide programs go, in machines that see nodes (a) or not (b)", "a: local in both less than 10 %, remote in both more than 50 %. b: local in both nearly none.", ("walks",), PART, "shares of pages", "",
        "b's baseline, a machine that sees one node and has no Hydra, is no column yet. Tables and pages of 'uniform' are spread by construction.",
        (bars("local in both tables", "share", "walks", "both_local_share", {"all nodes alike": "uniform", "set up by one thread": "one"}, ("linux", "ePT alone", "gPT alone", "both", "NO-P", "NO-F")),
         bars("remote in both", "share", "walks", "both_remote_share", {"all nodes alike": "uniform", "set up by one thread": "one"}, ("linux", "ePT alone", "gPT alone", "both", "NO-P", "NO-F")))),
    Row("vmitosis", "figure 3", "programs whose machine or guest has moved: page tables left behind, or migrated", "Both left behind: 1.8 to 3.1 times the time; as fast as ever when both have migrated.", ("auto", "nested", "placed"), PART, "nested tables that follow; tables of a process that follow, in no machine",
        "time, LL = 1", "Guest and host together in one run; huge pages, fragmented memory; interference.",
        (Shown("time once the process has moved, LL = 1, if nested tables did as those of the process", "program", "time, LL = 1 (model)", PROGRAM_POINTS, ("linux", "mitosis", "hydra"),
               ratio(lambda get, case, column: moved(get, case, get("auto", "thread", column, "near_walks_share")), lambda get, case: moved(get, case, 1)), "ratio"),)),
    Row("vmitosis", "figure 4", "replication in machines that see nodes", "1.06 to 1.6 times as fast.", ("walks", "placed"), PART, "shares of walks", "time, Linux = 1", "The policies interleave and automatic migration (I, FA); huge pages.",
        (Shown("time, no replicas = 1", "program", OF_LINUX, PROGRAM_POINTS, ("linux", "ePT alone", "gPT alone", "both"), against_linux(wide), "ratio"),)),
    Row("vmitosis", "figure 5", "replication in machines that see one node", "1.16 to 1.4 times as fast, by either way to find the nodes; with all guest entries remote, 2 to 5 % slower without nested replicas.", ("walks", "placed"), PART, "shares of walks",
        "time, a machine that sees nodes and has no replicas = 1", "The right baseline, a machine that sees one node; rotated without nested replicas: no columns yet.",
        (Shown("time", "program", OF_LINUX, PROGRAM_POINTS, ("linux", "NO-P", "NO-F", "NO-F rotated"), against_linux(wide), "ratio"),)),
    Row("vmitosis", "figure 6", "Memcached's throughput before, during and after a move", "a: half of it, and all of it when both tables have followed. b: 65 %, and all of it when the nested ones have.", ("nested", "placed"), PART, "b's end: nested tables of the new node", "time at the end, before the move = 1",
        "The time line; a, the guest's own move; Memcached.",
        (bars("nested entries on the new node, once the memory has moved, too", "share", "nested", "local_share", {"moved": "moved", "followed": "followed"}, ("linux", "hydra")),
         Shown("time after the move, before = 1: nested tables left behind, or followed", "program", "time, before = 1 (model)", PROGRAM_POINTS, ("left behind", "followed"),
               ratio(lambda get, case, column: two_walks(get, case, 1) if column == "left behind" else nested_moved(get, case, "hydra"), lambda get, case: two_walks(get, case, 0)), "ratio"))),
    Row("vmitosis", "table 4", "the time for a cache line between virtual CPUs", "125 ns between sockets, 50 to 62 within.", (), NOT, cannot="An emulator's CPUs are equally far from each other. A test of the kernel has the paper's values, and finds the groups."),
    Row("vmitosis", "table 5", "throughput of mmap, mprotect and munmap, with replicas on 4 sockets", "mprotect of 4 MiB: 0.29 of Linux's with replicas, 1.01 with migration; mmap 0.98, munmap 0.75.", ("operations",), PART, "instructions of two sizes, by policy", "",
        "4 GiB; munmap alone; inside of a machine.",
        (Shown("mprotect: instructions, Linux = 1", "size", "instructions, Linux = 1", operation_points("mprotect"), NODE_POLICIES, counted("operations", "instructions_of_linux"), "instructions_of_linux"),
         Shown("mmap, touch, munmap: instructions, Linux = 1", "size", "instructions, Linux = 1", operation_points("map-unmap"), NODE_POLICIES, counted("operations", "instructions_of_linux"), "instructions_of_linux"))),
    Row("vmitosis", "table 6", "memory of both page tables by replicas", "1, 2, 4 replicas: 3, 6, 12 GB of nested tables, and as much of the guest's.", ("nested", "footprint"), FULL, "leaf tables", "", "1.5 TiB: here 8 MiB of nested tables, and 128 MiB of a process's.",
        (bars("nested leaf tables of 8 MiB", "leaf tables", "nested", "leaf_tables", {"two nodes": "pair", "four nodes": "shared"}, ("linux", "hydra")),
         bars("leaf tables of a process, all 8 nodes share", "leaf tables", "footprint", "leaf_tables", {"all share": "full"}, NODE_POLICIES))),
)


def chosen(papers):
    return tuple(row for row in ROWS if row.paper in papers)


def benches_of(rows):
    """The measurements that rows need, each once."""
    return tuple(dict.fromkeys(name for row in rows for name in row.benches))
