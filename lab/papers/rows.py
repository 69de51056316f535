# SPDX-License-Identifier: GPL-2.0-only
"""The tables and figures of the four papers that have data: what each shows, which measurement shows the same here, and what it cannot show.

Part of the papers' numbers stand in pictures only; those that their texts and tables give are here.
"""
import dataclasses

from lab import policies
from lab.bench import auto, follow, miniatures, prefetch, programs, sizes, spinners
from lab.meter import counters
from lab.papers import shown
from lab.papers.shown import measured, modelled, of_linux

PAPERS = {"hydra": "Hydra (Gao et al., ATC 2024)", "abis": "ABIS (Amit, ATC 2017)", "radixvm": "RadixVM (Clements et al., EuroSys 2013)",
          "vmitosis": "vMitosis (Panwar et al., ASPLOS 2021)"}
FULL, PART, NOT = "in full", "in part", "not possible"


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


TIMES = "Times: an emulator's say nothing."
CONTENTION = "Waiting for locks and for memory."
INTERFERENCE = "other programs on the other node (I) are a price"
NO_TREE = "RadixVM's radix tree is not built: Linux's maple tree stays."
COUNTERS = {"nothing": "nothing", "shared": "atomic", "percpu_ref": "percpu_ref", "Refcache": "refcache"}

OF_NODES = ("linux", "mitosis", "hydra")
PLACED = {name: name for name in miniatures.PLACED}
WIDE = {name: name for name in ("gups", "btree", "hashjoin", "xsbench", "canneal", "pagerank")}
PARSEC = {name: name for name in ("canneal", "dedup")}
METIS = {"2 MiB": "wordcount", "16 KiB": "wordcount, small blocks"}
ALLOCATORS = ("mmap", "glibc", "tcmalloc", "jemalloc-0")
BUSY = "busy threads on each of 8 nodes"
OF_LINUX = "instructions, Linux = 1"
MOVED = ("LP-LD", "RP-LD", "RPI-LD", "RPI-LD-M", "RPI-LD-H", "RPI-LD-HP")
PLACES_2D = ("linux", "ePT alone", "gPT alone", "both", "NO", "NO-P", "NO-F")
SOCKETS = {"2": "allocators-2", "4": "allocators-4", "8": "allocators"}


def by_size(call):
    return {words: sizes.case_of(call, size) for size, words in sizes.SIZES.items()}


def swept(program, numbers):
    return {str(number): f"{program}, {number}" for number in numbers}


def spinning(call, operation):
    cases, counts = {threads: f"{call} {threads}" for threads in spinners.THREADS}, shown.of_call(operation)
    return (measured(f"interrupts of {spinners.CALLS[call]}", "interrupts", "spinners", "interrupts", cases, xlabel=BUSY),
            modelled("its time by the model, Linux without busy threads = 1", "time, Linux and none busy = 1 (model)", counts,
                     lambda get, _: counts(get, f"{call} 0", "linux"), cases, xlabel=BUSY))


def call_named(call):
    return {**sizes.CALLS, "map": sizes.MAP}[call]


def instructions_by_size(call):
    return shown.times(f"{call_named(call)}: {OF_LINUX}", OF_LINUX, "sizes", "instructions", by_size(call), sizes.COLUMNS, "size")


def of_placed(title, counts, columns):
    return modelled(title, "time, LP-LD = 1 (model)", counts, lambda get, case: counts(get, case, "LP-LD"), PLACED, columns, "program")


def in_machine(title, counts, base, columns, what):
    return modelled(f"{title}, {what} = 1", f"time, {what} = 1 (model)", counts, base, PLACED, columns, "program")


def wide_in_machine(title, columns, what):
    return in_machine(title, shown.of_wide, lambda get, case: shown.of_wide(get, case, "linux"), columns, what)


def allocation(label, kind, more=""):
    return Row("hydra", label, f"{kind} allocation by sockets, a thread on each", "Mitosis: 1.4 to 1.9 times Linux's time. Hydra: faster than both.",
               tuple(SOCKETS.values()), FULL, "interrupts of four allocators on 2, 4 and 8 nodes", "", f"{TIMES}{more}",
               tuple(shown.by_row(f"interrupts of an allocation and free, {name}", "interrupts", SOCKETS, f"{name} {kind}", "interrupts_per_op", xlabel="sockets")
                     for name in ALLOCATORS))


def patterns(columns=policies.POLICIES):
    return (measured("interrupts of a munmap", "interrupts", "pipeline-64", "interrupts", {"local": "local", "global": "global"}, columns),
            measured("interrupts of a munmap by the next node", "interrupts", "pipeline-64", "other_node_interrupts", {"pipeline": "pipeline"}, columns))


