# SPDX-License-Identifier: GPL-2.0-only
"""Comparing stock Linux with Hydra: every failure with Hydra alone is reported, however a test fails, and no other
failure."""
import pytest

from lab.machine.ktap import Outcome
from lab.test import differences, linux_suites

STEADY = "TAP version 13\n1..2\nok 1 map\nok 2 unmap\n"


def program(name, text=STEADY, status=0):
    return f"\n### begin {name}\n{text}\n### end {name} {status}\n"


def run(*programs):
    return differences.read("".join(programs), 45)


def kinds(verdicts):
    return {entry.name: entry.kind for entry in verdicts if entry.kind != "passed"}


def result(text, name="mm:cow", status=0):
    return {case.name: case.result for case in run(program(name, text, status))[name].values()}


def test_nothing_differs():
    verdicts = differences.compare(run(program("mm:cow")), run(program("mm:cow")))
    assert [entry.kind for entry in verdicts] == ["passed"] * 3
    assert all(outcome.result == "passed" for outcome in differences.outcomes(verdicts))


def test_a_case_that_fails_only_with_hydra_is_a_failure():
    hydra = run(program("mm:cow", STEADY.replace("ok 2", "# lost\nnot ok 2"), 1))
    verdicts = differences.compare(run(program("mm:cow")), hydra)
    assert kinds(verdicts) == {"mm:cow": "only with Hydra", "mm:cow: unmap": "only with Hydra"}
    (failure,) = [outcome for outcome in differences.outcomes(verdicts) if outcome.failed]
    assert "mm:cow" in failure.name and "unmap" in failure.why and "lost" in failure.why
    assert differences.suspects(verdicts) == ["mm:cow"]


@pytest.mark.parametrize("text, status, kind", [
    ("TAP version 13\n1..2\nok 1 map\n", 0, "only with Hydra"),                         # vanished
    (STEADY.replace("ok 2 unmap", "ok 2 unmap # SKIP no memory"), 0, "only with Hydra"),
    ("TAP version 13\n1..2\nok 1 map\n", 124, "only with Hydra")])                      # hung
def test_a_case_that_vanishes_is_skipped_or_hangs_with_hydra_is_a_failure(text, status, kind):
    verdicts = differences.compare(run(program("mm:cow")), run(program("mm:cow", text, status)))
    assert kinds(verdicts)["mm:cow: unmap"] == kind


@pytest.mark.parametrize("hydra", [[], ["\n### begin mm:cow\nTAP version 13\n1..2\nok 1 map\n"]])
def test_a_program_that_never_runs_or_never_ends_with_hydra_is_a_failure(hydra):
    verdicts = differences.compare(run(program("mm:cow")), run(*hydra))
    assert set(kinds(verdicts).values()) == {"only with Hydra"} and len(verdicts) == 3


def test_what_fails_on_both_is_listed_and_no_failure():
    failing = run(program("mm:cow", STEADY.replace("ok 2", "not ok 2"), 1))
    verdicts = differences.compare(failing, failing)
    assert kinds(verdicts) == {"mm:cow": "fails on both", "mm:cow: unmap": "fails on both"}
    told = differences.outcomes(verdicts)
    assert not any(outcome.failed for outcome in told)
    assert any(outcome.result == "skipped" and "fails on both, 2" in outcome.why for outcome in told)


def test_a_failure_where_stock_skips_is_a_failure():
    stock = run(program("mm:cow", "TAP version 13\n1..1\nok 1 map # SKIP\n"))
    assert kinds(differences.compare(stock, run(program("mm:cow", "TAP version 13\n1..1\nnot ok 1 map\n"))))["mm:cow: map"] \
        == "only with Hydra"


@pytest.mark.parametrize("stock, hydra, kind", [
    (STEADY, STEADY, "unsteady"),                                               # passes the second time
    (STEADY.replace("ok 2", "not ok 2"), STEADY.replace("ok 2", "not ok 2"), "unsteady"),
    (STEADY, STEADY.replace("ok 2", "not ok 2"), "only with Hydra")])
def test_a_second_run_tells_unsteady_from_broken(stock, hydra, kind):
    first = run(program("mm:cow")), run(program("mm:cow", STEADY.replace("ok 2", "not ok 2")))
    again = run(program("mm:cow", stock)), run(program("mm:cow", hydra))
    (entry,) = [entry for entry in differences.compare(*first, again) if entry.name == "mm:cow: unmap"]
    assert entry.kind == kind and "passed, then" in entry.why and "failed, then" in entry.why


