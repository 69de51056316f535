# SPDX-License-Identifier: GPL-2.0-only
"""Injected faults and modes: what is tried, and what counts as noticed."""
import itertools
import json
import pathlib
import re

import pytest

from lab import paths
from lab.errors import LabError
from lab.guest import guest_faults
from lab.kernel import source
from lab.machine import programs, vm
from lab.test import faults, modes, stages, suites

PATCH = paths.REPO / "kernel" / source.FAULTS
SELFTESTS = paths.REPO / "kernel/tools/testing/selftests/hydra"


def known_rules():
    return [rule for rule in re.findall(r'\[HYDRA_BREAK_\w+\] = "([\w-]+)"', PATCH.read_text(encoding="utf-8")) if rule != "none"]


def selftest_names():
    return set(programs.selftest_names(everything=True))


def test_every_rule_of_the_kernel_has_a_test_named_for_it():
    rules = known_rules()
    assert len(rules) > 10
    assert set(rules) == set(faults.CATCHERS) | set(faults.HARMLESS) | set(faults.ELSEWHERE)


def test_every_rule_is_asked_for_somewhere_in_the_kernel():
    code = "".join(path.read_text(encoding="utf-8") for path in (PATCH, *source.delays()))
    names = set(re.findall(r"HYDRA_BREAK_\w+", code)) - {"HYDRA_BREAK_NONE"}
    assert [name for name in names if f"hydra_breaks({name})" not in code] == []


def test_no_rule_can_be_broken_without_the_patch():
    ours = [path for name in source.overlay_files() if name.endswith((".c", ".h")) for path in [source.OURS / name]]
    assert [path for path in ours if "hydra_breaks" in path.read_text(encoding="utf-8")] == []


def test_the_patch_applies_to_our_files(tmp_path):
    copy = source.with_faults(source.OURS, tmp_path / "copy")
    assert "hydra_breaks" in (copy / "arch/x86/mm/hydra/flush.c").read_text(encoding="utf-8")


@pytest.mark.parametrize("patch", sorted(source.OURS.glob("hooks/*.patch")), ids=lambda patch: patch.stem)
def test_each_hunk_has_as_many_lines_as_its_head_says(patch):
    """git applies the first lines of a longer hunk, and says nothing of the others."""
    lines = patch.read_text(encoding="utf-8").splitlines()
    for at, line in enumerate(lines):
        head = re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line)
        if not head:
            continue
        signs = "".join(itertools.takewhile(lambda sign: sign in "+- \\", (after[:1] or "end" for after in lines[at + 1:])))
        old, new = (int(count) if count else 1 for count in head.groups())
        assert (signs.count("-") + signs.count(" "), signs.count("+") + signs.count(" ")) == (old, new), f"{patch.name}:{at + 1}"


def test_the_tests_that_are_named_exist():
    named = [test for _, _, test in faults.tries(long=True)] + [test for mode in modes.MODES for test in mode.tests]
    for test in named:
        program, *chosen = test.split()
        assert program in selftest_names()
        code = "".join(path.read_text(encoding="utf-8") for path in SELFTESTS.glob(f"{program}*.c"))
        if "-t" in chosen:
            name = chosen[chosen.index("-t") + 1]
            assert re.search(rf'^TEST\w*\((?:\w+, )?{name}\b|"{name}"', code, re.M), test


def test_the_variants_that_are_left_out_exist():
    for program, words in [*suites.ONE_FILTER.items(), *suites.SHORT.items()]:
        code = (SELFTESTS / f"{program}.c").read_text(encoding="utf-8")
        options, variants = words.split()[::2], words.split()[1::2]
        assert set(options) == {"-V"} and all(re.search(rf"FIXTURE_VARIANT_ADD\(\w+, {variant}\)", code) for variant in variants)


def test_every_program_has_a_fault_that_it_has_to_notice():
    assert {test.split()[0] for tests in faults.CATCHERS.values() for test in tests} == selftest_names()