HYDRA = (
    Row("hydra", "figure 1", "mprotect of a page, with threads that spin on 8 sockets",
        "Linux and Mitosis: up to 40 times the time without spinners. Hydra: those on other sockets cost nothing.",
        ("spinners", "operations"), FULL, "interrupts", "the caller's time",
        "How much slower the spinners get; the 18 cores of a socket. Without spinners the model's call is faster than a real one, so its ratios are greater.",
        spinning("protect", "mprotect-4k")),
    Row("hydra", "figure 2", "spinners on the caller's socket or on others; mprotect of 512 KB",
        "Spinners on other sockets cost more. Mitosis is slower than Linux, Hydra faster.",
        ("mprotect", "sizes"), FULL, "interrupts; instructions from 4 KiB to 4 MiB, of 512 KiB, too", "", TIMES,
        (measured("interrupts of mprotect", "interrupts", "mprotect", "interrupts_per_op",
                  {"on other nodes": "remote-spinners", "on all nodes": "remote-and-local-spinners"}),
         instructions_by_size("mprotect"))),
    Row("hydra", "figure 3", "data and page tables on the own (L) or another socket (R)",
        "Remote page tables (P) cost almost as much as remote data (D), with other programs on the other socket (I) far more.",
        ("placed",), FULL, "where page tables and data are", f"page walks; time, LP-LD = 1; {INTERFERENCE}",
        "In the model remote page tables cost exactly as much as remote data: a processor waits for each walk, and not always for data.",
        (of_placed("time of an operation, LP-LD = 1 (model)", shown.of_second_pass, ("LP-LD", "LP-RD", "LP-RDI", "RP-LD", "RPI-LD", "RP-RD", "RPI-RDI")),)),
    Row("hydra", "table 4", "page tables of five programs on 8 sockets",
        "Linux = 1: Mitosis 8; Hydra 2.2 (Graph500), 2.0 (Btree), 1.4 (HashJoin), 7.8 (XSBench), 1.5 (Canneal).",
        ("footprint", "miniatures"), FULL, "leaf tables by sharing, on 8 nodes; page tables of small programs, on 4", "", "The papers' sizes: 85 to 160 GB.",
        (measured("leaf tables for 64 of data, 8 nodes", "leaf tables", "footprint", "leaf_tables", {"none shared": "none", "pairs share": "some", "all share": "full"}),
         measured("page tables of programs, KiB, 4 nodes", "KiB", "miniatures", "pagetable_kib", WIDE, xlabel="program"))),
    Row("hydra", "figure 6", "a random pass over memory of another node, by degree of prefetching",
        "With degree 9 Hydra takes as long as Mitosis; a second pass does so with any degree.",
        ("prefetch", "placed"), FULL, "fills", "time, Linux = 1; what a fill takes is that of 1 and of 512 entries in 'placed', and between them in proportion", "",
        (measured("fills in the first pass over 16,384 pages", "fills", "prefetch", "first_fills", {"first pass": "first"}, tuple(prefetch.COLUMNS)),
         measured("fills in a second pass", "fills", "prefetch", "second_fills", {"second pass": "first"}, tuple(prefetch.COLUMNS)),
         of_linux("time of the first pass", shown.of_random_pass, {"first pass": "first"}, tuple(prefetch.COLUMNS)))),
    Row("hydra", "figure 7", "a thread that has moved to its data, away from its page tables",
        "Linux slows down, most with interference; Mitosis does not; Hydra little, with prefetching hardly.",
        ("placed", "auto"), FULL, "fills; tables that follow", f"page walks; time, LP-LD = 1; {INTERFERENCE}",
        "In the first pass 16,384 operations pay for all fills; the paper's programs run for minutes.",
        (of_placed("time of an operation in the second pass, LP-LD = 1 (model); without prefetching it still meets entries that have no copy",
                   shown.of_second_pass, MOVED), of_placed("the same in the first pass, which makes most copies (model)", shown.of_first_pass, MOVED),
         measured("near page walks of a program of one thread, 20 s after it has moved (model of TLBs)", "share of walks (model)", "auto", "near_walks_share",
                  {"moved": "thread"}, tuple(auto.COLUMNS)))),
    Row("hydra", "figure 8", "run time and loading time of programs on 8 sockets",
        "Run: Mitosis and Hydra alike, faster than Linux (Canneal 1.22 and 1.19 times). Loading: Mitosis up to 21 % slower, Hydra as Linux.",
        ("miniatures",), FULL, "interrupts, faults, instructions", "page walks; time, Linux = 1",
        f"{CONTENTION} Caches: data and leaf entries that no TLB has come from memory, so gains are upper bounds. RadixVM and ABIS fill entries one by one, "
        "in the second pass, too: the paper's programs run for minutes.",
        (of_linux("run time", shown.of_phase("miniatures", "steady"), WIDE, xlabel="program"),
         of_linux("loading time", shown.of_phase("miniatures", "load"), WIDE, xlabel="program"))),
    Row("hydra", "figure 9", "mmap, munmap, mprotect by size, no spinners", "mmap: alike. munmap and mprotect: Mitosis pays, Hydra does not.",
        ("sizes",), FULL, "instructions of four sizes, on 4 nodes", "time, Linux = 1",
        "mmap alone: here its pages are touched. Lines of other nodes have no price here.",
        tuple(of_linux(title, shown.of_size, by_size(call), sizes.COLUMNS, "size") for call, title in (("map", sizes.MAP), ("unmap", "munmap"), ("mprotect", "mprotect")))),
    Row("hydra", "figure 10", "munmap of a page, with threads that spin on 8 sockets",
        "Mitosis: 23 % slower without spinners, almost 30 times the time with them. Hydra: 2.6 times.",
        ("spinners", "operations"), FULL, "interrupts", "the caller's time, of mmap, touch and munmap together", "munmap's time alone.",
        spinning("local", "map-unmap-4k")),
    allocation("figure 11", "stateless"),
    allocation("figure 12", "stateful", " 16 segments of each thread, not 256."),
    Row("hydra", "figure 13", "a web server, up to 32 threads on four sockets", "45 % fewer shootdowns, 18 to 20 % more requests.",
        ("apache", "sweeps"), FULL, "interrupts of a request, by CPUs and in three set-ups", "", f"{TIMES} More than 8 CPUs.",
        (measured("interrupts while 400 pages are served, by the server's CPUs", "interrupts", "sweeps", "interrupts", swept("apache", programs.CPUS),
                  ("linux", "mitosis", "hydra", "hydra-nofilter"), "CPUs"),
         measured("interrupts of a request to Apache", "interrupts", "apache", "interrupts_per_request",
                  {"a CPU of each node": "quiet", "all CPUs": "all-cpus", "one node": "one-node"}),)),
    Row("hydra", "figure 14", "memcached whose store mprotect guards, by processes", "50 to 96 % fewer shootdowns, 1.36 times the throughput.",
        ("programs", "sweeps"), FULL, "interrupts, which the load of the host changes", "",
        f"{TIMES} A store of 10 GB. Linux 4.17 interrupts CPUs that are idle or have moved on, which Hydra spares; 6.12 does not, so less is left to spare.",
        (measured("interrupts of servers bound to nodes, which protect 64 MiB piece by piece", "interrupts", "sweeps", "interrupts",
                  swept("memcached", programs.SERVERS), programs.SWEPT["memcached"], "servers of two threads"),
         measured("interrupts of 1,600 requests to four servers that are not bound", "interrupts", "programs", "interrupts", {"memcached": "memcached-mprotect"},
                  (*policies.POLICIES, "node, accessed")))),
)

