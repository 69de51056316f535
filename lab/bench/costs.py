# SPDX-License-Identifier: GPL-2.0-only
"""What patterns of programs cost under policy auto: against Linux, and against the best policy that never changes. A part of ./hydra bench auto.

The program workloads/costs.c counts instructions of all CPUs, interrupts, page faults, and walks by the model of TLBs. A cost model makes one
number of them. Lines that CPUs take from each other are not in it.
"""
import dataclasses
import statistics

from lab import policies
from lab.bench.core import Step
from lab.measure import model
from lab.measure.limits import Check
from lab.measure.values import Line
from lab.meter import misses

ROW = "auto"
INSTRUCTION = model.PRICES["instructions"].ns
PRICED = ("interrupts", "faults", "far_walks")
# Policy auto decides once a second. Here it looks each 20 million instructions, or where less happens, or more has to be earned for a split, each 50 million.
LOOK_MS, LONG_LOOK_MS = 20, 50
LOOKS = 100                  # AUTO_POLICY_LOOKS of workloads/auto_policy.h: without a decision until then, none is waited for
REGRET, COST, LEFT_ALONE, DECISIONS = 1.05, 1.01, 1.002, 18
RETURNED_COST = 1.03         # in instructions: what a process that was split once asks at each change and flush
LOOK = 0.002                 # of a CPU, by a look each second
NEARLY = 0.25                # of an interrupt for each flush: a CPU may run Linux's own threads now and then
OF_SPLIT = "(not asserted: what a split process looks up and copies is in its cost)"
ABIS = "abis"                # policy auto never chooses domains of cores


@dataclasses.dataclass(frozen=True)
class Case:
    """A pattern, and what auto has to do."""
    what: str
    words: tuple             # for workloads/costs
    ends: tuple              # words of /proc/PID/hydra, state and why, of which one has to stand there at the end; empty: reported only
    flushes: int = 0         # of a turn, each of all CPUs under Linux; 0: not asserted
    left: bool = False       # it is to be left alone: Linux and auto are measured, no others
    why: str = ""            # why the regret is not asserted
    look_ms: int = LOOK_MS


def alone(what, why, *words, look_ms=LOOK_MS):
    return Case(what, words, (why,), left=True, look_ms=look_ms)


PLAIN, RETURNED, SPLIT = "plain one-node", "returned shared", "split saves"
ONE_THREAD = ("own", "--per-node", "0", "--rounds", "1024", "--batch", "16")
ONE_NODE = ("own", "--nodes", "1", "--rounds", "512", "--batch", "8")
SHORT = ("--rounds", "128", "--batch", "2")
GUARD = "a page's mprotect reaches all CPUs, as the program has not registered membarrier"
# In the order of the machine: once a program has used the model of TLBs, all further ones are slow.
CASES = {
    "one-thread": alone("a thread changes memory of its own", PLAIN, *ONE_THREAD),
    "one-thread-registered": alone("the same, membarrier registered", PLAIN, *ONE_THREAD, "--registered"),
    "one-node": alone("the threads of one node change memory of their own", PLAIN, *ONE_NODE),
    "one-node-registered": alone("the same, membarrier registered", PLAIN, *ONE_NODE, "--registered"),
    "fork": alone("a process starts others", PLAIN, "fork", "--per-node", "0", "--rounds", "64"),
    "quiet": alone("all threads compute, and seldom change memory", "watched quiet", "quiet", "--rounds", "256", look_ms=LONG_LOOK_MS),
    "realtime": alone("own, with a thread of SCHED_FIFO", "watched realtime", "own", *SHORT, "--left", "realtime"),
    "locked": alone("own, with all memory locked", "watched locked", "own", *SHORT, "--left", "locked"),
    "memory": alone("threads protect pages of their own, in a memory cgroup without room", "watched memory", "protect", *SHORT, "--registered", "--left", "memory"),
    "own": Case("threads change memory of their own", ("own", *SHORT, "--registered"), (SPLIT,), 3),
    "one": Case("all threads use one page, and change it in turn", ("one", *SHORT, "--registered"), (SPLIT,), 2),
    "pages": Case("all threads use one table, each its page", ("pages", *SHORT), (SPLIT,), 1),
    "save": Case("threads write to a store that a child process saves", ("save", *SHORT), (SPLIT,)),
    "own-unregistered": Case("own, membarrier not registered", ("own", *SHORT), (), 3, why=GUARD),
    "barriers": Case("threads protect a page each, membarrier not registered", ("protect", *SHORT), (RETURNED,), 2, why=GUARD),
    "phases": Case("own and one in turns, twice", ("phases", "--rounds", "1200", "--batch", "10", "--registered"), (), why="the best policy changes with the phase"),
    "read-all": Case("all threads read 1 GiB of one node", ("read", "--rounds", "64"), (SPLIT,), look_ms=LONG_LOOK_MS),
    "read-one": alone("one thread reads 1 GiB", PLAIN, "read", "--per-node", "0", "--rounds", "256", "--batch", "8"),
}
SAMPLED = ("read-all", "read-one")


