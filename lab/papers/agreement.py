# SPDX-License-Identifier: GPL-2.0-only
"""Do two runs of ./hydra papers agree? Each value of one is compared with that of the other, and may differ by the spread of its kind."""
import dataclasses

from lab import policies
from lab.measure import spread
from lab.measure.values import EMULATED


@dataclasses.dataclass(frozen=True)
class Group:
    """The values of a measurement that may differ by the same."""
    name: str
    allowed: spread.Allowed
    compared: tuple          # of ((case, policy, metric), the value, the other run's)

    @property
    def equal(self):
        return sum(one == other for _, one, other in self.compared)

    @property
    def outside(self):
        return [found for found in self.compared if not self.allowed.covers(*found[1:])]

    @property
    def largest(self):
        """The value that differs most, as a share of the greater one; None if none does."""
        return max((found for found in self.compared if found[1] != found[2]), key=lambda found: difference(*found[1:]), default=None)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """What the comparison with another run has found."""
    directory: str
    groups: tuple
    dates: dict              # {measurement: that of the other run}
    alone: dict              # {measurement: values that only one of the runs has}
    other_steps: set         # measurements of which the other run had another kernel, other programs or steps, as a quick one has: there values may be alone
    times: int               # an emulator's, not compared
    missing: tuple           # measurements that the other run has not

    def broken(self):
        """Measurements in which the runs do not agree."""
        return {group.name for group in self.groups if group.outside} | {name for name, keys in self.alone.items() if keys and name not in self.other_steps}


def difference(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return float("inf")
    return abs(one - other) / max(abs(one), abs(other))


def told(found):
    """One of a group's compared values, in words."""
    (case, policy, metric), *both = found
    one, other = (value if isinstance(value, str) else f"{value:,.6g}" for value in both)
    return f"{case}, {policies.called(policy)}, {metric}: {one} and {other}"


def counts(found):
    """{(case, policy, metric): (its row, its value)} of what two runs should have alike, and how many times there are besides."""
    kept = {}
    for entry in found["values"]:
        if entry["metric"] not in EMULATED:
            kept[entry["case"], entry["policy"], entry["metric"]] = (entry["row"], entry["value"])
    return kept, len(found["values"]) - len(kept)


def of_measurement(name, mine, theirs):
    """Its groups, and the values that only one run has."""
    groups = {}
    for key in mine.keys() & theirs.keys():
        row, value = mine[key]
        groups.setdefault(spread.allowed(row, key[2]), []).append((key, value, theirs[key][1]))
    made = tuple(Group(name, allowed, tuple(sorted(found))) for allowed, found in groups.items())
    return sorted(made, key=lambda group: str(group.allowed)), sorted(mine.keys() ^ theirs.keys())


def compare(made, others, directory):
    """made, others: {measurement: what was kept of it}."""
    groups, alone, times = [], {}, 0
    both = [name for name in made if name in others]
    for name in both:
        (mine, untimed), (theirs, _) = counts(made[name]), counts(others[name])
        found, alone[name] = of_measurement(name, mine, theirs)
        groups += found
        times += untimed
    return Agreement(str(directory), tuple(groups), {name: others[name]["date"] for name in both}, alone,
                     {name for name in both if made[name]["identity"] != others[name]["identity"]}, times, tuple(name for name in made if name not in others))
