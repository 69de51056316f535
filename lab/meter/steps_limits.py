# SPDX-License-Identifier: GPL-2.0-only
"""The limits of the stage steps of ./hydra test, and the comparison of each with what was counted."""
import dataclasses

from lab.machine.ktap import Outcome
from lab.meter import steps, steps_samples
from lab.meter.steps_samples import Disagreement

PROCESSES = ("fork-exit-1m", "fork-exit-64m", "fork-exec-exit", "exit-64m", "switch-processes", "switch-threads")
# Linux alone fetches two or three lines in these, as its memory lies: the third is that of a lock of enqueue_task_rt().
SWITCHES = ("switch-processes", "switch-threads")
TABLES_FREED = ("map-unmap-4k-alone", "map-unmap-4m")
# Here Linux's code asks for Hydra once for each table or page that it copies or protects, in plain C.
PLAIN = {"mprotect-4k": 1.011, "write-after-fork": 1.01, "fork-exit-1m": 1.01}
# Another process is split, so each entry that a fork copies is asked whether its process is, too.
COPIES = dict.fromkeys(("fork-exit-1m", "fork-exit-64m"), 1.015)
# Where samples do not agree to the unit the least of them is judged: a limit is broken if it is by more than so many standard
# errors of the averages, and in sums one unit.
ERRORS = 2
MANY_PAGES = ("map-unmap-4m", "dontneed-2m")
# What a whole life of a process executes differs by what allocators, RCU and the scheduler do meanwhile, and what hundreds of
# pages cost by the lists that they come from and go to: two boots of one kernel differ. So much of Linux's number may be
# beyond it in the rows of PROCESSES and MANY_PAGES; of callbacks of RCU, only where samples do not agree.
DIFFERS = {"locked": 0.02, "remote": 0.1, "call_rcu": 0.1}
CLOCK = 100_000


@dataclasses.dataclass
class Limit:
    name: str                # with the row, "name: row", what NOT_YET calls it
    what: str
    kind: str                # ratio, beyond, growth, most: see the functions of these names
    metric: str
    policies: tuple          # (the one that is judged, what it is compared with)
    limit: float
    by_row: dict = dataclasses.field(default_factory=dict)       # other limits for these rows
    only: tuple = ()         # rows; empty: all


@dataclasses.dataclass
class Verdict(Outcome):
    """What came of one limit in one row."""
    limit: Limit = None
    row: str = ""
    seen: str = ""           # what was measured; empty if there was no number