def decide(ms):
    """The words under auto."""
    return ("--decide", str(ms))


def steps(columns, sampled):
    """columns: {column: the words for hydractl}. Under Linux a program reads the same files as under auto, so that its children have as many pages."""
    for name, case in CASES.items():
        if (name in SAMPLED) == sampled:
            for column, settings in columns.items():
                if column in ("linux", "auto") or not case.left:
                    yield Step(name, column, settings, ("costs", *case.words, *(decide(case.look_ms) if column in ("linux", "auto") else ())))


def cost(counts, times=1):
    """ns, by the cost model. A far walk stands in the place of a near one: near ones are not counted."""
    return model.ns({"instructions": counts["instructions"], **model.interrupts(counts["interrupts"]), "faults": counts["faults"],
                     "far_walks": counts["far_walks"], "near_walks": -counts["far_walks"]}, times)


def far_walks(seen):
    """As many as in the sample for each read."""
    if "sampled" not in seen:
        return 0
    (sample,) = seen["sampled"]
    return misses.walks(sample, seen["map"], seen["domains"])["far"] / seen["sample_reads"] * seen["reads"]


def taken(seen):
    batches, turns = seen["instructions"], seen["turns"]
    counts = {"instructions": sum(batches), "interrupts": seen["interrupts"], "faults": seen["faults"], "far_walks": far_walks(seen)}
    # Without what comes now and then: ticks, looks, threads of the kernel.
    yield "usual_instructions", statistics.median(batches) * len(batches), "instructions"
    yield from ((metric, value, "walks" if metric == "far_walks" else metric) for metric, value in counts.items())
    yield "interrupts_per_op", seen["interrupts"] / turns, "interrupts"
    yield "ns_per_turn", cost(counts) / turns, "ns"
    yield "copies", seen["copies"], "tables"
    yield "cpus", seen["cpus"], "CPUs"


def taken_of_auto(seen):
    """What the policy has done; nothing under others."""
    said = seen.get("auto", {})
    for metric, unit in (("state", "word"), ("why", "word"), ("given_up", ""), ("factor", ""), ("looks", "looks"), ("looks_until_decided", "looks"),
                         ("decisions", "decisions"), ("decisions_afterwards", "decisions"), ("tries", "splits"), ("rent_ppm", "ppm"), ("barriers", "flushes")):
        if metric in said:
            yield metric, int(said[metric]) if metric == "given_up" else said[metric], unit
    if "ns_per_look" in said:
        yield "instructions_per_look", said["ns_per_look"], "instructions"


# --- What is expected


def costs_of(get, name, columns, times=1):
    """{column: ns}. Of a case that auto leaves alone by the usual instructions, as a run is short: what a look takes has a limit of its own."""
    called = "usual_instructions" if name in CASES and CASES[name].left else "instructions"
    return {column: cost({"instructions": get(name, column, called), **{metric: get(name, column, metric) for metric in PRICED}}, times) for column in columns}


def verdicts(costs):
    """(the best policy that never changes, what auto costs of it, what auto costs of Linux)."""
    fixed = {column: ns for column, ns in costs.items() if column not in ("auto", ABIS)}
    best = min(fixed, key=fixed.get)
    return best, costs["auto"] / fixed[best], costs["auto"] / costs["linux"]


def said_of(found, base, asserted):
    """What other prices change; empty: no verdict."""
    (best, regret, of_linux), (usual_best, usual_regret, usual_of_linux) = found, base
    said = []
    if best != usual_best:
        said.append(f"the best is {policies.called(best)}")
    if asserted and (regret <= REGRET) != (usual_regret <= REGRET):
        said.append(f"of the best {regret:.3f}")
    if (of_linux <= COST) != (usual_of_linux <= COST):
        said.append(f"of Linux {of_linux:.3f}")
    return " and ".join(said)


