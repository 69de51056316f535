# SPDX-License-Identifier: GPL-2.0-only
"""Test results: the kselftest harness's TAP, and KUnit's KTAP inside a kernel log."""
from lab.machine import ktap

HARNESS = """\
TAP version 13
1..4
# Starting 4 tests from 2 test cases.
#  RUN           fill.basic ...
#            OK  fill.basic
ok 1 fill.basic
#  RUN           fill.huge ...
# fill.c:42:huge:Expected 3 (3) == count (2)
# huge: Test failed
#          FAIL  fill.huge
not ok 2 fill.huge
ok 3 fill.swap # SKIP no swap here
not ok 4 # SKIP nothing
# FAILED: 3 / 4 tests passed.
"""

KUNIT = """\
[    0.100000] Linux version 6.12
[    1.000000] KTAP version 1
[    1.000001] 1..2
[    1.000002]     KTAP version 1
[    1.000003]     # Subtest: hydra_settings
[    1.000004]     # module: settings_test
[    1.000005]     1..2
[    1.000006]     ok 1 parse_policy
[    1.100000] a line of another program
[    1.000007]     # parse_bad: EXPECTATION FAILED at arch/x86/mm/hydra/settings_test.c:12
[    1.000008]     not ok 2 parse_bad
[    1.000009] # hydra_settings: pass:1 fail:1 skip:0 total:2
[    1.000010] not ok 1 hydra_settings
[    1.000011]     KTAP version 1
[    1.000012]     # Subtest: hydra_table
[    1.000013]     1..1
[    1.000014]     ok 1 sharers
[    1.000015] ok 2 hydra_table
[    2.000000] Freeing unused kernel memory
"""


def results(outcomes):
    return [(outcome.name, outcome.result) for outcome in outcomes]


def test_harness_results():
    outcomes = ktap.parse(HARNESS, "fill")
    assert results(outcomes) == [("fill: fill.basic", "passed"), ("fill: fill.huge", "failed"),
                                 ("fill: fill.swap", "skipped"), ("fill: test 4", "skipped")]
    assert "Expected 3 (3) == count (2)" in outcomes[1].why


def test_results_that_were_announced_and_did_not_come():
    outcomes = ktap.parse(HARNESS.replace("1..4", "1..6"), "fill")
    assert results(outcomes)[-1] == ("fill: results 5 to 6", "failed")


def test_a_whole_program_skipped():
    assert results(ktap.parse("TAP version 13\n1..0 # SKIP no nodes\n", "race")) == [("race", "skipped")]


def test_no_result_is_no_outcome():
    assert ktap.parse("ok, here we go\nokay 1\n", "x") == []


def test_kunit_in_a_log_counts_cases_not_suites():
    assert results(ktap.kunit(KUNIT)) == [("KUnit: parse_policy", "passed"), ("KUnit: parse_bad", "failed"),
                                          ("KUnit: sharers", "passed")]


def test_kunit_that_died_in_the_middle():
    cut = KUNIT[:KUNIT.index("[    1.000007]")]
    found = results(ktap.kunit(cut))
    assert found[0] == ("KUnit: parse_policy", "passed")
    assert [result for _, result in found[1:]] == ["failed", "failed"]


def test_a_suite_that_failed_without_a_failed_case():
    outcomes = ktap.kunit(KUNIT.replace("ok 2 hydra_table", "not ok 2 hydra_table"))
    assert results(outcomes)[-1] == ("KUnit: hydra_table", "failed")


def test_a_log_without_kunit():
    assert ktap.kunit("[    0.1] Linux\n[    0.2] ok 1 nothing\n") == []
