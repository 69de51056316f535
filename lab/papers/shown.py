# SPDX-License-Identifier: GPL-2.0-only
"""What tables and pictures of ./hydra papers are made of: values that were measured, and ratios which the cost model makes of counts."""
import dataclasses
import typing

from lab import policies
from lab.bench import miniatures, prefetch
from lab.measure import model


@dataclasses.dataclass(frozen=True)
class Shown:
    """A table and a picture of ours, by point and column."""
    title: str
    ylabel: str
    points: tuple            # of (what stands on the axis, the case)
    columns: tuple
    value: typing.Callable   # (get, case, column) -> a number, or a model.Ratio. get: a function of row, case, policy, metric; KeyError: not measured
    metric: str              # tells how a number is written (lab/measure/values.py)
    xlabel: str = ""


def measured(title, ylabel, row, metric, cases, columns=policies.POLICIES, xlabel=""):
    """Values of a measurement. cases: {what stands on the axis: the case}."""
    return Shown(title, ylabel, tuple(cases.items()), columns, lambda get, case, column: get(row, case, column, metric), metric, xlabel)


def times(title, ylabel, row, metric, cases, columns, xlabel=""):
    """Values of a measurement for each of Linux's."""
    return Shown(title, ylabel, tuple(cases.items()), columns, lambda get, case, column: get(row, case, column, metric) / get(row, case, "linux", metric),
                 "ratio", xlabel)


def by_row(title, ylabel, rows, case, metric, columns=policies.POLICIES, xlabel=""):
    """Values of several measurements. rows: {what stands on the axis: the measurement}."""
    return Shown(title, ylabel, tuple(rows.items()), columns, lambda get, row, column: get(row, case, column, metric), metric, xlabel)


def modelled(title, ylabel, counts, base, cases, columns=policies.POLICIES, xlabel=""):
    """Times for each of another one's. counts: (get, case, column) -> counts; base: (get, case) -> those to compare with."""
    def value(get, case, column):
        return model.ratio(counts(get, case, column), base(get, case), get.prices)
    return Shown(title, ylabel, tuple(cases.items()), columns, value, "ratio", xlabel)


def of_linux(title, counts, cases, columns=policies.POLICIES, xlabel=""):
    return modelled(f"{title}, Linux = 1", "time, Linux = 1 (model)", counts, lambda get, case: counts(get, case, "linux"), cases, columns, xlabel)


# --- Counts

def instructions(get, case, column):
    return {"instructions": get("operations", case, column, "instructions")}


def of_size(get, case, column):
    return {"instructions": get("sizes", case, column, "instructions")}


def of_call(operation):
    """Of a call which the meter counts, while other threads are busy: its instructions, and the interrupts that its caller sends."""
    def counts(get, case, column):
        return {**instructions(get, f"{operation}, apart", column), "sent": get("spinners", case, column, "interrupts")}
    return counts


def of_phase(row, phase):
    return lambda get, case, column: miniatures.phase_counts(lambda metric: get(row, case, column, metric), phase)


def of_first_pass(get, case, column):
    """Its walks are as many as those of the second pass."""
    return {**of_phase("placed", "steady")(get, case, column), **of_phase("placed", "first")(get, case, column)}


def fill_instructions(get, entries):
    """What a fill of so many entries takes more than the same reads under Mitosis, by 'placed'."""
    def more(column):
        less = get("placed", "gups", "RP-LD-M", "first_instructions")
        return (get("placed", "gups", column, "first_instructions") - less) / get("placed", "gups", column, "first_fills")
    one, all_entries = more("RP-LD-H"), more("RP-LD-HP")
    return one + (all_entries - one) * (entries - 1) / 511


def of_random_pass(get, case, column):
    """Each read is of another page, on the other node: a walk and a far line."""
    pages, fills = prefetch.PAGES, get("prefetch", case, column, "first_fills")
    filling = fills * fill_instructions(get, 1 << int(column[2:])) if column.startswith("H-") else 0
    near = 0 if column == "linux" else pages
    return {"instructions": filling, "faults": fills, "near_walks": near, "far_walks": pages - near, "far_lines": pages}


# --- Counts of virtual machines

def of_two_reads(get, program, far, far_data=0):
    """A walk reads a leaf entry of the guest and a nested one. far: how many of the two are on another node, on average; far_data: the share of lines."""
    def of(metric):
        return get("placed", program, "linux", metric)
    walks = of("near_walks") + of("far_walks")
    return {"instructions": of("steady_instructions"), "near_walks": (2 - far) * walks, "far_walks": far * walks, "near_lines": (1 - far_data) * walks,
            "far_lines": far_data * walks}


FAR_READS = {"LL": 0, "LR": 1, "RL": 1, "RR": 2}


def of_places(get, program, column):
    return of_two_reads(get, program, FAR_READS[column])


def of_wide(get, program, column):
    """By the shares of 'walks'; data is on each of four nodes alike."""
    far = get("walks", "uniform", column, "one_remote_share") + 2 * get("walks", "uniform", column, "both_remote_share")
    return of_two_reads(get, program, far, 3 / 4)


def far_guest(get):
    """The share of a moved process's walks that still read tables left behind, 20 s later."""
    return 1 - get("auto", "thread", "hydra", "near_walks_share")


def far_nested(get):
    """The share of nested entries left behind, once the machine's memory has moved and its trees have followed."""
    return 1 - get("nested", "followed", "hydra", "local_share")


def of_followed(moves):
    """moves: {column: (have the guest's tables followed, have the nested ones)}."""
    def counts(get, program, column):
        guest, nested = moves[column]
        return of_two_reads(get, program, (far_guest(get) if guest else 1) + (far_nested(get) if nested else 1))
    return counts


def over_moments(title, guest_moves):
    """Before a move, after it, and once tables have followed; under Linux none does. guest_moves: the guest's tables are left behind, too."""
    def counts(get, moment, column):
        left = 0 if moment == "before" else 1
        followed = moment == "later" and column == "hydra"
        guest = (far_guest(get) if followed else left) if guest_moves else 0
        return of_two_reads(get, "gups", guest + (far_nested(get) if followed else left))
    return modelled(f"{title}: time, before = 1", "time, before = 1 (model)", counts, lambda get, _: near(get, "gups"),
                    {"before": "before", "after the move": "moved", "later": "later"}, ("linux", "hydra"), "moment")


def of_nested_moved(get, program, column):
    """The guest's tables move with its memory; nested ones stay behind, or are where 'nested' has seen them."""
    far = 1 if column == "left behind" else 1 - get("nested", "followed", "hydra", "local_share")
    return of_two_reads(get, program, far)


def near(get, program):
    """All tables and data are near."""
    return of_two_reads(get, program, 0)
