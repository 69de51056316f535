# SPDX-License-Identifier: GPL-2.0-only
"""The stage vm: which tests run where, and what fails if nothing runs. (No machine boots.)"""
import types

import pytest

from lab import cli
from lab.errors import LabError
from lab.machine import vm
from lab.machine.ktap import Outcome
from lab.test import differences, kvm_suites, linux_suites, suites, test

TESTS = ["kvm:smm_test", "kvm:dirty_log_page_splitting_test", "kvm:vmx_msrs_test"]


def program(name, status=0):
    return f"\n### begin {name}\n### end {name} {status}\n"


def ran(*programs):
    return differences.read("".join(programs), 45)


def stage(*words):
    return cli.parser().parse_args(["test", "--stage", "vm", *words])


def test_what_the_machine_runs():
    lines = kvm_suites.script("/tests", TESTS, 60, ["*"], ["kvm:vmx_*"]).splitlines()
    assert "selftest kvm:smm_test 60 taskset --cpu-list 1-63 ./smm_test" in lines
    assert "selftest kvm:dirty_log_page_splitting_test 60 numactl --cpunodebind=1 -- ./dirty_log_page_splitting_test -b 16M" in lines
    assert not [line for line in lines if "vmx_msrs_test" in line] and "machine:invariants" in lines[-1]
    assert f"python3 {vm.HELD_VMS}" in lines
    assert [line for line in lines if line.startswith("one machine:npt") and line.endswith("/npt")]


def test_arguments(monkeypatch):
    monkeypatch.setattr(kvm_suites, "ARGUMENTS", {"kvm:smm_test": "-i 2"})
    assert "selftest kvm:smm_test 60 taskset --cpu-list 1-63 ./smm_test -i 2" in kvm_suites.script("/tests", TESTS, 60, ["kvm:smm*"], []).splitlines()


def kvms_own(monkeypatch, runs, only=""):
    """The outcomes of KVM's own tests if the boots under a policy have the given runs; the booted policies."""
    booted = []

    def run_all(_image, _machine, policy, write, _seconds, skip):
        booted.append(policy)
        assert "selftest kvm:smm_test" in write(skip)
        return runs.get(policy, runs["linux"])
    monkeypatch.setattr(kvm_suites.build, "kernel", lambda _: "image")
    monkeypatch.setattr(linux_suites, "install", lambda targets, _: ("/tests", TESTS) if targets == ["kvm"] else None)
    monkeypatch.setattr(linux_suites, "run_all", run_all)
    return kvm_suites.kvms_own(only), booted


def test_each_degree_of_prefetch_is_compared_with_one_run_on_stock(monkeypatch):
    outcomes, booted = kvms_own(monkeypatch, {"linux": ran(program("kvm:smm_test")), "hydra,prefetch=9": ran(program("kvm:smm_test", 1))})
    assert booted == ["linux", "hydra,prefetch=0", "hydra,prefetch=9", "linux", "hydra,prefetch=9"]
    assert [(outcome.name, outcome.result) for outcome in outcomes] == \
        [("Linux's kvm:smm_test [hydra,prefetch=0]", "passed"), ("Linux's kvm:smm_test [hydra,prefetch=9]", "failed")]


def test_nothing_passed_on_stock(monkeypatch):
    outcomes, _ = kvms_own(monkeypatch, {"linux": ran(program("kvm:smm_test", 4))})
    assert [outcome.name for outcome in outcomes if outcome.failed] == [f"Linux's kvm [{policy}]" for policy in kvm_suites.POLICIES]


def test_a_word_that_none_of_kvms_tests_has_boots_nothing(monkeypatch):
    assert kvms_own(monkeypatch, {}, "vm_fill") == ([], [])


@pytest.fixture
def programs(monkeypatch, tmp_path):
    """Self tests that are built; returns a list of (kernel, programs, KUnit) of each boot."""
    boots, built = [], [types.SimpleNamespace(name=name) for name in ("fill", "vm_fill", "vm_move")]
    monkeypatch.setattr(suites.build, "kernel", lambda config: config)
    monkeypatch.setattr(suites.build, "tree", lambda: tmp_path)
    monkeypatch.setattr(suites.programs, "selftests", lambda *_, **__: built)
    monkeypatch.setattr(kvm_suites.programs, "selftest_names", lambda: [test.name for test in built])

    def selftests(tests, machine, *_, want_kunit=False, **__):
        boots.append((machine.config, [test.name for test in tests], want_kunit))
        return [Outcome(test.name, "passed") for test in tests]
    monkeypatch.setattr(suites, "selftests", selftests)
    monkeypatch.setattr(kvm_suites, "kvms_own", lambda only: [Outcome("kvm:smm_test", "passed")] if only in "kvm:smm_test" else [])
    monkeypatch.setattr(kvm_suites.guests, "run", lambda only: [Outcome("NO-P", "passed")] if only in "NO-P" else [])
    return boots


def test_self_tests_with_virtual_machines_have_their_own_stage(programs):
    suites.in_machine("lab")
    suites.in_machine("lab", only="vm_fill")
    assert list(kvm_suites.run(False, "", "")) == ["self tests with virtual machines"]
    assert programs == [("lab", ["fill"], True), ("lab", ["vm_fill"], False), ("lab", ["vm_fill", "vm_move"], False)]


def test_a_long_run_has_all(programs):
    assert len(kvm_suites.run(True, "", "")) == 4
    assert programs == [("lab", ["vm_fill", "vm_move"], False), ("debug", ["vm_fill", "vm_move"], False)]
    assert list(kvm_suites.run(True, "smm", "")) == ["KVM's own tests"]
    assert list(kvm_suites.run(True, "NO-P", "")) == ["self tests in a machine in the machine"]


def test_no_self_test_with_a_virtual_machine_is_a_failure(programs, monkeypatch):
    monkeypatch.setattr(suites.programs, "selftests", lambda *_, **__: [])
    (outcomes,) = test.attempt("vm", lambda _: kvm_suites.run(False, "", ""), None).values()
    assert [outcome.why for outcome in outcomes] == ["no test ran"] and programs == []


def test_a_wrong_word_is_refused_with_the_right_ones(programs, monkeypatch, tmp_path):
    monkeypatch.setenv("HYDRA_CACHE", str(tmp_path))
    kvm = tmp_path / "trees/linux/tools/testing/selftests/kvm/x86_64"
    kvm.mkdir(parents=True)
    (kvm / "smm_test.c").touch()
    with pytest.raises(LabError, match="vm_move$"):
        test.check_only("vm", stage("--only", "smm"))
    test.check_only("vm", stage("--only", "smm", "--long"))
    assert programs == []


def test_what_is_left_out_exists_and_has_a_reason():
    listed = {*kvm_suites.NEVER, *kvm_suites.ARGUMENTS, *kvm_suites.BOUND}
    known = linux_suites.sources(["kvm"])
    if not known:
        pytest.skip("the lab has made no kernel tree yet")
    assert [pattern for pattern in listed if not any(linux_suites.matches(name, [pattern]) for name in known)] == []
    assert all(kvm_suites.NEVER.values())
