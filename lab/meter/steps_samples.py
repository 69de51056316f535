# SPDX-License-Identifier: GPL-2.0-only
"""From the samples of lab/meter/steps_plugin.c to one number for each row, policy and metric, or the reason why there is none."""
import collections
import dataclasses
import json
import statistics

# The classes of lab/meter/steps_plugin.c, by the names of the kernel's functions.
CLASSES = {
    "p": {"__alloc_pages_noprof", "alloc_pages_bulk_noprof"},
    "s": {"__kmalloc_noprof", "__kmalloc_node_noprof", "__kmalloc_node_track_caller_noprof", "__kmalloc_cache_noprof",
          "__kmalloc_cache_node_noprof", "kmem_cache_alloc_noprof", "kmem_cache_alloc_lru_noprof",
          "kmem_cache_alloc_node_noprof", "kmem_cache_alloc_bulk_noprof"},
    "r": {"call_rcu", "call_rcu_hurry", "kvfree_call_rcu"},
    "t": {"__switch_to_asm"},
    "d": {"asm_common_interrupt", "asm_spurious_interrupt"},
    "f": {"asm_exc_page_fault"},
}
PREFIXES = {"asm_sysvec_": "i", "asm_exc_": "e"}
NEEDED = ("__alloc_pages_noprof", "kmem_cache_alloc_noprof", "call_rcu", "__switch_to_asm", "asm_sysvec_apic_timer_interrupt",
          "asm_exc_page_fault")

METRICS = ("instructions", "kernel", "user", "locked", "pages", "objects", "call_rcu", "remote")
COUNTS = ("interrupts", "copies")          # what the program counts itself
UNITS = {"interrupts": "interrupts", "copies": "tables", "pages": "allocations", "objects": "allocations", "call_rcu": "calls", "remote": "lines"}

# What the row "known" of workloads/steps_calibration.c executes beyond the row "nothing", and the lines of its that threads
# on other CPUs had last: the word, and the 1000 bytes written from the 1000th on (lines 15 to 31).
KNOWN = {"instructions": 2019, "kernel": 0, "locked": 9, "pages": 0, "objects": 0, "call_rcu": 0}
KNOWN_REMOTE = 18

AVERAGED = 0.05              # samples that do not agree may differ from their median by so much,
AVERAGED_UNITS = 4           # or by so many,
AVERAGED_SHARE = 0.75        # and so many of them must not by more


class Disagreement(Exception):
    """Samples that do not give a number."""


@dataclasses.dataclass
class Number:
    value: float
    exact: bool              # more than half of the samples agree to the unit; else it is the least of them
    error: float = 0.0       # the standard error of the samples' average

    def __str__(self):
        return f"{self.value:,.0f}" if self.exact else f"~{self.value:,.0f}"


@dataclasses.dataclass
class Measured:
    """One row under one policy on one machine."""
    numbers: dict            # of METRICS
    samples: int
    waits: bool = False      # it waited for other CPUs: of such a loop one pass is counted
    interrupted: bool = False    # nearly every sample was; the interrupts themselves are not counted
    functions: dict = dataclasses.field(default_factory=dict)    # instructions by function, of a sample like most
    lines: dict = dataclasses.field(default_factory=dict)        # remote lines by the function that fetches them
    errors: dict = dataclasses.field(default_factory=dict)       # metric: why it has no number

    def get(self, metric):
        if metric in self.errors:
            raise Disagreement(self.errors[metric])
        if metric not in self.numbers:
            raise Disagreement("it was not measured")
        return self.numbers[metric]


def class_of(name):
    for letter, names in CLASSES.items():
        if name in names:
            return letter
    return next((letter for prefix, letter in PREFIXES.items() if name.startswith(prefix)), "-")


