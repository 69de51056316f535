# SPDX-License-Identifier: GPL-2.0-only
"""What nodes once used and use no longer, programs that have moved, tables whose pages are of one node each, and what policy auto does: counts and costs."""
import dataclasses
import statistics

from lab import policies
from lab.bench import costs
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure import model
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter import misses
from lab.meter.steps import CLOCK, COUNTED, UNWATCHED

NODES, PER_NODE = 4, 2
OTHERS = NODES * PER_NODE - 1
PAUSE = 60                   # seconds between the visit of all nodes and what is counted later; the emulator skips time in which all CPUs sleep
SECONDS = 20                 # between a move and the last look: 15 between two looks of the kernel, and what a process stays split
FINE = {f"hydra, {name}": ("--policy", "hydra", "--filter", name) for name in ("accessed", "auto")}
COLUMNS = {**{policy: ("--policy", policy) for policy in ("linux", "mitosis", "abis", "hydra")}, **FINE, "auto": ("--policy", "auto")}
OF_HYDRA = ("hydra", *FINE, "auto")
BY_PAGE = (*FINE, "auto")    # their flushes may look at single pages
TRY = 64                     # flushes of a table, after which the filter auto has chosen
BUSY_SECONDS = 3             # under auto: of work at most, until tables have followed; the keeper has an idle look each second
ROUNDS = 4 * TRY // (NODES * PER_NODE)
MOVES = {"thread": "a program of one thread has moved to another node", "threads": "a program of eight threads has moved to another node",
         "migrated": "a program of eight threads and its memory have moved to another node"}
REQUESTS = 480
COMMANDS = {"decay": ("decay", "--pause", str(PAUSE)), "apart": ("sharing", "drop", "--rounds", str(ROUNDS)), "requests": ("requests", "--requests", str(REQUESTS)), "processes": ("processes",),
            **{kind: ("moved", kind, "--seconds", str(SECONDS)) for kind in MOVES}}
# Under auto the kernel looks more often, and takes a program for one of the node on which a look finds it running.
UNDER_AUTO = {**{case: (*COMMANDS[case], *costs.decide(costs.LOOK_MS)) for case in ("decay", "apart", "requests")},
              **{kind: ("moved", kind, "--seconds", str(BUSY_SECONDS), "--busy") for kind in MOVES}}
PAGES, READS, CACHED = 16384, 8192, 1536     # of the one thread that has moved; entries of the model's second TLB
NEARLY = 0.25                # of an interrupt for each operation: a CPU may run Linux's own threads now and then
OWN_PAGES = 0.02             # of the entries at most are those of the program's code, which may stay behind
BY_TABLE = "(not asserted: by table, a node that has used a stack is interrupted as long as it has the table)"
# Copies of tables cost such a program more than the interrupts that they save.
OF_REQUESTS = costs.Case("a thread for each request", (), (costs.RETURNED,))


def steps(commands, columns=tuple(COLUMNS)):
    return tuple(Step(case, column, COLUMNS[column], UNDER_AUTO.get(case, command) if column == "auto" else command)
                 for case, command in commands.items() for column in columns)


def of_decay(seen):
    """Leaf tables: those of the data, and the copies of them."""
    for phase in ("before", "after", "later"):
        said = seen[phase]
        yield f"interrupts_{phase}_per_op", statistics.fmean(said["interrupts"]), "interrupts"
        yield f"leaf_tables_{phase}", seen["data_tables"] + said["replicas"] - seen["replicas_at_start"], "tables"
    yield "data_tables", seen["data_tables"], "tables"


def of_moved(seen):
    """Where the tables are, and by a model what page walks read."""
    for moment in ("before", "moved", "later"):
        said = seen[moment]
        yield f"{moment}_near_share", said["near"] / (said["near"] + said["far"]), "share"
        yield f"{moment}_leaf_tables", seen["data_tables"] + said["replicas"], "tables"
        yield f"{moment}_split", said["split"], "processes"
    (sample,) = seen["sampled"]
    walks = misses.walks(sample, seen["map"], seen["domains"])
    yield "near_walks_share", walks["near"] / max(1, walks["near"] + walks["far"]), "share"
    yield "walks", walks["near"] + walks["far"], "walks"
    yield "data_tables", seen["data_tables"], "tables"
    yield "interrupts_per_op", seen["interrupts"] / seen["changes"], "interrupts"
    yield "instructions", seen["instructions"], "instructions"


def of_apart(seen):
    yield "interrupts_per_op", statistics.fmean(seen["interrupts"][TRY:]), "interrupts"


