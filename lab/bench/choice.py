# SPDX-License-Identifier: GPL-2.0-only
"""What a user of ./hydra bench chooses: the measurement, the policies, the number of nodes, and how often all is repeated."""
import dataclasses

from lab import policies, progress
from lab.bench import allocators, apps, auto, follow, footprint, migrate, miniatures, nested, operations, patterns, prefetch, programs, sharing, sizes, spinners, walks
from lab.errors import LabError

# Those that are no rows of the demo, by name
BENCHES = {one.name: one for one in (footprint.BENCH, prefetch.BENCH, patterns.BENCH, patterns.LARGE, spinners.BENCH, sharing.BENCH, apps.BENCH,
                                     allocators.BENCH, operations.BENCH, sizes.BENCH, programs.BENCH, programs.SWEEP, nested.BENCH, follow.BENCH, walks.BENCH, migrate.BENCH, auto.BENCH, auto.WANDER, miniatures.BENCH,
                                     miniatures.PLACING)}
FORMER = {"people": "apps"}      # names which a measurement has had, and which users may still write
MOST_RUNS = 100


def runs(arguments):
    """How often; None if the user does not say."""
    if arguments.runs is not None and not 1 <= arguments.runs <= MOST_RUNS:
        raise LabError(f"--runs {arguments.runs}: must be 1 to {MOST_RUNS}", status=2)
    return arguments.runs


def nodes(arguments):
    """The one number of --nodes; None if the user does not say. (The meter takes several.)"""
    given = arguments.nodes
    if given and len(given) > 1:
        raise LabError(f"--nodes {' '.join(map(str, given))}: '{arguments.name or '--workload'}' runs on one machine; give one number",
                       "Only ./hydra bench steps takes several.", status=2)
    return given[0] if given else None


def with_linux(columns):
    """Linux is always measured, first, because the others are compared with it."""
    if "linux" not in columns:
        progress.say("Linux is measured, too: times are shown as ratios to it, and the others are compared with it")
    return tuple(dict.fromkeys(("linux", *columns)))


def word(column):
    """A column as --policies names it: 'node, entry' is node-entry."""
    return column.replace(", ", "-")


def columns(arguments, every):
    """Those of a measurement's columns that --policies names, in the measurement's order; all without --policies."""
    if arguments.policies is None:
        return tuple(every)
    by_word = {word(column): column for column in every}
    chosen = policies.in_list(arguments.policies)
    for name in chosen:
        if name not in by_word:
            raise LabError(f"--policies {arguments.policies}: '{arguments.name}' has no column '{name}'", f"It has {', '.join(by_word)}.", status=2)
    return with_linux([column for column in every if word(column) in chosen])


def settings(arguments):
    """{column: the words for hydractl} of --workload, where a policy may have settings of its own, as in hydra,filter=accessed."""
    chosen = policies.in_list(arguments.policies) if arguments.policies is not None else list(policies.POLICIES)
    return {column: policies.words(column) for column in with_linux([policies.with_options(policy, arguments) for policy in chosen])}


def resized(one, number):
    """The measurement on another number of nodes, or the reason why there is none."""
    if number is None or number == one.machine.nodes:
        return one
    if number not in one.sizes:
        other = f"'{one.name}' can have {listed(one.sizes)} nodes" if one.sizes else f"'{one.name}' has {one.machine.nodes} nodes always"
        raise LabError(f"--nodes {number}: {other}: {one.why_fixed}", status=2)
    return one.on(number)


def listed(numbers):
    """'2 to 8', or '2, 4, 6 or 8'."""
    first, last = numbers[0], numbers[-1]
    return f"{first} to {last}" if len(numbers) == last - first + 1 else f"{', '.join(map(str, numbers[:-1]))} or {last}"


def of_bench(one, arguments):
    """The measurement as the user wants it."""
    if one.counted:
        for option in ("policies", "runs"):
            if getattr(arguments, option) is not None:
                raise LabError(f"--{option} is not for '{one.name}': the meter counts it, repeats each operation by itself, and compares all its columns", status=2)
    one = resized(one, nodes(arguments))
    if one.counted:
        return one
    chosen = columns(arguments, one.columns())
    return dataclasses.replace(one, steps=tuple(step for step in one.steps if step.policy in chosen), runs=runs(arguments) or 1)