ALONE, SPLIT = ("hydra", "off"), ("hydra-split", "off-split")
LIMITS = [
    Limit("cost", "instructions under Hydra for each of Linux's", "ratio", "instructions", ALONE, 1.03,
          {**dict.fromkeys(PROCESSES, 1.005), **COPIES}),
    Limit("cost-split", "the same while other threads run on the other nodes", "ratio", "instructions", SPLIT, 1.03),
    Limit("unused", "instructions of a kernel whose Hydra is not used for each of Linux's", "ratio", "instructions", ("unused", "off"), 1.005, PLAIN),
    Limit("nodes", "instructions more on the largest machine than on the smallest, beyond Linux's own", "growth", "instructions", ALONE, 8),
    Limit("nodes-split", "the same while other threads run on the other nodes", "growth", "instructions", ("hydra-split", None), 8,
          only=("minor-fault", "fault-in-new-table", "write-after-fork", "map-unmap-4k", "map-unmap-4k-alone", "map-unmap-4m",
                "mprotect-4k", "mprotect-4m", "dontneed-4k", "dontneed-2m", "mremap-4m", "file-fault-around")),
    Limit("locked", "locked instructions beyond Linux's", "beyond", "locked", ALONE, 0),
    Limit("locked-split", "the same while other threads run on the other nodes", "beyond", "locked", SPLIT, 0),
    Limit("pages", "allocations of pages beyond Linux's", "beyond", "pages", ALONE, 0),
    Limit("pages-split", "the same while other threads run on the other nodes", "beyond", "pages", SPLIT, 0),
    Limit("objects", "allocations of objects beyond Linux's", "beyond", "objects", ALONE, 0),
    Limit("objects-split", "the same while other threads run on the other nodes", "beyond", "objects", SPLIT, 0),
    Limit("call-rcu", "callbacks of RCU beyond Linux's", "beyond", "call_rcu", ALONE, 0),
    Limit("call-rcu-split", "the same while other threads run on the other nodes", "beyond", "call_rcu", SPLIT, 0,
          dict.fromkeys(TABLES_FREED, 1)),
    Limit("remote", "remote lines beyond Linux's while processes do the same on the other nodes", "beyond", "remote", ALONE, 0,
          dict.fromkeys(SWITCHES, 1)),
    # In a fault Linux alone fetches one or two lines: the second is one of get_mem_cgroup_from_mm().
    Limit("remote-split", "remote lines beyond Linux's while threads do the same on the other nodes", "beyond", "remote", SPLIT, 0,
          {"minor-fault": 1}),
    Limit("fill", "instructions of the first fill of a table of 512 entries", "most", "instructions", ("hydra-split", None), 8000,
          only=("first-fill",)),
    Limit("fill-locked", "locked instructions of the same", "most", "locked", ("hydra-split", None), 16, only=("first-fill",)),
]
# Rows that cannot be compared: under Linux nothing happens in them.
NOT_COMPARED = ("first-fill",)

# Limits that are known not to be met yet, "name: row" -> why. Whatever is here has to be measured all the same, is reported
# as skipped, and fails once it is met: then it is to be taken off.
LOOK = "a look at the word of the table after each fault"
LOOK_UP = "a flush looks up the sharers, and counts"
WORDS = "the word of the table is looked at for each entry"
MOVE = "mremap() cuts the links of each table it moves, and flushes for it"
STACKS = "not Hydra's: with so many threads the tree of the areas is deeper, for Linux as well, whose interrupts hide it"
FREE = "the CPU that frees a table waits for fills under its lock, and cuts the link under the domain's lock"
SPARED = "a flush asks of each CPU that it spares whether Linux would interrupt it, as Linux does before it interrupts; there, interrupts hide it"
ALLOCATORS = "not Hydra's: what the allocators have at hand differs between kernels and machines"
NOT_YET = {
    "cost-split: map-unmap-4k": LOOK_UP,
    "cost-split: map-unmap-4k-alone": LOOK_UP,
    "cost-split: minor-fault": LOOK,
    "cost-split: fault-in-new-table": LOOK,
    "cost-split: write-after-fork": LOOK_UP,
    "cost-split: mprotect-4k": LOOK_UP,
    "cost-split: dontneed-4k": LOOK_UP,
    "cost-split: file-fault-around": WORDS,
    "cost-split: mremap-4m": MOVE,
    "locked-split: mremap-4m": MOVE,
    "locked-split: map-unmap-4k-alone": FREE,
    "cost: fork-exec-exit": ALLOCATORS,
    "unused: fork-exec-exit": ALLOCATORS,
    "nodes: fork-exec-exit": ALLOCATORS,
    "nodes-split: write-after-fork": SPARED,
    "nodes-split: dontneed-4k": SPARED,
    "nodes-split: dontneed-2m": SPARED,
    "nodes-split: map-unmap-4k": STACKS,
    "nodes-split: map-unmap-4k-alone": STACKS,
    "nodes-split: map-unmap-4m": STACKS,
    "nodes-split: mprotect-4k": STACKS,
    "nodes-split: mprotect-4m": STACKS,
    "nodes-split: mremap-4m": STACKS,
}


def slack(*numbers):
    """How much of a difference is not judged: none if all numbers are exact."""
    return 0 if all(number.exact for number in numbers) else max(1, ERRORS * sum(number.error for number in numbers))


