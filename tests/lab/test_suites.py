# SPDX-License-Identifier: GPL-2.0-only
"""Counting tests: no failure may count as passed, no missing test may be forgotten."""
import contextlib
import pathlib
import types

import pytest

from lab import cli, paths
from lab.errors import LabError
from lab.machine import console, programs
from lab.machine.ktap import Outcome
from lab.test import stages, suites, test

GOOD = "TAP version 13\n1..1\nok 1 basic\n"
EARLY = "[    0.9] BUG: KASAN: wild-memory-access in do_raw_spin_lock+0x1/0x2\n[    0.9] RIP: 0010:identify_cpu+0x1/0x2\n"
OUTPUT = f"\n### begin fill\n{GOOD}\n### end fill 0 3\n\n### begin race\nTAP version 13\n1..1\nnot ok 1 order\n\n### end race 1 12\n"


def results(outcomes):
    return [(outcome.name, outcome.result) for outcome in outcomes]


def test_programs_are_told_apart():
    assert results(suites.split_programs(OUTPUT, ["fill", "race"])) == [("fill: basic", "passed"), ("race: order", "failed")]


def test_how_long_each_took():
    assert suites.times(OUTPUT) == "race 12, fill 3"
    assert suites.times("\n### begin fill\n### end fill 0\n") == ""


def test_programs_that_never_ran_or_never_ended():
    found = suites.split_programs(OUTPUT + "\n### begin huge\nTAP version 13\n", ["fill", "race", "huge", "arena"])
    assert [(outcome.name, outcome.why) for outcome in found[2:]] == [("huge", "it did not end"), ("arena", "it did not run")]
    assert all(outcome.failed for outcome in found[2:])


def test_programs_that_a_breakpoint_of_the_emulator_ended_run_in_another_machine(capsys):
    good, bad = "\n### begin {0}\n" + GOOD + "\n### end {0} 0 1\n", "\n### begin {0}\nTAP version 13\n"
    crash = "[    9.1] WARNING: CPU: 1 at mm/memory.c:1\n[   10.0] Oops: int3: 0000 [#1] SMP\n[   10.0] Code: eb {} <70> 49\n"
    tests = [pathlib.Path(name) for name in ("fill", "race", "huge")]
    for byte, programs_run, kept in (("0f", [["fill", "race", "huge"], ["race", "huge"]], True), ("cc", [["fill", "race", "huge"]], False)):
        machines = [(crash.format(byte), good.format("fill") + bad.format("race")), ("fine", good.format("race") + good.format("huge"))]
        made = []

        def run(left, _watch):
            made.append([test.name for test in left])
            log, said = machines[len(made) - 1]
            return types.SimpleNamespace(console=log), said
        _, text, log = suites.all_to_their_end(run, tests, None)
        assert made == programs_run
        assert [outcome.failed for outcome in suites.split_programs(text, ["fill", "race", "huge"])] == ([False] * 3 if kept else [False, True, True])
        assert [name for name, _ in console.trouble(log)][:1] == ["kernel warning"] and ("Oops" in log) != kept
    assert "another machine: the emulator ran a breakpoint" in capsys.readouterr().err


def test_results_of_another_error_of_the_emulator_do_not_stand():
    made = []

    def run(left, _watch):
        made.append(len(left))
        return types.SimpleNamespace(console=EARLY if len(made) == 1 else "fine"), OUTPUT
    result, text, log = suites.all_to_their_end(run, [pathlib.Path("fill"), pathlib.Path("race")], None)
    assert made == [2, 2] and text == OUTPUT and log == result.console == "fine"


@pytest.mark.parametrize("output, status, expected", [
    (GOOD, 0, ["passed"]), (GOOD, 1, ["passed", "failed"]), (GOOD, 124, ["passed", "failed"]), ("", 0, ["failed"]),
    ("", 139, ["failed"]), ("no nodes\n", 4, ["skipped"]), (GOOD.replace("1..1", "1..2"), 0, ["passed", "failed"])])
def test_exit_status_and_results_together(output, status, expected):
    assert [outcome.result for outcome in suites.program("fill", output, status)] == expected