ABIS = (
    Row("abis", "figure 5", "vm-scalability: migrate, copy on write, msync, reclaim",
        "92 to 98 % fewer shootdowns; migrate 44 % faster, copy on write 15 to 20 %; reading anonymous memory 9 % slower.",
        ("sharing",), FULL, "interrupts of each change", "", f"{TIMES} vm-scalability itself.",
        (measured("interrupts of a change of a page", "interrupts", "sharing", "interrupts_per_op", {name: name for name in ("migrate", "copy", "sync", "reclaim")}),)),
    Row("abis", "figure 6", "Apache by cores", "Up to 90 % fewer shootdowns, 12 % more requests with all cores.",
        ("sweeps",), FULL, "interrupts while pages are served, by CPUs", "", f"{TIMES} More than 8 CPUs.",
        (measured("interrupts while 400 pages are served", "interrupts", "sweeps", "interrupts", swept("apache", programs.CPUS), ("linux", "abis"), "CPUs"),)),
    Row("abis", "figure 7", "pbzip2 at a memory limit, by threads", "Of a shootdown, 10 remote cores for Linux's 18; up to 12 % faster.",
        ("sweeps",), FULL, "interrupts by threads, which the load of the host changes", "", f"{TIMES} More than 8 threads.",
        (measured("interrupts while 3 MB are compressed", "interrupts", "sweeps", "interrupts", swept("pbzip2", programs.CPUS), ("linux", "abis"), "threads"),)),
    Row("abis", "figure 8", "PARSEC, 32 threads", "96 % fewer shootdowns on average; dedup 3 % faster, canneal 2.5 % slower.",
        ("miniatures",), PART, "interrupts and faults of programs like canneal and dedup", "page walks; time, Linux = 1",
        "PARSEC itself. ABIS inserts entries into TLBs by software, which costs it 550 cycles a fault; ours does not.",
        (measured("interrupts in the second pass", "interrupts", "miniatures", "steady_interrupts", PARSEC, ("linux", "abis")),
         measured("faults in the second pass", "faults", "miniatures", "steady_faults", PARSEC, ("linux", "abis")),
         of_linux("run time", shown.of_phase("miniatures", "steady"), PARSEC, ("linux", "abis")))),
)

