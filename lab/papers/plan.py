# SPDX-License-Identifier: GPL-2.0-only
"""Which measurements ./hydra papers makes, whole or quick, and what makes two runs of one the same."""
import dataclasses
import hashlib

from lab.bench import allocators, choice, core
from lab.kernel import build
from lab.machine import programs
from lab.measure import measure
from lab.meter import counters
from lab.policies import POLICIES

# name: (minutes on two cores, those of a quick run or 0 if it has none). What takes longest and shows least is not in a quick run.
MINUTES = {"sizes": (3, 3), "sweeps": (6, 0), "allocators-2": (2, 0), "allocators-4": (3, 0), "footprint": (2, 2), "prefetch": (0.5, 0.5), "nested": (0.5, 0.5), "placed": (3, 2), "pipeline-64": (3, 0), "spinners": (4, 0), "mprotect": (2, 2),
           "miniatures": (10, 4), "operations": (8, 0), "sharing": (3, 0), "apache": (4, 0), "allocators": (6, 0), "walks": (9, 0), "programs": (9, 0),
           "auto": (4, 0), "munmap": (2, 0), "locality": (1, 0), "apps": (2, 0), "follow": (2, 0), counters.NAME: (0.5, 0.5)}
# Those that the papers' axes need besides.
BESIDES = {f"allocators-{nodes}": allocators.on(nodes, f"allocators-{nodes}") for nodes in (2, 4)}
# What documents quote, and no figure needs: a whole run of all papers makes them.
QUOTED = ("munmap", "locality", "apps")
# What a run has of a measurement, if not all: the rest of it is about no figure.
CASES = {"auto": ("thread",)}
# What a quick run has of a measurement, if not all.
QUICK_CASES = {"miniatures": ("gups", "btree", "canneal", "wordcount", "wordcount, small blocks", "dedup"), "placed": ("gups", "canneal")}
QUICK_COLUMNS = {"miniatures": ("linux", "mitosis", "hydra")}


@dataclasses.dataclass(frozen=True)
class Task:
    """A measurement. bench: None: a row of the demo, or the lines of counters of references."""
    name: str
    minutes: float
    bench: object = None

    def steps(self):
        return repr(self.bench.steps) if self.bench and not self.bench.counted else ""


def task(name, quick):
    one = BESIDES.get(name) or choice.BENCHES.get(name)
    if one:
        cases = QUICK_CASES.get(name) if quick and name in QUICK_CASES else CASES.get(name)
        columns = QUICK_COLUMNS.get(name) if quick else None
        wanted = tuple(step for step in one.steps if (not cases or step.case in cases) and (not columns or step.policy in columns))
        one = dataclasses.replace(one, steps=wanted)
    return Task(name, MINUTES[name][quick], one)


def tasks(names, quick):
    """(those of this run, the names that a quick run leaves out), the shortest first: an interrupted run has shown much."""
    made = sorted((task(name, quick) for name in names if MINUTES[name][quick]), key=lambda one: one.minutes)
    return tuple(made), tuple(name for name in names if not MINUTES[name][quick])


def identity(one):
    """What has to be the same for a kept measurement to be taken: the kernel, the programs, the emulator's plugin, the steps."""
    plugin = programs.content_key("conflicts-plugin" if one.name == counters.NAME else "misses-plugin")
    parts = (build.image_key("lab"), programs.content_key("workloads"), programs.content_key("hydractl"), plugin, one.steps())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def run(one):
    """The values of a measurement, and of its limits (text, what was seen, passed, asserted)."""
    if one.name == counters.NAME:
        found = counters.measure()
        return counters.entries_of(found), [[check.text, check.seen, bool(check.passed), check.asserted] for check in counters.check(found)]
    if one.bench is None:
        return measure.published(measure.alone(one.name, measure.machine_for(one.name, None), POLICIES, None)), []
    entries = core.run(one.bench)
    whole = one.bench.steps == (BESIDES.get(one.name) or choice.BENCHES[one.name]).steps
    checks = core.checked(one.bench, entries) if whole else []
    return entries, [[check.text, check.seen, bool(check.passed), check.asserted] for check in checks]
