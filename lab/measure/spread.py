# SPDX-License-Identifier: GPL-2.0-only
"""What the runs of a value come to: its median, the least and the greatest, ratios to Linux in the same runs, and by how much two runs may differ."""
import dataclasses
import statistics

TIMES = {"us", "s", "requests/s"}      # units; what has another one is a count, which should be the same in each run
EVENTS = "events"                      # of the processor: they differ from run to run as times do


@dataclasses.dataclass(frozen=True)
class Spread:
    row: str
    case: str
    policy: str
    metric: str
    unit: str
    by_run: dict             # {run: the value}
    estimated: bool = False  # perf did not count all the time

    @property
    def median(self):
        return statistics.median(self.by_run.values())

    @property
    def least(self):
        return min(self.by_run.values())

    @property
    def most(self):
        return max(self.by_run.values())

    @property
    def differs(self):
        """A count that is not the same in all runs."""
        return self.unit not in TIMES | {EVENTS} and self.least != self.most

    @property
    def timed(self):
        return self.unit in TIMES


def spreads(entries):
    """{(row, case, policy, metric): Spread}, in the order of the entries. Of several values of one run the median counts."""
    found = {}
    for entry in entries:
        key = tuple(entry[field] for field in ("row", "case", "policy", "metric"))
        unit, runs, estimated = found.setdefault(key, (entry["unit"], {}, []))
        runs.setdefault(entry["run"], []).append(entry["value"])
        estimated.append(entry.get("estimated", False))
    return {key: Spread(*key, unit, {run: statistics.median(values) for run, values in sorted(runs.items())}, any(estimated))
            for key, (unit, runs, estimated) in found.items()}


def ratio(spread, linux):
    """(ratio of the medians, least and greatest ratio of one run), to Linux's; None if Linux has none of these, or zeros."""
    both = [run for run in spread.by_run if linux and linux.by_run.get(run)]
    if not both or not linux.median:
        return None
    each = [spread.by_run[run] / linux.by_run[run] for run in both]
    return spread.median / linux.median, min(each), max(each)


# --- Two runs

@dataclasses.dataclass(frozen=True)
class Allowed:
    """By how much a value may differ between two runs: by a share of the greater one, or by so much, whichever is more."""
    share: float
    most: float
    why: str                 # of the spread, in words

    def covers(self, one, other):
        if isinstance(one, str) or isinstance(other, str):
            return one == other
        return abs(one - other) <= max(self.share * max(abs(one), abs(other)), self.most) + TINY

    def __str__(self):
        parts = [f"{100 * self.share:g} %"] * bool(self.share) + [f"{self.most:g}"] * bool(self.most)
        return " or ".join(parts) or "0"


TINY = 1e-9                  # of arithmetic
EXACT = Allowed(0, 0, "")
HOST = "how many threads are on a CPU at once depends on the host's load"
MOMENT = "a busy thread may be off its CPU for a moment"
OWN_THREADS = "a CPU may run Linux's own threads now and then"
TURNS = "a loop ends after some seconds"
CLOCK = "a tick comes at another instruction, and pages are at other places"
OWN_TABLES = "the program's own tables: which there are, and which nodes have them when the count begins"
OTHERS_PROGRAMS = ("sharing", "apps", "allocators", "allocators-2", "allocators-4")
TURN = "which thread of the program comes first in a table, or waits for another"
PROGRAMS_OF_THREADS = {"model_": Allowed(0.04, 0, TURN), "instructions": Allowed(0.05, 50, CLOCK), "faults": Allowed(0.02, 20, TURN),
                       "fills": Allowed(0.4, 20, TURN), "interrupts": Allowed(0.1, 20, TURN)}
# (measurement, part of a metric's name, by how much it may differ). None: any measurement. The first that fits counts; what none fits is exact.
ALLOWED = (
    *((name, "interrupts", Allowed(0.85, 40, HOST)) for name in ("programs", "sweeps")),
    *((name, "pagetable_kib", Allowed(0.4, 100, HOST)) for name in ("programs", "sweeps")),
    ("apache", "interrupts_per_request", Allowed(0.3, 0.1, HOST)),
    *((name, "interrupts_per_op", Allowed(0.1, 0.1, MOMENT)) for name in ("mprotect", "munmap")),
    ("walks", "exits", Allowed(0.9, 2, "whether the CPUs of the machine in the machine sleep depends on the host's load")),
    ("walks", "interrupts", Allowed(0, 0.05, MOMENT)),
    *(("footprint", metric, Allowed(0.3, 2, "the program's own tables, which nodes copy and leave")) for metric in ("program_copies", "other_tables")),
    *((name, metric, allowed) for name in ("miniatures", "placed") for metric, allowed in PROGRAMS_OF_THREADS.items()),
    *((name, "fills", Allowed(0.3, 80, OWN_TABLES)) for name in OTHERS_PROGRAMS),
    *((name, "pagetable_kib", Allowed(0.15, 120, OWN_TABLES)) for name in ("apps", "sharing")),
    *((name, "_share", Allowed(0, 0.02, "one table of some 56 is the program's own")) for name in ("follow", "auto", "locality")),
    ("auto", "looks", Allowed(0, 2, "the process begins at another moment of a look")),
    (None, "pagetable_kib", Allowed(0.03, 16, OWN_TABLES)),
    *((name, "_per_op", Allowed(0, 0.25, OWN_THREADS)) for name in (*OTHERS_PROGRAMS, "auto")),
    (None, "operations", Allowed(0.5, 0, TURNS)),
    (None, "agreeing_share", Allowed(0, 0.25, OWN_THREADS)),
    (None, "instructions", Allowed(0.02, 50, CLOCK)),
    *((None, metric, Allowed(0.05, 40, CLOCK)) for metric in ("walks", "lines")),
)


def allowed(row, metric):
    return next((spread for name, part, spread in ALLOWED if name in (row, None) and part in metric), EXACT)