RADIXVM = (
    Row("radixvm", "figure 4", "Metis by cores, with blocks of 8 MB and of 64 KB",
        "RadixVM scales with both, Linux with neither. 30 % of the faults bring pages which another core has.",
        ("miniatures",), PART, "calls, faults, fills, interrupts of a word count with blocks of 2 MiB and 16 KiB", "page walks; time, Linux = 1",
        f"{CONTENTION} RadixVM's range locks, which make it scale, are not built.",
        (measured("calls of mmap", "calls", "miniatures", "maps", METIS, ("linux", "radixvm")),
         measured("faults in a pass", "faults", "miniatures", "steady_faults", METIS),
         measured("fills in a pass", "fills", "miniatures", "steady_fills", METIS),
         measured("interrupts in a pass", "interrupts", "miniatures", "steady_interrupts", METIS),
         of_linux("run time", shown.of_phase("miniatures", "steady"), METIS))),
    Row("radixvm", "figure 5", "local, pipeline and global by cores", "Interrupts of RadixVM on n cores: local 0, pipeline 1, global n - 1.",
        ("pipeline-64",), FULL, "interrupts on 64 CPUs", "", f"{TIMES} {CONTENTION}", patterns()),
    Row("radixvm", "table 2", "memory of the radix tree for four programs", "At most 3.7 % of the memory in use.", (), NOT, cannot=NO_TREE),
    Row("radixvm", "figure 6", "skip list: look-ups against inserts", "Look-ups get slower with each writer.", (), NOT, cannot=NO_TREE),
    Row("radixvm", "figure 7", "radix tree: look-ups against inserts", "Look-ups stay as fast.", (), NOT, cannot=NO_TREE),
    Row("radixvm", "figure 8", "ways to count references", "Refcache scales, SNZI less, a shared counter does not.", (counters.NAME,), PART,
        "lines of memory that CPUs take from each other", "", f"{TIMES} SNZI. Linux counts nothing by Refcache.",
        (measured("lines that a get and a put on each of two CPUs move", "lines", counters.NAME, "lines", COUNTERS, ("linux",)),)),
    Row("radixvm", "figure 9", "page tables of each core against shared ones",
        "Shared: each munmap interrupts all cores, some 500,000 cycles. Of each core: as in figure 5.",
        ("pipeline-64",), FULL, "interrupts on 64 CPUs", "", f"{TIMES} {CONTENTION}", patterns(("linux", "radixvm"))),
)