def test_short_runs_that_follow_each_other_try_each_rule_once_and_each_program():
    runs = [faults.tries(seed=seed) for seed in range(8, 8 + stages.SHARES["injected"])]
    short = sum(runs, [])
    assert max(map(len, runs)) - min(map(len, runs)) < 15 and len({rule for _, rule, _ in short}) == sum(len({rule for _, rule, _ in run}) for run in runs)
    assert {rule for _, rule, _ in short} == {*faults.CATCHERS, *faults.HARMLESS} and len(short) < len(faults.tries(long=True))
    assert {test.split()[0] for _, _, test in short} == {test.split()[0] for _, _, test in faults.tries(long=True)}


def lines(*entries):
    return faults.objects("\n".join(json.dumps(entry) for entry in entries))


DUE = [("a: fill", "a", "fill"), ("a: huge", "a", "huge"), ("b: fill", "b", "fill")]


def test_a_rule_that_a_test_noticed_passes_and_one_that_it_did_not_fails():
    seen = lines({"begin": "a: fill", "run": 1}, {"name": "a: fill", "by": "fill: x", "run": 1, "seconds": 1, "words": []},
                 {"begin": "a: huge", "run": 1}, {"name": "a: huge", "by": None, "run": 3, "seconds": 9, "words": ["ok 1"]})
    made = faults.outcomes(faults.judge(seen, ""), DUE, [])
    assert [outcome.result for outcome in made] == ["passed", "failed", "failed"]
    assert made[0].why == "fill: x"
    assert "in 3 runs" in made[1].why and "ok 1" in made[1].why and "not tried" in made[2].why


def test_the_table_and_the_outcome_say_in_which_run_a_rule_was_noticed(capsys):
    results = {"a: fill": {"name": "a: fill", "by": "fill: x", "run": 2, "seconds": 1, "words": []}}
    assert faults.outcomes(results, DUE[:1], [])[0].why == "fill: x (in run 2)"
    faults.show(results, DUE[:1])
    assert "fill: x (in run 2)" in capsys.readouterr().out


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Files in place of the kernel's; a function that plays runs of a test and returns (the last object printed, all
    objects)."""
    (tmp_path / "violations").write_text("0")
    monkeypatch.setattr(guest_faults, "BREAK", tmp_path / "break")
    monkeypatch.setattr(guest_faults, "VIOLATIONS", tmp_path / "violations")
    monkeypatch.setattr(guest_faults, "complaints", lambda: [])
    put = []
    monkeypatch.setattr(guest_faults, "put", lambda **fields: put.append(fields))

    def play(rule, *failures):
        left = iter(failures)

        def first_failure(_command, _limit):
            assert (tmp_path / "break").read_text() == rule
            return next(left), ["said"]
        monkeypatch.setattr(guest_faults, "first_failure", first_failure)
        guest_faults.attempt("x", rule, ["/fill"], faults.runs(rule), 1)
        assert (tmp_path / "break").read_text() == "none"
        assert not list(left)
        return put[-1], put
    return play


RULE = next(iter(faults.CATCHERS))


@pytest.mark.parametrize("failures", [["y"], ["", "y"], ["", "", "y"]])
def test_a_test_that_noticed_nothing_is_run_again_until_it_does(guest, failures):
    last, put = guest(RULE, *failures)
    assert (last["by"], last["run"]) == ("fill: y", len(failures))
    assert put[:-1] == [{"begin": "x", "run": number} for number in range(1, len(failures) + 1)]


def test_after_three_runs_nothing_has_noticed_the_rule(guest):
    last, _ = guest(RULE, "", "", "")
    assert (last["by"], last["run"], last["words"]) == (None, 3, ["said"])


def test_a_test_of_what_breaks_no_rule_is_run_once(guest):
    last, _ = guest(next(iter(faults.HARMLESS)), "")
    assert (last["by"], last["run"]) == (None, 1)


@pytest.mark.parametrize("by, result", [(None, "passed"), ("fill: x", "failed")])
def test_what_breaks_no_rule_must_not_be_noticed(by, result):
    rule = next(iter(faults.HARMLESS))
    results = {"x": {"name": "x", "by": by, "run": 1, "seconds": 1, "words": []}}
    assert [outcome.result for outcome in faults.outcomes(results, [("x", rule, "fill")], [])] == [result]


def test_a_machine_that_dies_of_a_rule_has_noticed_it():
    found = faults.judge(lines({"begin": "keep-link: events", "run": 2}), "kernel crash")["keep-link: events"]
    assert faults.noticed_by(found) == "the kernel: kernel crash (in run 2)"


def test_a_machine_that_just_ends_has_noticed_nothing():
    assert not faults.judge(lines({"begin": "keep-link: events", "run": 1}), "")


@pytest.fixture
def machines(monkeypatch):
    """A function that runs DUE in machines which print these objects, one list for each, and returns the outcomes' results."""
    monkeypatch.setattr(faults, "tries", lambda only, long, seed: DUE)
    monkeypatch.setattr(faults.build, "kernel", lambda config: None)
    monkeypatch.setattr(faults.build, "tree", lambda: None)
    monkeypatch.setattr(faults.programs, "selftests",
                        lambda tree, everything: [pathlib.Path("/fill"), pathlib.Path("/huge")])

    def play(*outputs):
        left = iter(outputs)

        def collect(*_arguments):
            *said, spoilt = (*next(left), "") if isinstance(outputs[0], list) else next(left)
            monkeypatch.setattr(faults.console, "spoilt", lambda log: spoilt)
            return vm.Result(vm.MACHINE_FAILED, "gone", pathlib.Path("/nowhere")), "\n".join(map(json.dumps, said))
        monkeypatch.setattr(faults.vm, "collect_once", collect)
        made = faults.run("any")
        assert not list(left)
        return made
    return play