def ratio(results, limit, row, most):
    """(was it kept, what was measured) on the machine where it is worst."""
    def one(nodes):
        judged, other = (results.get(nodes, policy, row, limit.metric) for policy in limit.policies)
        found = judged.value / other.value
        doubt = ERRORS * (judged.error / judged.value + other.error / other.value) * found
        return found - doubt - most, f"{found:.4f} on {nodes} nodes ({judged} : {other})"
    over, words = max(map(one, results.nodes()))
    return over <= 0, words


def beyond(results, limit, row, most):
    def one(nodes):
        judged, other = (results.get(nodes, policy, row, limit.metric) for policy in limit.policies)
        exact = limit.metric == "call_rcu" and judged.exact and other.exact
        differs = DIFFERS.get(limit.metric, 0) * other.value if row in PROCESSES + MANY_PAGES and not exact else 0
        return judged.value - other.value - slack(judged, other) - differs - most, \
            f"{judged.value - other.value:+,.0f} on {nodes} nodes ({judged}, Linux {other})"
    over, words = max(map(one, results.nodes()))
    return over <= 0, words


def growth(results, limit, row, most):
    few, many = min(results.nodes()), max(results.nodes())
    judged, other = ([results.get(nodes, policy, row, limit.metric) for nodes in (few, many)] if policy else None
                     for policy in limit.policies)
    grown = judged[1].value - judged[0].value
    linux = other[1].value - other[0].value if other else 0
    allowed = slack(*judged, *(other or [])) + max(linux, 0) + most
    return grown <= allowed, f"{grown:+,.0f} from {few} to {many} nodes ({judged[0]} to {judged[1]}), Linux {linux:+,.0f}"


def most(results, limit, row, most):
    judged, words = max((number.value, f"{number} on {nodes} nodes") for nodes in results.nodes()
                        for number in [results.get(nodes, limit.policies[0], row, limit.metric)])
    return judged <= most, words


KINDS = {"ratio": ratio, "beyond": beyond, "growth": growth, "most": most}


def rows_of(limit, results):
    """The rows that a limit is about: those that both of its policies have."""
    for row in results.rows:
        if row.name in steps.CALIBRATION or (limit.only and row.name not in limit.only) or \
                (row.name in NOT_COMPARED and row.name not in limit.only) or \
                (limit.metric == "remote" and row.name in steps.NOT_FOR_ACCESSES) or \
                not all(row.under(policy) for policy in limit.policies if policy):
            continue
        yield row.name


def judge(results, limits=None, not_yet=None, rows=None):
    """One outcome for each limit and row (of those given, if any), and one for each entry of NOT_YET that is about neither.

    What grows with the machine can be judged only if there are two.
    """
    limits, not_yet = LIMITS if limits is None else limits, NOT_YET if not_yet is None else not_yet
    outcomes, judged = [], set()
    for limit in limits:
        for row in rows_of(limit, results):
            name = f"{limit.name}: {row}"
            judged.add(name)
            if (rows is None or row in rows) and (limit.kind != "growth" or len(results.nodes()) > 1):
                outcomes.append(verdict(results, limit, row, not_yet.get(name)))
    for name in set(not_yet) - judged:
        outcomes.append(Outcome(f"steps, {name}", "failed", "NOT_YET in lab/meter/steps_limits.py names what is not judged"))
    return outcomes


def verdict(results, limit, row, reason):
    title, allowed = f"steps, {limit.name}: {row}", limit.by_row.get(row, limit.limit)
    try:
        kept, seen = KINDS[limit.kind](results, limit, row, allowed)
    except Disagreement as error:
        return Verdict(title, "failed", f"no number: {error}", limit=limit, row=row)
    if reason is None:
        result, why = "passed" if kept else "failed", f"{limit.what}: {seen}, limit {allowed:g}"
    elif kept and "~" in seen:
        result, why = "skipped", f"met this time, by samples that do not agree: {seen}, limit {allowed:g} ({reason})"
    elif kept:
        result, why = "failed", f"met: {seen}, limit {allowed:g}. Take it off NOT_YET in lab/meter/steps_limits.py ({reason})"
    else:
        result, why = "skipped", f"not yet: measured {seen}, limit {allowed:g} ({reason})"
    return Verdict(title, result, why, limit=limit, row=row, seen=seen)


