# SPDX-License-Identifier: GPL-2.0-only
"""Instructions by size: values that keep every limit, and for each limit values that break it. (No machine boots.)"""
import pytest

from lab.bench import core, sizes
from lab.meter import steps
from lab.meter.steps_samples import Measured, Number

MITOSIS = 3                  # times Linux's instructions


def results(change=None):
    """What the meter gives; change(row, policy) may give another number."""
    rows = [steps.Row(sizes.case_of(call, size), False, False, more=True) for call in sizes.CALLS for size in sizes.SIZES]
    made = steps.Results(rows)
    for row in rows:
        for policy in sizes.COLUMNS:
            number = (change and change(row.name, policy)) or (1000 + 500 * row.name.startswith("map")) * (MITOSIS if policy == "mitosis" else 1)
            made.add(sizes.NODES, f"{policy}-apart", row.name, Measured({"instructions": Number(number, True)}, 9))
    return made


def values(change=None):
    return sizes.values_of(results(change))


def broken(change=None):
    return [check.text for check in core.checked(sizes.BENCH, values(change)) if not check.passed]


def test_good_values_keep_every_limit():
    assert len(core.checked(sizes.BENCH, values())) == len(sizes.CALLS) * len(sizes.SIZES) and broken() == []


@pytest.mark.parametrize("row", [sizes.case_of(call, size) for call in sizes.CALLS for size in sizes.SIZES])
@pytest.mark.parametrize("policy, number", [("hydra", 1.21), ("mitosis", 0.99)])
def test_each_limit_can_be_broken(row, policy, number):
    base = 1500 if row.startswith("map") else 1000
    (text,) = broken(lambda *where: number * base if where == (row, policy) else None)
    assert sizes.SIZES[row.split("-")[-1]] in text


def test_what_is_mapped_is_what_is_left_without_munmap():
    mapped = [entry["value"] for entry in values() if (entry["case"], entry["policy"]) == ("map-4k", "linux")]
    assert mapped == [500]


def test_what_has_no_number_is_left_out():
    made = results()
    del made.measured[sizes.NODES, "hydra-apart", "unmap-4k"]
    cases = {entry["case"] for entry in sizes.values_of(made) if entry["policy"] == "hydra"}
    assert "map-unmap-4k" in cases and not {"unmap-4k", "map-4k"} & cases


def test_rows_of_sweeps_are_measured_only_by_name():
    rows = results().rows
    assert steps.chosen_rows(steps.Plan(), rows) == [] and steps.chosen_rows(steps.Plan(rows=("unmap-4m",)), rows) == [row for row in rows if row.name == "unmap-4m"]