DONE = [{"name": name, "by": "it", "run": 1, "seconds": 1, "words": []} for name, _, _ in DUE]


def test_a_try_during_which_two_machines_ended_fails_and_the_others_go_on(machines):
    made = machines([DONE[0], {"begin": "a: huge", "run": 1}], [{"begin": "a: huge", "run": 1}],
                    [{"begin": "b: fill", "run": 1}, DONE[2]])
    assert [outcome.result for outcome in made] == ["passed", "failed", "passed"]
    assert "two machines ended during it: gone" in made[1].why


def test_a_try_during_which_one_machine_ended_is_repeated(machines):
    made = machines([{"begin": "a: fill", "run": 1}], DONE)
    assert [outcome.result for outcome in made] == ["passed"] * 3


def test_what_was_noticed_before_the_emulator_spoilt_a_machine_stands(machines):
    spoilt = ({"begin": "a: huge", "run": 1}, "stale")
    made = machines((DONE[0], *spoilt), spoilt, spoilt, (DONE[1], DONE[2], ""))
    assert [outcome.result for outcome in made] == ["passed"] * 3


def test_not_more_machines_may_be_spoilt_than_so_many(machines):
    assert [outcome.result for outcome in machines(*[("stale",)] * (faults.SPOILT + 1))] == ["failed"] * 3


def test_a_machine_without_a_word_ends_the_tries(machines):
    assert [outcome.result for outcome in machines([])] == ["failed"] * 3


def test_a_rule_without_a_test_fails_and_one_that_shows_elsewhere_is_said_to_be_skipped():
    made = faults.outcomes({}, [], ["brand-new", *faults.ELSEWHERE, *faults.CATCHERS, *faults.HARMLESS])
    assert [outcome.result for outcome in made] == ["failed", *["skipped" for _ in faults.ELSEWHERE]]
    assert set(faults.ELSEWHERE.values()) <= set(stages.STAGES)


def test_a_machine_with_odd_nodes():
    machine = vm.Machine(nodes=4, memory="3G", memoryless=(3,), cpuless=(1,))
    machine.check()
    assert machine.arguments() == [
        "--memory", "3072M", "--cpus", "6,sockets=3,cores=2,threads=1", "--numa", "1024M,cpus=0-1", "--numa", "1024M",
        "--numa", "1024M,cpus=2-3", "--numa", "0,cpus=4-5"]


@pytest.mark.parametrize("wrong", [{"memoryless": (1,), "cpuless": (1,)}, {"memoryless": (0, 1, 2, 3)}, {"cpuless": (7,)}])
def test_a_machine_of_nothing_is_refused(wrong):
    with pytest.raises(LabError):
        vm.Machine(**wrong).check()


def test_a_machine_of_more_cpus_has_more_time():
    assert [modes.limit(vm.Machine(nodes=nodes)) for nodes in (2, 4, 5, 16)] == [400, 400, 400, 1600]