def calibration(results):
    """Does the instrument count right? One outcome for each machine and policy."""
    outcomes = []
    for nodes, policy in sorted({(nodes, policy) for nodes, policy, _ in results.measured}):
        wrong = []
        for metric, due in steps_samples.KNOWN.items():
            try:
                nothing, known = (results.get(nodes, policy, row, metric) for row in steps.CALIBRATION)
                if not (nothing.exact and known.exact and known.value - nothing.value == due):
                    wrong.append(f"{metric}: {known} beyond {nothing}, not {due}")
            except Disagreement as error:
                wrong.append(f"{metric}: {error}")
        wrong += wrong_lines(results, nodes, policy)
        outcomes.append(Outcome(f"steps, calibration: {policy} on {nodes} nodes", "failed" if wrong else "passed", "\n".join(wrong)))
    return outcomes + known_allocations(results)


def wrong_lines(results, nodes, policy):
    """The known row has lines that other threads had last; processes have theirs for themselves."""
    measured = results.measured[nodes, policy, "known"]
    if "remote" not in measured.numbers and "remote" not in measured.errors:
        return []
    due = steps_samples.KNOWN_REMOTE if steps.EVERY[policy].split else 0
    try:
        number = results.get(nodes, policy, "known", "remote")
    except Disagreement as error:
        return [f"remote lines: {error}"]
    return [] if number.exact and number.value == due else [f"remote lines: {number}, not {due}"]


def known_allocations(results):
    """Linux allocates one page for a page, two where a table is missing: is that seen?"""
    outcomes = []
    for nodes in results.nodes():
        wrong = []
        for row, pages in (("minor-fault", 1), ("fault-in-new-table", 2)):
            if (nodes, "off", row) not in results.measured:
                continue
            try:
                number = results.get(nodes, "off", row, "pages")
                if number.value != pages:
                    wrong.append(f"{row}: {number} pages, not {pages}")
            except Disagreement as error:
                wrong.append(f"{row}: {error}")
        outcomes.append(Outcome(f"steps, calibration: pages on {nodes} nodes", "failed" if wrong else "passed", "\n".join(wrong)))
    return outcomes


def length(results, nodes, policy, row):
    try:
        return results.get(nodes, policy, row, "instructions").value
    except Disagreement:
        return 0


def cross_check(results):
    """The processor's clock counts instructions, too: it has to agree with the plugin but for the reading of it.

    Of CLOCK instructions one may be another CPU's: the clock counts what all execute, and in a long row they get a turn.
    """
    outcomes = []
    for nodes in results.nodes():
        checked, wrong = 0, []
        for (where, policy, row, accesses), overheads in sorted(results.clocks.items()):
            if where != nodes or not overheads:
                continue
            due = results.clocks.get((nodes, policy, "nothing", accesses), [None])[0]
            agreeing = sum(due is not None and abs(overhead - due) <= length(results, nodes, policy, row) // CLOCK
                           for overhead in overheads)
            checked += len(overheads)
            if 2 * agreeing <= len(overheads):
                wrong.append(f"{policy}, {row}{' (accesses)' if accesses else ''}: {agreeing} of {len(overheads)} samples agree")
        if not checked:
            wrong.append("no sample could be checked")
        outcomes.append(Outcome(f"steps, cross-check with the processor's clock on {nodes} nodes", "failed" if wrong else "passed",
                                "\n".join(wrong)))
    return outcomes