def check_ends(get, name, case):
    words = f"{get(name, 'auto', 'state')} {get(name, 'auto', 'why')}"
    given_up, decisions = get(name, "auto", "given_up"), get(name, "auto", "decisions")
    seen = f"{words}: not decided within {LOOKS} looks" if given_up else f"{words}, after {get(name, 'auto', 'looks_until_decided')} looks"
    yield Check(ROW, f"{name}, auto: {' or '.join(case.ends) or 'decides'}, with at most {DECISIONS} decisions",
                f"{seen}, {decisions} decisions, {get(name, 'auto', 'decisions_afterwards')} of them after that",
                not given_up and (not case.ends or words in case.ends) and decisions <= DECISIONS)


def check_left_alone(get, name):
    ratio = get(name, "auto", "usual_instructions") / get(name, "linux", "usual_instructions")
    yield Check(ROW, f"{name}, auto: is left alone: instructions at most {LEFT_ALONE} of Linux's", f"{ratio:.4f}", ratio <= LEFT_ALONE)
    copies = get(name, "auto", "copies")
    yield Check(ROW, f"{name}, auto: is left alone: no copy of a page table", f"{copies:g}", copies == 0)


def check_costs(get, name, case, columns):
    costs = costs_of(get, name, columns)
    best, regret, of_linux = verdicts(costs)
    yield Check(ROW, f"{name}, auto: cost at most {COST} of Linux's", f"{of_linux:.3f}", of_linux <= COST)
    if case.left:
        return
    instructions = get(name, "auto", "instructions") / get(name, "linux", "instructions")
    state = get(name, "auto", "state")
    limit, split = RETURNED_COST if state == "returned" else COST, f" {OF_SPLIT}" if state == "split" else ""
    yield Check(ROW, f"{name}, auto: instructions at most {limit} of Linux's{split}", f"{instructions:.3f}", instructions <= limit, not split)
    why = f" (not asserted: {case.why})" if case.why else ""
    yield Check(ROW, f"{name}, auto: cost at most {REGRET} of the best policy of nodes{why}", f"{regret:.3f} ({policies.called(best)})", regret <= REGRET, not why)
    if ABIS in costs:
        ratio = costs["auto"] / costs[ABIS]
        yield Check(ROW, f"{name}, auto: cost at most {REGRET} of ABIS's, whose domains are cores (not asserted)", f"{ratio:.3f}", ratio <= REGRET, asserted=False)


def check_other_prices(get, measured):
    """measured: a function of a case, its columns."""
    said = []
    for name, case in CASES.items():
        usual = verdicts(costs_of(get, name, measured(case)))
        for called, times in model.OTHER_PRICES.items():
            words = said_of(verdicts(costs_of(get, name, measured(case), times)), usual, not case.left and not case.why)
            said += [f"{name}, {called}: {words}"] if words else []
    yield Check(ROW, "auto: no verdict is another with all prices halved, or doubled (not asserted)", "; ".join(said) or "none is", not said, asserted=False)


def check_linux(get, others):
    for name, case in CASES.items():
        if case.flushes:
            seen, wanted = get(name, "linux", "interrupts_per_op"), case.flushes * others
            yield Check(ROW, f"{name}, Linux: {wanted} interrupts for each turn", f"{seen:.2f}", abs(seen - wanted) <= case.flushes * NEARLY)


def check_machine(get):
    """What the prices under auto take for granted."""
    ns = [INSTRUCTION * get(name, "auto", "factor") / get(name, "auto", "cpus") for name in CASES]
    yield Check(ROW, "auto: an instruction takes 0.9 to 1.3 ns of the machine's clock", f"{min(ns):.2f} to {max(ns):.2f}", 0.9 <= min(ns) and max(ns) <= 1.3)
    most = max(get(name, "auto", "instructions_per_look") for name in CASES)
    share = most * INSTRUCTION / 1e9
    yield Check(ROW, f"auto: a look each second takes at most {100 * LOOK} % of a CPU", f"{100 * share:.4f} % ({most:,.0f} instructions)", share <= LOOK)


def check(get, columns, others):
    """others: CPUs but one."""
    yield from check_linux(get, others)
    if "auto" not in columns:
        return

    def measured(case):
        return ("linux", "auto") if case.left else columns
    yield from check_machine(get)
    yield from check_other_prices(get, measured)
    for name, case in CASES.items():
        yield from check_ends(get, name, case)
        if case.left:
            yield from check_left_alone(get, name)
        yield from check_costs(get, name, case, measured(case))


def lines():
    for name, case in CASES.items():
        if not case.left:
            yield Line(ROW, name, "ns_per_turn", f"{name}: {case.what}: cost of a turn by the model, ns", "")
            yield Line(ROW, name, "interrupts_per_op", f"{name}: interrupts for a turn", "", "")
