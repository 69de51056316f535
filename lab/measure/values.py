# SPDX-License-Identifier: GPL-2.0-only
"""Measured values, and the lines of a table that they make.

Counts are shown as they are. A time or a rate is an emulator's, so it is shown only as a ratio to that of Linux in the same
boot.
"""
import csv
import dataclasses
import io
import json

from lab import paths
from lab.measure import policies

EMULATED = {"us_per_op", "requests_per_s"}     # an emulator's: a ratio to Linux's in the same boot is all that they tell
FIELDS = ("row", "case", "policy", "metric", "value", "unit")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a table: one value for each policy, and plain words about them."""
    row: str
    case: str
    metric: str
    title: str               # what was counted, and when
    words: str               # what it means
    better: str = "fewest"   # or "most"; empty: no column wins
    about: float = 0         # columns that differ from the best by at most this share win with it


class Values:
    """Values by row, case, policy and metric; asked for, an emulator's come for each of Linux's."""

    def __init__(self, entries):
        self.value = {tuple(entry[field] for field in FIELDS[:4]): entry["value"] for entry in entries}

    def get(self, row, case, policy, metric):
        """As measured; KeyError if it was not."""
        return self.value[row, case, policy, metric]

    def shown(self, line, policy):
        value = self.get(line.row, line.case, policy, line.metric)
        return value / self.get(line.row, line.case, "linux", line.metric) if line.metric in EMULATED else value

    def has(self, line):
        return any(key[0] == line.row and key[1] == line.case and key[3] == line.metric for key in self.value)

    def of(self, line):
        """The policies of a line, in the order they were measured."""
        return [policy for row, case, policy, metric in self.value if (row, case, metric) == (line.row, line.case, line.metric)]


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
