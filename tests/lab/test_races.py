# SPDX-License-Identifier: GPL-2.0-only
"""Data races: Hydra's are told from Linux's, and a kernel without any report is a failure."""
from lab.machine import console
from lab.test import races

LOG = """\
[    1.000000] Linux version 6.12
[    5.100000] ==================================================================
[    5.100001] BUG: KCSAN: data-race in copy_leaf.part.0 / set_pte_range
[    5.100002]
[    5.100003] write to 0xffff888003d7e000 of 8 bytes by task 77 on cpu 1:
[    5.100004]  copy_leaf.part.0+0x11/0x40
[    5.100005] ==================================================================
[    6.200000][  T12] ==================================================================
[    6.200001][  T12] BUG: KCSAN: data-race in tick_nohz_idle_enter / tick_nohz_stop_tick
[    6.200002][  T12]
[    6.200003][  T12] race at unknown origin, with read to 0xffff888003d7e000 of 8 bytes by task 77 on cpu 1:
[    6.200004][  T12] ==================================================================
"""
NAMES = {"copy_leaf", "hydra_set"}


def results(log):
    return [(outcome.name, outcome.result) for outcome in races.judge(races.reports(log), NAMES)]


def test_reports_are_told_apart_and_whole():
    titles = [title for title, _ in races.reports(LOG)]
    assert titles == ["data-race in copy_leaf.part.0 / set_pte_range",
                      "data-race in tick_nohz_idle_enter / tick_nohz_stop_tick"]
    assert [len(lines) for _, lines in races.reports(LOG)] == [4, 3]


def test_a_race_of_ours_fails_and_one_of_linux_does_not():
    assert results(LOG) == [("KCSAN finds races of Linux's own", "passed"),
                            ("data-race in copy_leaf.part.0 / set_pte_range", "failed")]
    assert results(LOG[LOG.index("[    6."):])[-1] == ("no data race with a function of Hydra", "passed")


def test_a_marked_access_of_ours_that_meets_a_plain_one_of_linux_is_no_failure():
    marked = LOG.replace("write to 0xffff888003d7e000 of 8 bytes by task 77", "read-write (marked) to 0xffff888003d7e000 of 8 bytes by task 77")
    assert results(marked)[-1] == ("no data race with a function of Hydra", "passed")
    other = "[    5.100004]\n[    5.100004] read to 0xffff888003d7e000 of 8 bytes by task 78 on cpu 0:\n[    5.100004]  {}+0x5/0x9\n"
    end = "[    5.100005]"
    assert results(marked.replace(end, other.format("set_pte_range") + end, 1))[-1][1] == "passed"
    assert results(marked.replace(end, other.format("hydra_set") + end, 1))[-1][1] == "failed"


def test_no_report_at_all_is_a_failure():
    assert [result for _, result in results("[    1.000000] Linux version 6.12\n")] == ["failed"]


def test_elsewhere_races_are_no_trouble_and_other_bugs_are():
    assert not console.trouble(LOG)
    assert console.trouble(LOG.replace("BUG: KCSAN: ", "BUG: KASAN: "))


def test_an_injected_race_has_to_be_seen():
    assert [outcome.result for outcome in races.judge_injected(races.reports(LOG), NAMES)] == ["passed"]
    assert [outcome.result for outcome in races.judge_injected(races.reports(LOG), {"hydra_set"})] == ["failed"]