def of_requests(seen):
    for how in ("alone", "together"):
        yield f"{how}_interrupts_per_request", seen[how] / seen["requests"], "interrupts"
    # Of those one after the other
    yield from (("instructions", seen["instructions"], "instructions"), ("interrupts", seen["alone"], "interrupts"), ("faults", seen["faults"], "faults"), ("far_walks", 0, "walks"))
    yield "pagetable_kib", seen["pagetable_kib"], "KiB"


def of_processes(seen):
    yield "kib_of_each", seen["pagetable_kib"] / seen["processes"], "KiB"
    yield "replicas", seen["replicas"], "tables"
    yield "split", seen["split"], "processes"


def taken(step, seen):
    of = {"decay": of_decay, "apart": of_apart, "requests": of_requests, "processes": of_processes, **dict.fromkeys(MOVES, of_moved)}
    return [*of.get(step.case, costs.taken)(seen), *costs.taken_of_auto(seen)]


def most(what, seen, limit, reported="", row="auto"):
    """At most so much. Reported: why it is not asserted."""
    words = f" {reported}" if reported else ""
    return Check(row, f"{what}: at most {limit:.2f}{words}", f"{seen:.2f}", seen <= limit, not reported)


def check_decay_under_linux(get, row, case, phases=("before", "after", "later")):
    for phase in phases:
        seen = get(case, "linux", f"interrupts_{phase}_per_op")
        yield Check(row, f"{case}, Linux, {phase}: {OTHERS} interrupts for each mprotect", f"{seen:.2f}", abs(seen - OTHERS) <= NEARLY)


def check_linux(get):
    """What Linux does is known: so the programs count right."""
    yield from check_decay_under_linux(get, "auto", "decay")
    seen = get("apart", "linux", "interrupts_per_op")
    yield Check("auto", f"apart, Linux: {OTHERS} interrupts for each madvise", f"{seen:.2f}", abs(seen - OTHERS) <= NEARLY)
    for kind in MOVES:
        seen = get(kind, "linux", "interrupts_per_op")
        wanted = 0 if kind == "thread" else 1
        yield Check("auto", f"{MOVES[kind]}, Linux: {wanted} interrupts for each mprotect", f"{seen:.2f}", abs(seen - wanted) <= NEARLY)
    seen, wanted = get("thread", "linux", "walks"), READS * (1 - CACHED / PAGES)
    yield Check("auto", f"{MOVES['thread']}, Linux: page walks of {READS:,} random reads of {PAGES:,} pages within 5 % of {wanted:,.0f} (model)", f"{seen:,}",
                abs(seen - wanted) <= 0.05 * wanted)
    seen = [get(case, "linux", metric) for case, metric in (*((kind, "later_split") for kind in MOVES), ("processes", "split"), ("processes", "replicas"))]
    yield Check("auto", "Linux: no process is split, none has copies", str(seen), not any(seen))


@dataclasses.dataclass
class Use:
    """How other nodes have used a thread's memory in the program decay, and what may be left of it later."""
    row: str
    what: str                # why there are copies of all tables right after it
    times: int               # at least so many of each table
    later: str
    interrupts: float        # later, for each of those before
    tables: float


READ = Use("auto", "all nodes get copies of all tables when all read", NODES, "a minute later", 1.05, 1.02)


def check_decay(get, case, column, use):
    """Some time after the last use, what was once used costs nothing."""
    what = f"{case}, {policies.called(column)}"
    before, later = (get(case, column, f"interrupts_{phase}_per_op") for phase in ("before", "later"))
    yield most(f"{what}: before, interrupts for each mprotect (the CPUs of the node)", before, PER_NODE - 1 + NEARLY, row=use.row)
    yield most(f"{what}: {use.later}, interrupts for each of those before", later / before if before else 1 + later, use.interrupts, row=use.row)
    after, tables, first = (get(case, column, f"leaf_tables_{phase}") for phase in ("after", "later", "before"))
    yield Check(use.row, f"{what}: {use.what}", f"{after:g}", after >= use.times * get(case, column, "data_tables"))
    yield most(f"{what}: {use.later}, leaf tables for each of those before", tables / first, use.tables, row=use.row)


def check_moved(get, kind, column):
    what, later = f"{MOVES[kind]}, {policies.called(column)}", f"after {BUSY_SECONDS} s of work at most" if column == "auto" else f"{SECONDS} s later"
    far = 1 - get(kind, column, "later_near_share")
    yield most(f"{what}: share of entries in tables of another node, {later}", far, OWN_PAGES)
    far = 1 - get(kind, column, "near_walks_share")
    yield most(f"{what}: share of page walks (model) that read a table of another node", far, OWN_PAGES)
    yield most(f"{what}: leaf tables for each of Linux's", get(kind, column, "later_leaf_tables") / get(kind, column, "data_tables"), 1)
    yield most(f"{what}: split", get(kind, column, "later_split"), 0)
    ratio = get(kind, column, "instructions") / get(kind, "linux", "instructions")
    limit = 1.005 if column == "auto" else costs.RETURNED_COST
    yield Check("auto", f"{what}: instructions of mprotect at most {limit} of Linux's", f"{ratio:.3f}", ratio <= limit)