def test_the_kernels_complaints_are_never_unsteady_nor_excused_by_stock():
    bad = {"machine:kernel log": {"machine:kernel log": Outcome("machine:kernel log", "failed", "WARNING")}}
    good = {"machine:kernel log": {"machine:kernel log": Outcome("machine:kernel log", "passed")}}
    assert set(kinds(differences.compare(bad, bad)).values()) == {"only with Hydra"}
    assert set(kinds(differences.compare(good, bad, (good, good))).values()) == {"only with Hydra"}
    assert differences.suspects(differences.compare(good, bad)) == []


def test_results_are_named_alike_whether_they_pass_or_fail():
    good = "1..2\n# [RUN] fork, base page\nok 1 No leak\n# [RUN] fork, huge page\nok 2 No leak\n"
    bad = good.replace("ok 2 No leak", "not ok 2 Leak")
    assert result(good) == {"mm:cow": "passed", "mm:cow: fork, base page": "passed", "mm:cow: fork, huge page": "passed"}
    assert result(bad)["mm:cow: fork, huge page"] == "failed" and len(result(bad)) == 3


def test_results_are_named_by_what_was_announced_if_nothing_was_run():
    good = "# [INFO] found\n1..2\n# [INFO] fork\nok 1 SIGSEGV generated\n# [INFO] fork, huge\nok 2 SIGSEGV generated\n"
    assert list(result(good)) == ["mm:cow", "mm:cow: fork", "mm:cow: fork, huge"]
    assert result(good.replace("ok 2 SIGSEGV generated", "ok 2 # SKIP no huge page"))["mm:cow: fork, huge"] == "skipped"


def test_what_was_measured_is_no_part_of_a_name():
    assert list(result("1..2\nok 1 transact_test count 192\nok 2 transact_test Extra pages 9 (0.0%), extra thread faults 132.\n")) \
        == ["mm:cow", "mm:cow: transact_test count", "mm:cow: transact_test Extra"]
    assert result("1..1\nok 1 Success reaping a child with 1MB of memory allocations\n") == \
        result("1..1\nok 1 Success reaping a child with 4MB of memory allocations\n")


def test_a_name_that_comes_twice_is_two_cases():
    assert list(result("1..2\nok 1 Locked\nnot ok 2 Locked\n").items())[1:] == \
        [("mm:cow: Locked", "passed"), ("mm:cow: Locked (2)", "failed")]


@pytest.mark.parametrize("text, expected", [
    ("Testing move on anon... done\nTesting wp on shmem... skipped [reason: feature missing]\nTesting poison on anon... ERROR",
     ["passed", "skipped", "failed"]),
    ("Testing creating 1024 vCPUs, with IDs 0...1023.\n", []),                         # no result
    ("test  0 PASSED (iteration 1)\ntest 12 FAILED (iteration 1)\n", ["passed", "failed"]),
    ("test  0 PASSED (iteration 1)\ntest  0 PASSED (iteration 1)\ntest  0 FAILED (iteration 2)\n", ["passed", "failed"]),
    ("test  0 PASSED (iteration 1)\ndone (all tests OK)\n", ["passed", "passed"]),
    ("Run test: full (anon)\nFill... \x1b[32mOK\x1b[0m\n\nRun test: swap (anon)\nFill... OK\nSwap... \x1b[31mFail\x1b[0m\n"
     "Run test: none (file)\nFill... Skip\nRun test: last (file)\n", ["passed", "failed", "skipped", "failed"])])
def test_results_in_a_programs_own_words(text, expected):
    assert list(result(text).values())[1:] == expected


@pytest.mark.parametrize("text, status, expected", [
    ("", 0, "passed"), ("", 1, "failed"), ("", 4, "skipped"), ("", 124, "failed"), ("", 139, "failed"),
    ("stress-ng: error: [9] No stress workers invoked (one or more were unsupported)", 0, "skipped")])
def test_how_a_program_ended(text, status, expected):
    assert result(text, "stress-vm:brk", status) == {"stress-vm:brk": expected}


