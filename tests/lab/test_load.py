# SPDX-License-Identifier: GPL-2.0-only
"""The hour under auto: what is made of what a machine has printed. (No machine boots.)"""
import pytest

from lab.test import load

STATS = "looks 9 splits 70 returns 70 watched 1 spent_us 5"


def printed(violations=0, left=0, tables=3000, phases=0, status=0, programs=100, decisions=70):
    lines = [f"### before violations 0 total_kib 0 {STATS} PageTables: 3000 SUnreclaim: 9 "]
    lines += [f"### ended fork {status if number == 5 else 0} after {number} s" for number in range(programs)]
    for number in range(decisions):
        lines += [f"hydra_auto: mm={number % 10} from=watched to=split why=saves rent=1 price=1 balance=0",
                  f"hydra_auto: mm={number % 10} from=split to=returned why=shared rent=1 price=1 balance=0"]
    lines += [f"### phases {phases}", f"### after violations {violations} total_kib {left} {STATS} PageTables: {tables} SunReclaim: 9 "]
    return "\n".join(lines)


def failed(text, log=""):
    return [outcome.name.removeprefix("load: ") for outcome in load.judge(text, log) if outcome.failed]


def test_an_hour_without_trouble_passes():
    assert failed(printed()) == []


@pytest.mark.parametrize("how, name", [
    ({"violations": 1}, "no rule is broken at an exit"), ({"left": 4}, "no copy of a table is left"), ({"tables": 90000}, "page tables are as at the begin"),
    ({"phases": 1}, "it came to its end"), ({"status": 2}, "programs work"), ({"programs": 3}, "programs work"), ({"decisions": 3}, "it splits and returns"),
    ({"decisions": 2000}, f"at most {load.DECISIONS_MOST} decisions of a process")])
def test_each_trouble_is_named(how, name):
    assert failed(printed(**how)) == [name]


def test_a_machine_that_ended_early_fails():
    assert {"it came to its end", "no rule is broken at an exit", "no copy of a table is left"} <= set(failed(printed()[:200]))


def test_the_kernels_complaints_fail():
    assert failed(printed(), "[   12.000000] BUG: KASAN: use-after-free in hydra_look+0x1/0x2\n") == ["kernel log"]


def test_the_programs_are_those_of_the_short_selection():
    assert len(load.commands()) > 10 and all("stress-ng --" in command for command in load.commands())
