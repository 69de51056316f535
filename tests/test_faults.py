# SPDX-License-Identifier: GPL-2.0-only
"""Injected faults and modes: what is tried, and what counts as noticed."""
import json
import re

import pytest

from lab import faults, modes, paths, stages, suites, vm
from lab.errors import LabError

SELFTESTS = paths.REPO / "kernel/tools/testing/selftests/hydra"


def known_rules():
    text = (paths.REPO / "kernel/mm/hydra/inject.c").read_text(encoding="utf-8")
    return [rule for rule in re.findall(r'\[HYDRA_BREAK_\w+\] = "([\w-]+)"', text) if rule != "none"]


def selftest_names():
    makefile = (SELFTESTS / "Makefile").read_text(encoding="utf-8")
    return set(" ".join(re.findall(r"^TEST_GEN_PROGS\w* := (.*)$", makefile, re.M)).split())


def test_every_rule_of_the_kernel_has_a_test_named_for_it():
    rules = known_rules()
    assert len(rules) > 10
    assert set(rules) == set(faults.CATCHERS) | set(faults.HARMLESS) | set(faults.ELSEWHERE)


def test_every_rule_is_asked_for_somewhere_in_the_kernel():
    code = "".join(path.read_text(encoding="utf-8") for directory in ("mm/hydra", "arch/x86/mm", "fs/proc")
                   for path in (paths.REPO / "kernel" / directory).glob("*.[ch]"))
    rules = (paths.REPO / "kernel/mm/hydra/inject.h").read_text(encoding="utf-8")
    names = set(re.findall(r"HYDRA_BREAK_\w+", rules)) - {"HYDRA_BREAK_NONE"}
    assert [name for name in names if f"hydra_breaks({name})" not in code] == []


def test_the_tests_that_are_named_exist():
    named = [test for _, _, test in faults.tries()] + [test for mode in modes.MODES for test in mode.tests]
    for test in named:
        program, *chosen = test.split()
        assert program in selftest_names()
        code = "".join(path.read_text(encoding="utf-8") for path in SELFTESTS.glob(f"{program}*.c"))
        if "-t" in chosen:
            name = chosen[chosen.index("-t") + 1]
            assert re.search(rf'^TEST\w*\((?:\w+, )?{name}\b|"{name}"', code, re.M), test


def test_the_variants_that_are_left_out_exist():
    for program, words in suites.SLEEPING.items():
        option, variant = words.split()
        code = (SELFTESTS / f"{program}.c").read_text(encoding="utf-8")
        assert option == "-V" and f"FIXTURE_VARIANT_ADD({program}, {variant})" in code


def test_every_program_has_a_fault_that_it_has_to_notice():
    assert {test.split()[0] for tests in faults.CATCHERS.values() for test in tests} == selftest_names()


def lines(*entries):
    return faults.objects("\n".join(json.dumps(entry) for entry in entries))


DUE = [("a: fill", "a", "fill"), ("a: huge", "a", "huge"), ("b: fill", "b", "fill")]


def test_a_rule_that_a_test_noticed_passes_and_one_that_it_did_not_fails():
    seen = lines({"begin": "a: fill"}, {"name": "a: fill", "by": "fill: x", "seconds": 1, "words": []},
                 {"begin": "a: huge"}, {"name": "a: huge", "by": None, "seconds": 9, "words": ["ok 1"]})
    made = faults.outcomes(faults.judge(seen, ""), DUE, [])
    assert [outcome.result for outcome in made] == ["passed", "failed", "failed"]
    assert "ok 1" in made[1].why and "not tried" in made[2].why


@pytest.mark.parametrize("by, result", [(None, "passed"), ("fill: x", "failed")])
def test_what_breaks_no_rule_must_not_be_noticed(by, result):
    rule = next(iter(faults.HARMLESS))
    results = {"x": {"name": "x", "by": by, "seconds": 1, "words": []}}
    assert [outcome.result for outcome in faults.outcomes(results, [("x", rule, "fill")], [])] == [result]


def test_a_machine_that_dies_of_a_rule_has_noticed_it():
    assert faults.judge(lines({"begin": "keep-link: events"}), "kernel crash")["keep-link: events"]["by"] == "the kernel: kernel crash"


def test_a_machine_that_just_ends_has_noticed_nothing():
    assert not faults.judge(lines({"begin": "keep-link: events"}), "")


def test_a_rule_that_nobody_tries_fails_and_one_that_shows_elsewhere_is_said_to_be_skipped():
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