def test_the_table_counts(capsys):
    stock = run(program("mm:cow"), program("x86:ldt"), program("mm:ksm", "", 1), program("mm:hmm", "", 4))
    hydra = run(program("mm:cow", STEADY.replace("ok 2", "not ok 2")), program("x86:ldt"), program("mm:ksm", "", 1),
                program("mm:hmm", "", 4))
    grid = differences.table(differences.compare(stock, hydra), "title")
    cells = [list(column.cells) for column in grid.columns]
    assert cells[0] == ["mm", "x86"]
    assert [column[0] for column in cells[1:]] == ["3", "2", "1", "[bold red]1[/]", "0", "1"]


LOG = "[    1.0] Linux version 6.12\n[    2.0] traps: ldt[9] general protection fault ip:1 sp:2 error:0\n"
POLICY = "policy {0}\nactive {1}\nfills 1\n"


def machine(policy, text, violations="0", log=LOG):
    output = program("machine:policy", text) + program("machine:invariants", violations + "\n\n# took 3 ms")
    found = linux_suites.machine_cases(policy, output, log)
    return {name: case.result for cases in found.values() for name, case in cases.items()}


@pytest.mark.parametrize("policy, active", [("hydra", 1), ("linux", 0)])
def test_the_machine_says_which_policy_all_have(policy, active):
    assert set(machine(policy, 2 * POLICY.format(policy, active)).values()) == {"passed"}
    assert machine("hydra", POLICY.format("hydra", 1) + POLICY.format("linux", 0))["machine:policy"] == "failed"


def test_settings_beside_the_policys_name_are_looked_at():
    text = 2 * "policy custom\nprefetch 0\nactive 1\n"
    assert machine("hydra,prefetch=0", text)["machine:policy"] == "passed"
    assert machine("hydra,prefetch=9", text)["machine:policy"] == "failed"


def test_violations_and_warnings_are_failures():
    text = 2 * POLICY.format("hydra", 1)
    assert machine("hydra", text, violations="2")["machine:invariants"] == "failed"
    assert machine("hydra", text, violations="")["machine:invariants"] == "failed"
    assert machine("hydra", text, log=LOG + "[    3.0] BUG: Bad page map in process\n")["machine:kernel log"] == "failed"


def test_a_machine_that_dies_is_booted_again_past_the_program_it_died_of(monkeypatch):
    scripts = []

    def boot(_image, _machine, _policy, text, _seconds, _bar):
        scripts.append(text)
        bad = {"machine:kernel log": {"machine:kernel log": Outcome("machine:kernel log", "failed", "panic")}}
        good = {"machine:kernel log": {"machine:kernel log": Outcome("machine:kernel log", "passed")}}
        if len(scripts) == 1:
            return {**run(program("exec:one"), "\n### begin exec:two\nlast words"), **bad}, False
        return {**run(program("exec:three")), **good}, True
    monkeypatch.setattr(linux_suites, "boot", boot)
    names = ["exec:one", "exec:two", "exec:three"]
    found = linux_suites.run_all("image", linux_suites.MACHINE, "hydra",
                                 lambda skip: linux_suites.script("/tests", names, "short", 150, ["exec:*"], skip), 150, [])
    assert [name for name in found if name.startswith("exec")] == ["exec:one", "exec:two", "exec:three"]
    assert found["exec:two"]["exec:two"].failed and "last words" in found["exec:two"]["exec:two"].why
    assert found["machine:kernel log"]["machine:kernel log"].failed
    assert "selftest exec:two" in scripts[0] and "selftest exec:two" not in scripts[1] and "exec:three" in scripts[1]


def test_a_suite_of_which_nothing_passes_on_stock_is_a_failure(monkeypatch):
    verdicts = differences.compare(run(program("mm:cow", "", 4)), run(program("mm:cow", "", 4)))
    monkeypatch.setattr(linux_suites, "verdicts", lambda **_: (verdicts, None))
    monkeypatch.setattr(linux_suites, "SELFTESTS", ["mm"])
    monkeypatch.setattr(linux_suites, "STRESSORS", {})
    assert [(outcome.name, outcome.failed) for outcome in linux_suites.outcomes(seed=0)] == \
        [("Linux's mm:cow [hydra]", False), ("Linux's mm [hydra]", True)]


