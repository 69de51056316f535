# SPDX-License-Identifier: GPL-2.0-only
"""Measured values, and the lines of a table that they make.

Counts are shown as they are. A time or a rate is an emulator's, so it is shown only as a ratio to that of Linux in the same
boot.
"""
import csv
import dataclasses
import io
import json
import statistics

from lab import paths, policies

EMULATED = {"us_per_op", "requests_per_s", "seconds"}     # an emulator's: a ratio to Linux's in the same boot is all that they tell
FIELDS = ("row", "case", "policy", "metric", "value", "unit")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a table: one value for each policy, and plain words about them."""
    row: str
    case: str
    metric: str
    title: str               # what was counted, and when
    words: str               # what it means
    better: str = "fewest"   # or "most"; empty: no column wins (the demo's words say why)
    drawn: bool = False      # in the picture, though no column wins
    about: float = 0         # columns that differ from the best by at most this share win with it


class Values:
    """Values by row, case, policy and metric, of each run; asked for, an emulator's come for each of Linux's in the same run."""

    def __init__(self, entries):
        self.runs = {}
        for entry in entries:
            self.runs.setdefault(tuple(entry[field] for field in FIELDS[:4]), []).append(entry["value"])

    def get(self, row, case, policy, metric):
        """As measured, of several runs the median; KeyError if it was not."""
        return statistics.median(self.runs[row, case, policy, metric])

    def each(self, line, policy):
        """What to show of each run."""
        seen = self.runs[line.row, line.case, policy, line.metric]
        if line.metric not in EMULATED:
            return seen
        return [value / linux for value, linux in zip(seen, self.runs[line.row, line.case, "linux", line.metric])]

    def shown(self, line, policy):
        return statistics.median(self.each(line, policy))

    def has(self, line):
        return any(key[0] == line.row and key[1] == line.case and key[3] == line.metric for key in self.runs)

    def of(self, line):
        """The policies of a line, in the order they were measured."""
        return [policy for row, case, policy, metric in self.runs if (row, case, metric) == (line.row, line.case, line.metric)]


def ratio(value):
    """An emulator's ratio. Of a small one the emulator tells that it is small, not how small."""
    return "< 0.01" if 0 < value < 0.01 else f"{value:.2f}"


def number(value, metric):
    if metric in EMULATED:
        return ratio(value)
    if metric.endswith("_share"):
        return f"{100 * value:.1f} %"
    if metric.endswith("_of_linux"):
        return f"{value:.3f}"
    if metric.endswith(("_per_op", "_per_request")):
        return f"{value:.2f}"
    return f"{value:,.0f}"


def spread(values, line, policy):
    """What a cell says: of several runs the median and the spread of times, and from the least to the greatest of counts."""
    seen = values.each(line, policy)
    middle, least, most = (number(value, line.metric) for value in (statistics.median(seen), min(seen), max(seen)))
    if least == most:
        return middle
    return f"{middle} ({least}–{most})" if line.metric in EMULATED else f"{least}–{most}"


def differing(entries):
    """{(row, case, policy, metric): the values} of the counts that are not the same in each run."""
    return {key: seen for key, seen in Values(entries).runs.items() if key[3] not in EMULATED and len(set(seen)) > 1}


def winners(values, line):
    """The policies with the best value, as far as the table shows a difference."""
    found = {policy: values.shown(line, policy) for policy in values.of(line)}
    if not line.better or not found:
        return []
    best = (min if line.better == "fewest" else max)(found.values())
    return [policy for policy, value in found.items() if number(value, line.metric) == number(best, line.metric)
            or abs(value - best) <= line.about * best]


def verdict(values, line):
    """Which columns win, in words; empty if none can."""
    best, policies_here = winners(values, line), values.of(line)
    if not line.better:
        return ""
    if len(best) == len(policies_here):
        return "No difference." if not line.about else f"No difference of more than {100 * line.about:.0f} %."
    tied = f" (within {100 * line.about:.0f} %)" if line.about and len(best) > 1 else ""
    return f"{line.better.capitalize()}: {policies.listed(best)}{tied}."


def write_json(path, entries):
    paths.write_result(path, json.dumps(entries, indent=1) + "\n", "values")


def write_csv(path, entries):
    """The same values, a line for each."""
    sink = io.StringIO(newline="")
    writer = csv.DictWriter(sink, list(entries[0]) if entries else FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    paths.write_result(path, sink.getvalue(), "values")