def test_pytests_results():
    xml = """<testsuites><testsuite>
    <testcase classname="tests.test_a" name="good"/>
    <testcase classname="tests.test_a" name="bad"><failure message="assert 1 == 2">trace</failure></testcase>
    <testcase classname="tests.test_a" name="broken"><error message="fixture">trace</error></testcase>
    <testcase classname="tests.test_a" name="later"><skipped message="no root"/></testcase></testsuite></testsuites>"""
    assert results(suites.junit(xml, "host")) == [
        ("host: test_a.good", "passed"), ("host: test_a.bad", "failed"), ("host: test_a.broken", "failed"),
        ("host: test_a.later", "skipped")]
    assert results(suites.junit(xml[:150], "host")) == [("host: pytest", "failed")]      # pytest ended while it wrote


def test_a_suite_without_tests_is_a_failure():
    assert results(test.attempt("host", lambda _: [], None)["host"]) == [("host", "failed")]
    assert results(test.attempt("modes", lambda _: {"two nodes": []}, None)["two nodes"]) == [("two nodes", "failed")]


def test_a_suite_that_cannot_run_is_a_failure():
    def broken(_):
        raise LabError("no compiler")
    (outcome,) = test.attempt("self tests", broken, None)["self tests"]
    assert outcome.failed and outcome.why == "no compiler"


def test_the_summary_counts(capsys):
    groups = {"a [debug]": [Outcome("one", "passed"), Outcome("mm:cow: two", "skipped", "why not")],
              "b": [Outcome("three", "failed", "[because]")]}
    assert test.summary(groups, {"kernel builds": 3, "host": 60, "selftests": 150}, 60) == (1, 1)
    shown = capsys.readouterr().out
    assert "minutes: kernel builds 0.1, host 1.0, selftests 2.5\n" in shown
    assert "FAILED three" in shown and "[because]" in shown and "mm:cow: two" in shown and "why not" in shown and "a [debug]" in shown