def test_a_word_that_no_program_has_in_its_name_is_a_failure(monkeypatch):
    machine = run(program("machine:policy"))
    monkeypatch.setattr(linux_suites, "verdicts", lambda **_: (differences.compare(machine, machine), None))
    assert [outcome.why for outcome in linux_suites.outcomes(only="zzzz") if outcome.failed] == ["no program ran: no name contains 'zzzz'"]


def test_each_policy_is_compared_with_the_same_run_on_stock(monkeypatch):
    booted = []

    def boot(_image, _machine, policy, *_):
        booted.append(policy)
        return run(program("mm:cow")) if policy != "abis" else run(program("mm:cow", "not ok 1 unmap"))
    monkeypatch.setattr(linux_suites, "build_selftests", lambda: ("/tests", ["mm:cow"]))
    monkeypatch.setattr(linux_suites.build, "kernel", lambda _: "image")
    monkeypatch.setattr(linux_suites, "run_all", boot)
    monkeypatch.setattr(linux_suites, "SELFTESTS", ["mm"])
    monkeypatch.setattr(linux_suites, "STRESSORS", {})
    failed = [outcome.name for outcome in linux_suites.outcomes(long=True) if outcome.failed]
    assert booted == ["linux", "hydra", "mitosis", "radixvm", "abis", "linux", "abis", "auto"]
    assert failed and all("[abis]" in name for name in failed)


@pytest.mark.parametrize("text, asked", [("ok 1 unmap", []), ("ok 1 unmap # SKIP", ["mm:cow"]), ("not ok 1 unmap", ["mm:cow"])])
def test_stock_runs_only_what_does_not_pass_with_the_policy(text, asked):
    runs = []

    def boot(policy, again=()):
        runs.append((policy, list(again)))
        return run(program("mm:cow", text if policy != "linux" else "ok 1 unmap"), program("mm:other"), program("machine:policy"))
    found, _ = linux_suites.compared(boot, "abis", short=True)
    assert runs[:2] == [("abis", []), *([("linux", asked)] if asked else [])]
    assert [entry.name for entry in found if entry.kind == "only with Hydra"] == (["mm:cow: unmap"] if "not" in text or "SKIP" in text else [])


def test_a_number_draws_the_policy_and_the_suites_of_a_short_run(monkeypatch):
    taken = []

    def verdicts(policy, only, **_):
        taken.append((policy, only))
        return differences.compare(run(program("mm:cow")), run(program("mm:cow"))), None
    monkeypatch.setattr(linux_suites, "verdicts", verdicts)
    for seed in range(20):
        linux_suites.outcomes(seed=seed)
    assert [policy for policy, _ in taken] == [policy for policy in ("hydra", "mitosis", "radixvm", "abis", "auto") for _ in range(4)]
    assert [only for _, only in taken[:4]] == linux_suites.PARTS
    linux_suites.outcomes(only="cow", seed=5)
    assert taken[-1] == ("mitosis", ["*cow*"])
    linux_suites.outcomes(long=True)
    assert taken[-1] == ("auto", ["**"])


def test_each_program_is_in_one_part_and_each_suite_in_some():
    suites = {*linux_suites.SELFTESTS, *linux_suites.STRESSORS}
    names = [f"{suite}:{name}" for suite in suites for name in ("cow", "ksm_tests_-U", "mremap_test", "protection_keys_64", "32bit", "Zz")]
    assert [name for name in names if sum(linux_suites.matches(name, part) for part in linux_suites.PARTS) != 1] == []
    assert {pattern.partition(":")[0] for part in linux_suites.PARTS for pattern in part} == suites


def test_no_name_is_known_before_there_is_a_tree(monkeypatch, tmp_path):
    monkeypatch.setenv("HYDRA_CACHE", str(tmp_path))
    assert linux_suites.names() == []


def test_selections():
    built = ("/tests", ["x86:sysret_ss_attrs_64", "exec:execveat", "mm:mseal_test"])
    text = linux_suites.script(*built, "short", 150, ["*"], list(linux_suites.NEVER))
    assert "selftest x86:sysret_ss_attrs_64" not in text and "selftest exec:execveat" in text and "-a -d" not in text
    assert "--brk-ops" in text and "--dev-shm-ops" not in text
    text = linux_suites.script(*built, "long", 600, ["stress-vm:dev-shm", "mm:mseal_test"], [])
    assert "--dev-shm-ops" in text and "--brk-ops" not in text and "selftest mm:mseal_test" in text and "execveat" not in text
