# SPDX-License-Identifier: GPL-2.0-only
"""The operations that the meter counts under each policy: values that keep every limit, and for each limit values that break it."""
import pytest

from lab.bench import core, operations
from lab.measure import report, values as measured
from lab.meter import steps
from lab.meter.steps_samples import KNOWN, Measured, Number, counted


def results(change=None):
    """What the meter gives if all is right; change(row, sharing, policy, numbers) may spoil it."""
    rows = [steps.Row(name, False, False, True) for name in ("nothing", "known", *operations.ROWS)]
    made = steps.Results(rows)
    for row in rows:
        for name, column in operations.COLUMNS.items():
            for sharing in operations.sharings_of(row.name):
                numbers = {"instructions": 1000, **dict.fromkeys(KNOWN, 0), "interrupts": 0, "copies": 0}
                if row.name in operations.ROWS:
                    numbers["interrupts"] = operations.expected(row.name, sharing, column)
                    numbers["instructions"] = 5000 if (name, row.name) == ("mitosis", "mprotect-4m") else 1000
                    numbers["copies"] = 0 if name == "linux" or sharing == "apart" else 4 if name == "accessed" else 3
                if row.name == "known":
                    numbers.update({metric: value + numbers[metric] for metric, value in KNOWN.items()})
                if change:
                    change(row.name, sharing, name, numbers)
                made.add(operations.NODES, f"{name}-{sharing}", row.name, Measured({metric: Number(value, True) for metric, value in numbers.items()}, 9))
    return made


def spoil(row, sharing, policy, **values):
    def change(*where_and_numbers):
        if where_and_numbers[:3] == (row, sharing, policy):
            where_and_numbers[3].update(values)
    return change


def broken(change=None):
    return [check for check in core.checked(operations.BENCH, operations.values_of(results(change))) if not check.passed]


def test_good_values_keep_every_limit():
    assert broken() == []


@pytest.mark.parametrize("change, said", [
    (spoil("known", "apart", "hydra", locked=8), "known instructions"),
    *((spoil(row, sharing, policy, interrupts=operations.expected(row, sharing, operations.COLUMNS[policy]) + 1), f"{row}, {what}: interrupts")
      for row in operations.ROWS for sharing in operations.sharings_of(row) for what in (operations.SHARINGS[sharing],) for policy in operations.COLUMNS),
    (spoil("mprotect-4k", "together", "accessed", copies=5), "one table more"),
    (spoil("mprotect-4k", "apart", "accessed", copies=1), "one table more"),
    (spoil("minor-fault", "apart", "accessed", instructions=1001), "ABIS: 9 % more time"),
    (spoil("mprotect-4m", "apart", "mitosis", instructions=3400), "at least 3.45"),
    (spoil("mprotect-4m", "apart", "hydra", instructions=1011), "the same under Hydra")])
def test_a_broken_limit_fails_and_no_other(change, said):
    (failed,) = broken(change)
    assert said in failed.text and failed.asserted


@pytest.mark.parametrize("sharing, policy, most", [(sharing, column.split(", ")[1], most) for sharing, kept in operations.KEPT.items()
                                                   for column, most in kept.items()])
def test_the_price_of_a_finer_filter(sharing, policy, most):
    def checks(row, instructions):
        return [check.asserted for check in broken(spoil(row, sharing, policy, instructions=instructions)) if "one table more" not in check.text]
    assert True not in checks("dontneed-4k", 1000 * most) and True in checks("dontneed-4k", 1000 * most + 1)
    pays = policy == "auto" and sharing == "together"
    assert (True in checks("mprotect-4k", 1000 * most + 1)) == (not pays)


def test_the_price_at_which_accessed_would_be_for_users():
    def checks(instructions):
        return [check.asserted for check in broken(spoil("dontneed-4k", "together", "accessed", instructions=instructions))]
    assert checks(1000 * operations.RULE) == [] and checks(1000 * operations.RULE + 1) == [False]


def test_what_was_not_measured_fails():
    made = results()
    del made.measured[operations.NODES, "abis-together", "mremap-4m"].numbers["interrupts"]
    (failed,) = [check for check in core.checked(operations.BENCH, operations.values_of(made)) if not check.passed]
    assert "missing" in failed.seen


def test_it_is_shown(capsys):
    values = operations.values_of(results())
    report.table("title", operations.BENCH.lines, values)
    shown = capsys.readouterr().out
    assert "5.000" in shown and "hydra, accessed" in shown
    assert all(measured.Values(values).has(line) for line in operations.BENCH.lines)


def test_what_the_machine_is_told():
    plan = steps.Plan(policies=tuple(steps.SIDE_BY_SIDE), access_samples=0, counts=True)
    rows = [steps.Row("known", False, False), steps.Row("mprotect-4k", False, False, True), steps.Row("fault-in-new-table", False, False)]
    words, count = steps.guest_steps(plan, "lab", 4, rows)
    assert [line.split()[0] for line in words] == 2 * list(steps.WAYS.values()) and count == 7 * (3 + 2)
    assert all("--counts" in line and "--others threads --cpus 3,5,7" in line for line in words)
    assert [("--use" in line, "fault-in-new-table" in line) for line in words] == 7 * [(False, True)] + 7 * [(True, False)]
    # Of policy auto, the samples come after the tries.
    assert ["--warm-up" in line for line in words] == 7 * [False] + [how == "hydra/auto" for how in steps.WAYS.values()]


def test_what_the_program_counts():
    row = counted({"copies": 7, "interrupts": [3, 3, 3, 4]})
    assert row.get("interrupts") == Number(3, True) and row.get("copies").value == 7
    assert "interrupts" in counted({"copies": 0, "interrupts": [0, 100, 200, 300]}).errors