VMITOSIS = (
    Row("vmitosis", "figure 1", "the guest's and the nested page table on the own (L) or another socket (R)",
        "One remote: 1.1 to 1.4 times the time; both: 1.8 to 3.1 times with interference (I).",
        ("placed",), FULL, "instructions of programs, in no machine", f"page walks; time, LL = 1, if a walk reads a leaf entry of each table; {INTERFERENCE}",
        "Caches of 2D walks.", (in_machine("time", shown.of_places, shown.near, tuple(shown.FAR_READS), "LL"),)),
    Row("vmitosis", "figure 2", "where 2D walks of wide programs go, in machines that see nodes (a) or not (b)",
        "a: local in both less than 10 %, remote in both more than 50 %. b: local in both nearly none.",
        ("walks",), FULL, "shares of pages; NO is b's baseline", "", "Tables and pages of 'uniform' are spread by construction.",
        tuple(measured(title, "share", "walks", metric, {"all nodes alike": "uniform", "set up by one thread": "one"}, PLACES_2D)
              for title, metric in (("local in both tables", "both_local_share"), ("remote in both", "both_remote_share")))),
    Row("vmitosis", "figure 3", "programs whose machine or guest has moved: page tables left behind, or migrated",
        "4 KiB: both left behind 1.8 to 3.1 times the time, as fast as ever when both have migrated. Huge pages: up to 1.47 times, in fragmented memory 2.4.",
        ("follow", "placed"), PART, "tables of a process that follow, in no machine; nested tables that follow", f"page walks; time, LL = 1; {INTERFERENCE}",
        "Two of three pictures: huge pages, fragmented memory. Guest and host together in one run.",
        (in_machine("time with pages of 4 KiB once the program has moved: both tables left behind, the nested ones migrated (+e), the guest's (+g), or both (+M)",
                    shown.of_moved(shown.MOVED_PROGRAM, follow.LAST), shown.near, tuple(shown.MOVED_PROGRAM), "LL"),)),
    Row("vmitosis", "figure 4", "replication in machines that see nodes", "1.06 to 1.6 times as fast.",
        ("walks", "placed"), PART, "shares of walks", "time, no replicas = 1", "The policies interleave and automatic migration (I, FA); huge pages.",
        (wide_in_machine("time", ("linux", "ePT alone", "gPT alone", "both"), "no replicas"),)),
    Row("vmitosis", "figure 5", "replication in machines that see one node",
        "1.16 to 1.4 times as fast, by either way to find the nodes; with all guest entries remote, 2 to 5 % slower without nested replicas.",
        ("walks", "placed"), FULL, "shares of walks", "time, a machine that sees one node and has no replicas = 1", "Huge pages, where the paper sees 1 % at most.",
        (in_machine("time", shown.of_wide, lambda get, case: shown.of_wide(get, case, "NO"), ("NO", "NO-P", "NO-F", "NO-F rotated", "rotated, gPT alone"), "no replicas"),)),
    Row("vmitosis", "figure 6", "Memcached's throughput before, during and after a move",
        "a: half of it, 65 % if one of the tables follows, all of it when both have. b: 65 %, and all of it when the nested ones have. It takes minutes.",
        ("follow", "placed", "nested"), FULL, "where both tables are, by second", f"throughput of gups, before the move = 1; {INTERFERENCE}",
        "Memcached itself. The minutes in which its data is still remote: here the data follows at once, and the kernel looks for nested tables each second, not each 30.",
        (shown.by_second("a: the guest's program moves", {**shown.MOVED_PROGRAM, **shown.REPLICATED}),
         shown.by_second("b: the machine moves", {**shown.MOVED_MACHINE, **shown.REPLICATED}),
         shown.followed(),
         measured("nested entries on the new node, once the memory has moved, too", "share", "nested", "local_share",
                  {"moved": "moved", "followed": "followed"}, ("linux", "hydra")))),
    Row("vmitosis", "table 4", "the time for a cache line between virtual CPUs", "125 ns between sockets, 50 to 62 within.", (), NOT,
        cannot="An emulator's CPUs are equally far from each other. A test of the kernel has the paper's values, and finds the groups."),
    Row("vmitosis", "table 5", "throughput of mmap, mprotect and munmap, with replicas on 4 sockets",
        "4 KiB, 4 MiB: mmap 0.91 and 0.98 of Linux's with replicas, mprotect 0.84 and 0.29, munmap 0.88 and 0.75; with migration, as Linux. 4 GiB: as 4 MiB, to 0.03.",
        ("sizes",), FULL, "instructions of four sizes, by policy", "throughput, Linux = 1",
        "4 GiB. Nested tables, which the paper finds marginal here. Migration: page tables that follow change none of these calls. Eager replicas are Mitosis.",
        tuple(table for call in ("map", "mprotect", "unmap") for table in (instructions_by_size(call), shown.throughput(call_named(call), by_size(call), sizes.COLUMNS)))),
    Row("vmitosis", "table 6", "memory of both page tables by replicas", "1, 2, 4 replicas: 3, 6, 12 GB of nested tables, and as much of the guest's.",
        ("nested", "footprint"), FULL, "leaf tables", "", "1.5 TiB: here 8 MiB of nested tables, and 128 MiB of a process's.",
        (measured("nested leaf tables of 8 MiB", "leaf tables", "nested", "leaf_tables", {"two nodes": "pair", "four nodes": "shared"}, ("linux", "hydra")),
         measured("leaf tables of a process, all 8 nodes share", "leaf tables", "footprint", "leaf_tables", {"all share": "full"}, OF_NODES))),
)

ROWS = HYDRA + ABIS + RADIXVM + VMITOSIS


def chosen(papers):
    return tuple(row for row in ROWS if row.paper in papers)


def benches_of(rows):
    """The measurements that rows need, each once."""
    return tuple(dict.fromkeys(name for row in rows for name in row.benches))
