# SPDX-License-Identifier: GPL-2.0-only
"""What tables and pictures of ./hydra papers are made of: values that were measured, and ratios which the cost model makes of counts."""
import dataclasses
import typing

from lab import policies
from lab.bench import follow, miniatures, prefetch
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


# By the papers' names of placements, of which those with an I have other programs on the other node: the column of 'placed'.
PLACEMENTS = {name: name.replace("I", "").replace("LP-LD", "linux") for name in ("LP-LD", "LP-RD", "LP-RDI", "RP-LD", "RPI-LD", "RP-RD", "RPI-RDI", "RPI-LD-M",
                                                                                "RPI-LD-H", "RPI-LD-HP")}


def of_second_pass(get, case, name):
    counts = of_phase("placed", "steady")(get, case, PLACEMENTS[name])
    return model.loaded(counts) if "I" in name else counts


def of_first_pass(get, case, name):
    """Its walks are as many as those of the second pass."""
    return {**of_second_pass(get, case, name), **of_phase("placed", "first")(get, case, PLACEMENTS[name])}


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


def throughput(title, cases, columns):
    """By the model: the time of Linux's call for each of another one's."""
    def value(get, case, column):
        return model.ratio(of_size(get, case, "linux"), of_size(get, case, column), get.prices)
    return Shown(f"{title}: throughput, Linux = 1", "throughput, Linux = 1 (model)", tuple(cases.items()), columns, value, "ratio", "size")


# --- Counts of virtual machines

def of_two_reads(get, program, far, far_data=0):
    """A walk reads a leaf entry of the guest and a nested one. far: how many of the two are on another node, on average; far_data: the share of lines."""
    def of(metric):
        return get("placed", program, "linux", metric)
    walks = of("near_walks") + of("far_walks")
    return {"instructions": of("steady_instructions"), "near_walks": (2 - far) * walks, "far_walks": far * walks, "near_lines": (1 - far_data) * walks,
            "far_lines": far_data * walks}


FAR_READS = {"LL": 0, "LR": 1, "RL": 1, "RR": 2, "LRI": 1, "RLI": 1, "RRI": 2}


def of_places(get, program, column):
    counts = of_two_reads(get, program, FAR_READS[column])
    return model.loaded(counts) if column.endswith("I") else counts


def of_wide(get, program, column):
    """By the shares of 'walks'; data is on each of four nodes alike."""
    far = get("walks", "uniform", column, "one_remote_share") + 2 * get("walks", "uniform", column, "both_remote_share")
    return of_two_reads(get, program, far, 3 / 4)


# What becomes of tables when a program or a machine has moved: (the case and the column of 'follow' that has shown it).
GUEST_STAYS, GUEST_FOLLOWS, NESTED_FOLLOW = ("program", "linux"), ("program", "hydra"), ("machine", "linux")
STAY, NEAR = None, ()        # nested tables that stay; tables that are near all the time


def far_share(get, tables, second):
    """Of the last entries, those on the node that was left."""
    if tables in (STAY, NEAR):
        return 1 if tables is STAY else 0
    return 1 - get("follow", *tables, follow.metric(second))


# The papers' names: (the guest's tables, the nested ones).
MOVED_PROGRAM = {"RRI": (GUEST_STAYS, STAY), "RRI+e": (GUEST_STAYS, NESTED_FOLLOW), "RRI+g": (GUEST_FOLLOWS, STAY), "RRI+M": (GUEST_FOLLOWS, NESTED_FOLLOW)}
MOVED_MACHINE = {"RI": (NEAR, STAY), "RI+M": (NEAR, NESTED_FOLLOW)}
REPLICATED = {"replicated": (NEAR, NEAR)}


def of_moved(moves, second):
    """On the node that was left there are other programs."""
    def counts(get, program, column):
        guest, nested = moves[column]
        return model.loaded(of_two_reads(get, program, far_share(get, guest, second) + far_share(get, nested, second)))
    return counts


def by_second(title, moves):
    """Throughput: the time before the move for each of that afterwards. A second before the move all is near."""
    def value(get, second, column):
        return model.ratio(near(get, "gups"), near(get, "gups") if second < 0 else of_moved(moves, second)(get, "gups", column), get.prices)
    return Shown(f"{title}: throughput of gups, before = 1 (model)", "throughput, before = 1 (model)", tuple((second, second) for second in (-1, *follow.SECONDS)), tuple(moves),
                 value, "ratio", "seconds after the move")


def followed():
    """What 'follow' has counted."""
    columns = {"a program's": GUEST_FOLLOWS, "Linux": GUEST_STAYS, "a machine's, nested": NESTED_FOLLOW}
    return Shown("leaf entries in tables of the new node", "share", tuple((second, second) for second in follow.SECONDS), tuple(columns),
                 lambda get, second, column: 1 - far_share(get, columns[column], second), "near_share", "seconds after the move")


def near(get, program):
    """All tables and data are near."""
    return of_two_reads(get, program, 0)