def symbols(system_map):
    """(address, class, name) of the kernel's functions in the order of their addresses, from the text of a System.map."""
    found = []
    for line in system_map.splitlines():
        address, kind, name = line.split()[:3]
        if kind in "tTwW" and int(address, 16) >> 63:
            found.append((int(address, 16), class_of(name), name))
    missing = set(NEEDED) - {name for _, _, name in found}
    if missing:
        raise Disagreement(f"this kernel has no {', '.join(sorted(missing))}: adjust lab/meter/steps_samples.py")
    return sorted(found, key=lambda entry: entry[0])


def symbol_lines(found):
    """What the plugin reads."""
    return "".join(f"{address:x} {letter} {name[:63]}\n" for address, letter, name in found)


def typical(values):
    """The one number of some samples."""
    value, agreeing = collections.Counter(values).most_common(1)[0]
    if 2 * agreeing > len(values):
        return Number(value, True)
    median = sorted(values)[len(values) // 2]
    near = [value for value in values if abs(value - median) <= max(AVERAGED * median, AVERAGED_UNITS)]
    if len(near) < AVERAGED_SHARE * len(values):
        raise Disagreement(f"only {agreeing} of {len(values)} samples agree (from {min(values):,} to {max(values):,})")
    return Number(min(near), False, statistics.stdev(near) / len(near) ** 0.5)


def parse(text):
    """Samples by (policy, row, whether accesses were looked at), all three as the program gave them."""
    groups = collections.defaultdict(list)
    for line in text.splitlines():
        sample = json.loads(line)
        sample["instructions"] = sample["user"] + sample["kernel"]
        groups[sample["policy"], sample["row"], bool(sample["accesses"])].append(sample)
    return groups


def worthwhile(samples):
    """(the samples to use, whether interrupts hit them): if interrupts hit nearly all, those are used, too."""
    usable = [sample for sample in samples if not sample["dirty"]]
    clean = [sample for sample in usable if not sample["interrupts"]]
    if 2 * len(clean) >= len(samples):
        return clean, False
    if 2 * len(usable) >= len(samples):
        return usable, True
    why = collections.Counter(sample["dirty"] for sample in samples if sample["dirty"]).most_common(1)[0][0]
    raise Disagreement(f"{len(samples) - len(usable)} of {len(samples)} samples were spoilt: {why}")


def measured(samples, accesses, names=()):
    """A row of the samples of one policy; names are those of functions by their numbers."""
    metrics = ("remote",) if accesses else tuple(metric for metric in METRICS if metric != "remote")
    try:
        used, interrupted = worthwhile(samples)
    except Disagreement as error:
        return Measured({}, 0, errors={metric: str(error) for metric in metrics})
    row = Measured({}, len(used), waits=any(sample["waits"] for sample in used), interrupted=interrupted)
    for metric in metrics:
        try:
            row.numbers[metric] = typical([sample[metric] for sample in used])
        except Disagreement as error:
            row.errors[metric] = str(error)
    main = metrics[0]
    if main in row.numbers and "functions" in used[0]:
        like_most = min(used, key=lambda sample: abs(sample[main] - row.numbers[main].value))
        found = {names[int(number)]: count for number, count in like_most["functions"].items()}
        if accesses:
            row.lines = found
        else:
            row.functions = found
    return row


def counted(entry):
    """What the program itself counted, from a line that it printed."""
    row = Measured({"copies": Number(entry["copies"], True)}, len(entry["interrupts"]))
    try:
        row.numbers["interrupts"] = typical(entry["interrupts"])
    except Disagreement as error:
        row.errors["interrupts"] = str(error)
    return row


def clock_overheads(samples, times):
    """What the processor's clock counted beyond the plugin, of the samples that have to agree.

    Under -icount the clock advances by one for each instruction that any CPU executes. So it has to agree but for the
    constant overhead of reading it, unless there was an interrupt or a wait: then others run, too.
    """
    pairs = [(sample, time) for sample, time in zip(samples, times)
             if not sample["dirty"] and not sample["interrupts"] and not sample["waits"]]
    return [time - sample["executed"] for sample, time in pairs]