def check(values, columns):
    def get(*where):
        return values.get("auto", *where)
    yield from check_linux(get)
    for column in [column for column in OF_HYDRA if column in columns]:
        called = policies.called(column)
        yield from check_decay(get, "decay", column, READ)
        for kind in MOVES:
            yield from check_moved(get, kind, column)
        if column in BY_PAGE:
            yield most(f"apart, {called}: interrupts for each madvise (the CPUs of the node), after {TRY}", get("apart", column, "interrupts_per_op"),
                       PER_NODE - 1 + NEARLY)
        seen, linux = (get("requests", name, "alone_interrupts_per_request") for name in (column, "linux"))
        yield Check("auto", f"requests, {called}: no more interrupts than Linux", f"{seen:.2f} against {linux:.2f}", seen <= linux + NEARLY)
        if column == "auto":
            yield from costs.check_ends(get, "requests", OF_REQUESTS)
            yield from costs.check_costs(get, "requests", OF_REQUESTS, columns)
        else:
            yield most(f"requests, {called}: interrupts for each request", seen, 1.5, "" if column in BY_PAGE else BY_TABLE)
        yield most(f"processes, {called}: split, of all", get("processes", column, "split"), 0)
        more = get("processes", column, "kib_of_each") - get("processes", "linux", "kib_of_each")
        yield most(f"processes, {called}: page tables of each, KiB more than Linux's (one table)", more, 4)
    yield from costs.check(get, columns, OTHERS)


def lines():
    for phase, when in (("before", ""), ("after", ", after all threads have read all pages once"), ("later", f", {PAUSE} s after that")):
        yield Line("auto", "decay", f"interrupts_{phase}_per_op", f"decay: interrupts when a thread protects a page of its own{when}", "")
        yield Line("auto", "decay", f"leaf_tables_{phase}", f"decay: leaf page tables of the data{when}", "")
    for kind, what in MOVES.items():
        yield Line("auto", kind, "later_near_share", f"{kind}: {what}: entries in tables of its own node, {SECONDS} s later", "", "most")
        yield Line("auto", kind, "near_walks_share", f"{kind}: page walks that read a table of its own node (model of TLBs)", "", "most")
        yield Line("auto", kind, "later_leaf_tables", f"{kind}: leaf page tables, copies included", "")
        yield Line("auto", kind, "later_split", f"{kind}: split", "")
        yield Line("auto", kind, "instructions", f"{kind}: instructions of mprotect of a page", "")
        yield Line("auto", kind, "interrupts_per_op", f"{kind}: interrupts of mprotect of a page, a second thread busy", "")
    yield Line("auto", "apart", "interrupts_per_op", f"apart: interrupts when a thread gives back its page of a table that all share, after {TRY} flushes", "")
    yield Line("auto", "requests", "alone_interrupts_per_request", "requests: a thread for each request, on one node after the other: interrupts per request", "")
    yield Line("auto", "requests", "together_interrupts_per_request", "requests: one on each node at once", "")
    yield Line("auto", "processes", "kib_of_each", "processes: page tables, KiB, of a process of one thread which shares memory with 23 others and has moved", "")
    yield Line("auto", "processes", "split", "processes: split, of 24", "")
    yield from costs.lines()


def check_costs(values, columns):
    def get(*where):
        return values.get("auto", *where)
    yield from costs.check(get, columns, OTHERS)


