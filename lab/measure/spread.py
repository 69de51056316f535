# SPDX-License-Identifier: GPL-2.0-only
"""What the runs of a value come to: its median, the least and the greatest, and ratios to Linux in the same runs."""
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