def test_a_kernel_built_in_a_stage_is_no_minute_of_the_stage(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(test.time, "monotonic", lambda: clock[0])
    monkeypatch.setitem(test.build.SPENT, "seconds", 60.0)       # of an earlier call

    def work(seconds, building):
        with test.build.timed("built") if building else contextlib.nullcontext():
            clock[0] += seconds

    def modes(_):
        work(30, False)
        work(120, True)              # another configuration
        return [Outcome("one", "passed")]
    monkeypatch.setattr(test.build, "kernel", lambda _config: work(240, clock[0] == 0))
    monkeypatch.setitem(test.RUN, "modes", ("modes", modes))
    arguments = cli.parser().parse_args(["test", "--stage", "modes"])
    assert test.test_verb(arguments) == 0
    assert "minutes: kernel builds 6.0, modes 0.5\n" in capsys.readouterr().out


def test_the_summary_tells_the_seeds(capsys):
    text = "TAP version 13\n# repeat with --policy 'a' --seed 7 --operations 4\n# repeat with --policy 'b' --seed 7\n1..1\nok 1 all\n"
    passed = [outcome.on("two nodes") for outcome in suites.program("oracle", text, 0)]
    failed = suites.program("pressure", "TAP version 13\n# repeat with --seed 8\n1..1\nnot ok 1 all\n", 1)
    assert test.summary({"a": passed + suites.program("fill", "1..1\nok 1 all\n", 0), "b": failed}, {}, 60) == (2, 1)
    assert "seeds: oracle 7 [two nodes]; pressure 8\n" in capsys.readouterr().out


def arguments(*words):
    return cli.parser().parse_args(["test", *words])


@pytest.mark.parametrize("words, drawn", [((), list(stages.SHARES)), (("--stage", "suites"), ["suites"]), (("--stage", "injected"), ["injected"]),
                                          (("--stage", "debug", "--stage", "vm"), ["debug"]), (("--stage", "suites", "--only", "cow"), ["suites"]),
                                          (("--only", "fill"), []), (("--stage", "selftests"), []), (("--stage", "vm"), []), (("--stage", "injected", "--only", "sharer"), []), (("--long",), [])])
def test_a_number_is_for_stages_that_draw(words, drawn):
    assert test.drawing(arguments(*words)) == drawn
    if drawn:
        assert test.chosen(arguments("--seed", "7", *words))
    else:
        with pytest.raises(LabError, match="here it draws nothing"):
            test.chosen(arguments("--seed", "7", *words))


def test_the_number_that_drew_is_told(monkeypatch, capsys):
    monkeypatch.setattr(test.build, "kernel", lambda config: None)
    took = []
    monkeypatch.setitem(test.RUN, "modes", ("modes", lambda a: took.append(a.seed) or {"two nodes": [Outcome("one", "passed")]}))
    assert test.test_verb(arguments("--stage", "modes")) == 0
    assert f"drawn by the number {took[0]} (--seed {took[0]} takes the same): modes\n" in capsys.readouterr().err
    assert test.test_verb(arguments("--stage", "modes", "--seed", "7")) == 0 and took[1] == 7


def test_short_runs_that_follow_each_other_have_the_whole_of_a_stage():
    for stage, runs in stages.SHARES.items():
        parts = [stages.share(stage, range(13), seed) for seed in range(40, 40 + runs)]
        assert sorted(sum(parts, [])) == list(range(13)) and max(map(len, parts)) - min(map(len, parts)) <= 1


def test_parts_of_the_long_oracle(monkeypatch):
    ran = []
    monkeypatch.setattr(suites.programs, "selftests", lambda _tree: [])
    monkeypatch.setattr(suites.build, "tree", lambda: None)
    monkeypatch.setattr(suites, "selftests", lambda _tests, machine, label, **more: ran.append((label, more["arguments"])) or [])
    suites.long_oracle("abis")
    assert ran == [("abis, 20000 operations", "--policy abis --operations 20000")]
    suites.long_oracle("round")
    assert ran[1:] == [("round the nodes, 20000 operations", "--policy hydra,filter=auto --wander --operations 20000")]
    suites.long_oracle()
    assert len(ran) == 2 + len(suites.oracle_runs()) == 2 + len(suites.LONG_ORACLE) + len(suites.OTHER_POLICIES) + 1


def test_the_stages_to_run():
    assert test.chosen(arguments()) == ["host", "machine", "off", "packages", "selftests", "modes", "suites", "vm", "debug", "injected"]
    assert test.chosen(arguments("--long")) == list(stages.STAGES)
    assert test.chosen(arguments("--only", "fill")) == ["selftests"]
    assert test.chosen(arguments("--only", "sharer", "--stage", "faults")) == ["injected"]    # the old name
    with pytest.raises(LabError, match="as a whole"):
        test.chosen(arguments("--only", "two", "--stage", "injected", "--stage", "races"))
    assert test.chosen(arguments("--only", "oracle", "--arguments=--seed 7")) == ["selftests"]
    for words in (["--stage", "debug"], ["--only", "oracle", "--stage", "modes"]):
        with pytest.raises(LabError, match="chosen with --only"):
            test.chosen(arguments("--arguments=--seed 7", *words))


@pytest.mark.parametrize("stage, right, listed", [
    ("selftests", "oracle", "coherence"), ("debug", "oracle", "coherence"), ("modes", "levels", "levels"),
    ("injected", "sharer", "skip-set"), ("oracle", "abis", "mitosis"), ("pcid", "PCID", "PCID, no neighbours"),
    ("suites", "mm:cow", "stress-vm:brk"), ("suites-debug", "ldt_gdt_64", "x86:ldt_gdt")])
def test_a_wrong_word_is_refused_with_the_right_ones_before_anything_is_built(monkeypatch, tmp_path, stage, right, listed):
    monkeypatch.setenv("HYDRA_CACHE", str(tmp_path))
    for name in ("x86/ldt_gdt.c", "mm/cow.c"):
        (tmp_path / "trees/linux/tools/testing/selftests" / name).parent.mkdir(parents=True)
        (tmp_path / "trees/linux/tools/testing/selftests" / name).touch()
    for module in ("build", "programs"):
        monkeypatch.setattr(getattr(test, module), "kernel" if module == "build" else "build", lambda *_: pytest.fail("it builds"))
    with pytest.raises(LabError, match=listed) as caught:
        test.test_verb(arguments("--stage", stage, "--only", "zzzznothing"))
    assert caught.value.status == 2
    test.check_only(stage, arguments("--stage", stage, "--only", right))


def test_every_stage_can_be_run():
    assert set(test.RUN) == set(stages.STAGES)


class Steps:
    def __init__(self):
        self.steps, self.notes = [], []

    def advance(self, steps, note):
        self.steps.append(steps)
        self.notes.append(note)


@pytest.mark.parametrize("pieces, steps, notes", [
    (["\n### begin oracle\n# 250 of 1000 operations, 9 per second\n",
      "# 500 of 1000 operations, 9 per second\n### end oracle 0\n\n### begin fill\n"],
     [1, 0.25, 0.25, 0.5], ["oracle", "250 of 1000 operations", "500 of 1000 operations", "fill"]),
    (["\n### begin pressure\nTAP version 13\n1..4\n#  RUN           pressure.swap ...\n",
      "ok 1 pressure.swap\n#  RUN           pressure.moving ...\n### end pressure 0\n\n### begin fill\n"],
     [1, 0, 0.25, 0.75], ["pressure", "pressure.swap", "pressure.moving", "fill"])],
    ids=["it says how far it is", "its tests begin"])
def test_a_bar_moves_within_a_program(pieces, steps, notes):
    bar = Steps()
    watcher = suites.Watcher(bar)
    for piece in pieces:
        watcher(piece)
    assert (bar.steps, bar.notes) == (steps, notes)


PROGRAMS = ("coherence", "fill", "huge", "vm_move", "split", "degrade")


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Faked programs, of which the last needs the debug kernel; (configuration, programs, words) of each boot."""
    boots = []
    monkeypatch.setitem(stages.SHARES, "debug", 3)
    monkeypatch.setattr(suites, "LONGEST", ["split", "fill"])
    monkeypatch.setattr(suites.build, "tree", lambda: tmp_path)
    monkeypatch.setattr(suites.build, "kernel", lambda _config: None)
    monkeypatch.setattr(suites.programs, "selftests", lambda _tree, everything=False: [tmp_path / name for name in PROGRAMS[:None if everything else -1]])
    monkeypatch.setattr(suites.programs, "selftest_names", lambda everything=False: list(PROGRAMS[:None if everything else -1]))
    monkeypatch.setattr(suites, "selftests", lambda tests, machine, *_, words=None, **__: boots.append(
        (machine.config, [test.name for test in tests], words)) or [Outcome("one", "passed")])
    return boots


def test_a_short_run_has_some_programs_on_the_debug_kernel(ran):
    for seed in (6, 7, 8):
        suites.debug(seed=seed)
    suites.debug(long=True, seed=7)
    assert ran == [*(("debug", names, suites.ONE_FILTER) for names in (["huge", "split"], ["fill", "degrade"], ["coherence"])),
                   ("debug", ["coherence", "fill", "huge", "split", "degrade"], None)]


@pytest.mark.parametrize("words, on_lab, given", [
    (("--stage", "selftests", "--stage", "debug"), ["coherence", "fill", "huge"], suites.SHORT),      # huge: not whole on the debug kernel
    (("--stage", "selftests"), ["coherence", "fill", "huge", "split"], suites.SHORT),
    (("--stage", "selftests", "--stage", "debug", "--long"), ["coherence", "fill", "huge", "split"], None),
    (("--stage", "selftests", "--stage", "debug", "--only", "split"), ["split"], {})])
def test_the_labs_kernel_runs_in_a_short_run_what_the_debug_kernel_does_not_run_whole(ran, words, on_lab, given):
    seed = ("--seed", "6") if "debug" in words and "--long" not in words and "--only" not in words else ()
    assert test.test_verb(arguments(*words, *seed)) == 0
    assert ran[0] == ("lab", on_lab, given)


def test_each_program_runs_in_each_short_run_and_in_so_many_on_the_debug_kernel():
    everything = [name for name in programs.selftest_names(everything=True) if not name.startswith(suites.VM)]
    drawn = [suites.drawn_for_debug(everything, seed) for seed in range(stages.SHARES["debug"])]
    assert sorted(sum(drawn, [])) == sorted(everything) and set(suites.LONGEST) < set(everything)
    assert max(len(set(part) & set(suites.LONGEST)) for part in drawn) == 1
    for seed, part in enumerate(drawn):
        assert set(suites.left_to_debug(seed)) == set(part) - set(suites.ONE_FILTER)


def test_the_files_of_the_stage_machine_are_those_whose_tests_boot_machines(monkeypatch):
    marked = {str(path.relative_to(paths.REPO)) for path in (paths.REPO / "tests").rglob("test_*.py") if "\npytestmark = pytest.mark.machine\n" in path.read_text(encoding="utf-8")}
    assert set(suites.MACHINE_TESTS) == marked
    taken = []
    monkeypatch.setattr(suites, "pytest", lambda _which, _title, only, files: taken.append((only, files)))
    for words in ({"seed": 4}, {"seed": 5}, {"seed": 5, "long": True}, {"seed": 5, "only": "nested"}):
        suites.machine_tests(**words)
    assert sorted(taken[0][1] + taken[1][1]) == sorted(marked) and taken[2:] == [("", suites.MACHINE_TESTS), ("nested", suites.MACHINE_TESTS)]