def on(nodes):
    """What policy auto costs where nodes have more CPUs; all else is of four nodes."""
    return dataclasses.replace(BENCH, steps=(*costs.steps(COLUMNS, False), *costs.steps(COLUMNS, True)), lines=tuple(costs.lines()), check=check_costs,
                               machine=dataclasses.replace(BENCH.machine, nodes=nodes, cpus_per_node=(OTHERS + 1) // nodes))


BENCH = Bench("auto", "what nodes once used and use no longer, programs that have moved, filters that choose by table, and the regret of policy auto",
              vm.Machine(NODES, PER_NODE, "2G", append=[CLOCK, UNWATCHED, "numa_balancing=disable", "norandmaps"], emulator=COUNTED),
              ("costs", "decay", "moved", "sharing", "requests", "processes"), (*costs.steps(COLUMNS, False), *steps(COMMANDS), *costs.steps(COLUMNS, True)),
              tuple(lines()), taken, check,
              "No paper counts what a node that has once used a page table costs later: their programs run for minutes on the nodes on which they "
              "start. Figure 7 of the Hydra paper and figures 3 and 6a of vMitosis show programs that have moved away from their page tables. RadixVM is "
              "left out: its domains are those of ABIS. Page walks are those of a model, which has 64 and 1,536 entries and 32 cached PDEs for each CPU, and no table for "
              "instructions. Limits that say so are reported only. Under auto the kernel looks every 20 ms (50 in 'quiet' and 'read-all'), at prices that are as much higher as an instruction "
              "takes longer here than 0.33 ns, for each CPU; what is counted begins once it has decided. "
              f"A cost is {costs.INSTRUCTION} ns for each instruction, {model.ns(model.interrupts(1)):.0f} for an interrupt, {model.PRICES['faults'].ns} for a page fault, and "
              f"{model.PRICES['far_walks'].ns - model.PRICES['near_walks'].ns} for a walk of another node's table (in 'read-all' and 'read-one' alone). Cache lines that CPUs take from each other have no price. "
              "Isolated CPUs, shared hugetlb mappings and virtual machines are left to self tests.",
              limit=1800, plugin=misses.plugin, on=on, sizes=(2, 4), why_fixed="its limits are those of eight CPUs")

# --- The same with NUMA balancing, which is the machine's

DWELL = 30                   # seconds of a thread on a node
STAY = 120                   # seconds after the last move: a node leaves a table in the first 75, then the table can move
WANDERS = {"settled": 5 * NODES, "away": 5 * NODES + 1}      # moves of each thread in ten minutes: to its first node, or to the one after it
WANDERED = Use("wander", "the last two nodes have copies of all tables when threads have wandered", 2, f"{STAY} s later", 1.10, 1.10)
WANDER_COLUMNS = ("linux", "hydra", "hydra, auto")


def taken_of_wander(_, seen):
    return [*of_decay(seen), ("fewest_moves", min(seen["moves"]), "moves"), ("most_moves", max(seen["moves"]), "moves"), ("marked", seen["pages_marked"], "pages")]


def check_wander(values, columns):
    """Threads that have wandered cost what they cost before."""
    def get(*where):
        return values.get("wander", *where)
    for case, moves in WANDERS.items():
        for column in columns:
            what = f"{case}, {policies.called(column)}"
            seen = [get(case, column, metric) for metric in ("fewest_moves", "most_moves")]
            yield Check("wander", f"{what}: each thread has moved to the next of {NODES} nodes {moves} times", str(seen), seen == [moves, moves])
            seen = get(case, column, "marked")
            yield Check("wander", f"{what}: NUMA balancing marked pages meanwhile", f"{seen:,}", seen > 0)
        # Right after they have wandered, some CPUs are still idle in the first turns.
        yield from check_decay_under_linux(get, "wander", case, ("before", "later"))
        seen = [get(case, "linux", metric) for metric in ("data_tables", *(f"leaf_tables_{phase}" for phase in ("before", "after", "later")))]
        yield Check("wander", f"{case}, Linux: no copies of leaf tables", str(seen), len(set(seen)) == 1)
        for column in [column for column in OF_HYDRA if column in columns]:
            yield from check_decay(get, case, column, WANDERED)


def lines_of_wander():
    for case, where in {"settled": "their first node", "away": "the node after their first"}.items():
        for phase, when in (("before", "before threads wander"), ("after", f"after that, on {where}"), ("later", f"{STAY} s after that")):
            yield Line("wander", case, f"interrupts_{phase}_per_op", f"{case}: interrupts when a thread protects a page of its own, {when}", "")
            yield Line("wander", case, f"leaf_tables_{phase}", f"{case}: leaf page tables of the data, {when}", "")
        yield Line("wander", case, "marked", f"{case}: pages which NUMA balancing marked while threads wandered", "", "")


WANDER = Bench("wander", "threads go from node to node for ten minutes, with NUMA balancing, and then stay: interrupts and page tables",
               dataclasses.replace(BENCH.machine, append=[CLOCK, UNWATCHED, "numa_balancing=enable", "norandmaps"]), ("decay",),
               steps({case: ("decay", "--moves", str(moves), "--dwell", str(DWELL), "--pause", str(STAY)) for case, moves in WANDERS.items()}, WANDER_COLUMNS),
               tuple(lines_of_wander()), taken_of_wander, check_wander,
               f"No paper counts it. Each thread reads its memory each second, and goes to the next node every {DWELL} s. It stops on its first node ('settled') or "
               "on the one after that ('away'). NUMA balancing works as long as threads wander, and leaves memory alone while interrupts are counted.",
               limit=900, on=None, sizes=(), why_fixed="its limits are those of four nodes of two CPUs")
