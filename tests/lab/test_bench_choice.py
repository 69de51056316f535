# SPDX-License-Identifier: GPL-2.0-only
"""What a user of ./hydra bench may choose: the nodes, the policies, the runs; the order of the runs, and what tables and files have of
them. (No machine boots.)"""
import csv
import dataclasses
import json
import re
import types

import pytest

from lab import cli, paths, policies
from lab.bench import choice, core, footprint, verb
from lab.errors import LabError
from lab.guest import guest_measure
from lab.here import here
from lab.measure import demo_lines, measure, report, values as measured


def words(*given):
    return cli.parser().parse_args(["bench", *given])


def chosen(*given):
    arguments = words(*given)
    return choice.of_bench(choice.BENCHES[arguments.name], arguments)


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch):
    for where, name in ((measure.vm, "run"), (measure.build, "kernel"), (core.build, "kernel")):
        monkeypatch.setattr(where, name, lambda *_, **__: pytest.fail("it measured"))


def test_each_measurement_has_the_column_that_is_always_measured():
    assert [one.name for one in choice.BENCHES.values() if not one.counted and "linux" not in one.columns()] == []


FIXED = ("prefetch", "nested", "follow", "walks", "migrate", "pipeline-64", "sharing", "apps", "operations", "sizes", "programs", "sweeps", "wander", "miniatures", "placed")
SIZES = {"pipeline": (2, 16), "footprint": (2, 16), "spinners": (2, 8), "allocators": (1, 16), "auto": (2, 4)}


def test_each_measurement_has_other_sizes_or_says_why_not():
    assert {*FIXED, *SIZES} == set(choice.BENCHES)
    for one in choice.BENCHES.values():
        assert one.why_fixed and bool(one.sizes) == bool(one.on) == (one.name in SIZES)


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_number_of_nodes_is_said_with_the_reason(name):
    one = choice.BENCHES[name]
    with pytest.raises(LabError, match=rf"--nodes 3: '{name}' has {one.machine.nodes} nodes always: {re.escape(one.why_fixed)}") as caught:
        verb.bench_verb(words(name, "--nodes", "3"))
    assert caught.value.status == 2
    assert chosen(name, "--nodes", str(one.machine.nodes)).machine == one.machine


@pytest.mark.parametrize("name, number, said", [("spinners", 9, "2 to 8 nodes: each node has 8 CPUs"), ("pipeline", 1, "2 to 16 nodes: a page goes"),
                                                ("pipeline", 17, "2 to 16"), ("footprint", 3, "2, 4, 6, 8, 10, 12, 14 or 16 nodes: pairs"),
                                                ("allocators", 17, "1 to 16"), ("auto", 3, "2 or 4 nodes: its limits are those of eight CPUs")])
def test_a_number_of_nodes_that_it_cannot_have(name, number, said):
    with pytest.raises(LabError, match=f"--nodes {number}: '{name}' can have {said}"):
        verb.bench_verb(words(name, "--nodes", str(number)))


@pytest.mark.parametrize("name", SIZES)
def test_every_size_is_a_machine_and_its_lines_say_so(name):
    for number in choice.BENCHES[name].sizes:
        one = choice.BENCHES[name].on(number)
        one.machine.check()
        assert one.machine.nodes == number and one.name == name
    two = str(choice.BENCHES[name].on(2).lines)
    assert not re.search(r"\b(8|64) (other |busy )?(nodes|cores|CPUs|tables)\b", two)


@pytest.mark.parametrize("nodes", [2, 4, 16])
def test_limits_follow_the_number_of_nodes(nodes):
    one = footprint.on(nodes)

    def said(step):
        sharers = {"none": 1, "some": 2, "full": nodes}[step.case]
        domains = {"linux": 0, "radixvm": 2 * nodes, "abis": 2 * nodes}.get(step.policy, nodes)
        data = 8 * nodes
        leaves = {"linux": data, "mitosis": data * nodes, "hydra": data * sharers}.get(step.policy, 2 * data * sharers)
        return {"data_tables": data, "replicas": leaves - data, "replicas_before": 0, "domains": domains, "all": leaves + 11, "node_sharers": data * sharers,
                "cpu_sharers": 2 * data * sharers, "fallbacks": 0, "reclaimed": 0}
    entries = core.entries_of(one, [{"step": number, "said": said(step)} for number, step in enumerate(one.steps)])
    assert [check for check in core.checked(one, entries) if not check.passed] == []
    assert len([check for check in core.checked(footprint.on(6), entries) if not check.passed]) > 0


@pytest.mark.parametrize("name, given, columns", [
    ("pipeline", "hydra,linux", ("linux", "hydra")), ("pipeline", "abis", ("linux", "abis")), ("prefetch", "H-4,H-9", ("linux", "H-4", "H-9")),
    ("sharing", "linux,node-entry", ("linux", "node, entry")), ("pipeline", "linux, linux ,hydra", ("linux", "hydra"))])
def test_only_some_policies(name, given, columns, capsys):
    one = chosen(name, "--policies", given)
    assert one.columns() == columns and {step.case for step in one.steps} == {step.case for step in choice.BENCHES[name].steps}
    assert ("Linux is measured, too" in capsys.readouterr().err) == ("linux" not in given)


@pytest.mark.parametrize("given, said", [
    (["pipeline", "--policies", "hydra,hdyra"], "'pipeline' has no column 'hdyra'"), (["pipeline", "--policies", " , "], "names no policy"),
    (["munmap", "--policies", "hydra:filter=entry"], "'munmap' has no column 'hydra,filter=entry'"),
    (["pipeline", "--runs", "0"], "--runs 0: must be 1 to 100"), (["munmap", "--runs", "101"], "--runs 101"),
    (["pipeline", "--nodes", "2", "4"], "--nodes 2 4: 'pipeline' runs on one machine"), (["munmap", "--nodes", "1"], "needs two at least"),
    (["munmap", "--nodes", "17"], "--nodes 17: must be 1 to 16"), (["operations", "--runs", "2"], "--runs is not for 'operations': the meter"),
    (["operations", "--policies", "linux"], "--policies is not for 'operations'"), (["steps", "--runs", "3"], "--runs is not for the measurement 'steps'"),
    (["steps", "--policies", "hydra"], "--policies is not for"), (["steps", "--workload", "x"], "--workload is not for"),
    (["pipeline", "--memory", "4G"], "--memory is for --workload only"), (["pipeline", "--timeout", "4"], "--timeout is for --workload only"),
    (["pipeline", "--workload", "true"], "--workload is a measurement of its own, and 'pipeline' is another")])
def test_wrong_choices_are_refused_before_a_kernel_is_built(given, said):
    with pytest.raises(LabError, match=re.escape(said)) as caught:
        verb.bench_verb(words(*given))
    assert caught.value.status == 2


@pytest.mark.parametrize("name", ["pipeline", "footprint", "prefetch", "apps", "sharing", "spinners", "allocators", "auto", "wander", "miniatures", "placed"])
def test_limits_are_those_of_the_columns_that_were_measured(name):
    import test_benches
    one = chosen(name, "--policies", "linux")
    made = [entry for entry in test_benches.entries(name) if entry["policy"] == "linux"]
    checks = core.checked(one, made)
    assert checks and all(check.passed for check in checks)
    assert not any(name in check.text for check in checks for name in ("RadixVM", "ABIS", "Hydra,", "H-"))


def test_runs_take_turns_and_every_second_is_backwards():
    one = chosen("pipeline", "--policies", "linux,hydra,abis", "--runs", "3")
    order = [(run, step.policy) for run, step in core.plan(one) if step.case == "local"]
    forwards = ["linux", "abis", "hydra"]
    assert order == [*((1, name) for name in forwards), *((2, name) for name in reversed(forwards)), *((3, name) for name in forwards)]
    assert len(core.plan(one)) == 3 * len(one.steps)
    assert core.plan(chosen("pipeline")) == [(1, step) for step in choice.BENCHES["pipeline"].steps]


def repeated(change=lambda run, step, seen: None):
    """Values of a repeated measurement, as if the machine had printed them."""
    import test_benches
    one = chosen("pipeline", "--policies", "linux,hydra", "--runs", "3")
    said = []
    for number, (run, step) in enumerate(core.plan(one)):
        seen = json.loads(json.dumps(test_benches.said_by_patterns(step)))
        change(run, step, seen)
        said.append({"step": number, "said": seen})
    return one, core.entries_of(one, said)


def once_more(run, step, seen):
    if (run, step.case, step.policy) == (2, "local", "hydra"):
        seen["same_node"] = [count + 4 for count in seen["same_node"]]


def test_each_value_has_its_run_and_each_run_keeps_the_limits():
    one, entries = repeated()
    assert {entry["run"] for entry in entries} == {1, 2, 3} and all(check.passed for check in core.checked(one, entries))
    (failed,) = [check for check in core.checked(*repeated(once_more)) if not check.passed]
    assert failed.text.startswith("local, Hydra") and failed.seen.startswith("5 in 100 %") and failed.seen.endswith("in run 2")


def test_a_run_without_values_is_missing():
    one, entries = repeated()
    left = [entry for entry in entries if (entry["run"], entry["policy"]) != (3, "hydra")]
    (failed,) = [check for check in core.checked(one, left) if not check.passed]
    assert "missing" in failed.seen and failed.seen.endswith("in run 3")


def test_counts_that_differ_are_shown_and_files_have_each_run(tmp_path, capsys, monkeypatch):
    one, entries = repeated(once_more)
    monkeypatch.setattr(core, "run", lambda _: entries)
    files = {kind: str(tmp_path / f"values.{kind}") for kind in ("json", "csv", "png")}
    arguments = words("pipeline", *(part for kind, name in files.items() for part in (f"--{kind}", name)))
    assert core.show(one, arguments) == 1
    shown = capsys.readouterr().out
    assert "1–5" in shown and "Counts that differ between runs" in shown and "1  5  1" in shown
    with open(files["csv"], encoding="utf-8") as source:
        rows = list(csv.DictReader(source))
    assert tuple(rows[0]) == (*measured.FIELDS, "run") and len(rows) == len(entries)
    assert [row["value"] for row in rows if (row["case"], row["policy"], row["metric"]) == ("local", "hydra", "interrupts")] == ["1", "5", "1"]
    assert json.loads((tmp_path / "values.json").read_text()) == entries
    assert (tmp_path / "values.png").read_bytes().startswith(b"\x89PNG")
    one, entries = repeated()
    report.differing(entries)
    assert "Every count is the same in each run." in capsys.readouterr().out


def test_words_that_differ_are_shown(capsys):
    made = [dict(zip(measured.FIELDS, ("auto", "one", "auto", "state", word, "word")), run=run) for run, word in enumerate(("split", "returned"), 1)]
    report.differing(made)
    assert "split  returned" in capsys.readouterr().out


TIMES = {"linux": (10, 20, 40), "hydra": (5, 8, 44)}


def timed():
    return [dict(zip(measured.FIELDS, ("r", "c", policy, "seconds", value, "s")), run=run) for policy, seen in TIMES.items()
            for run, value in enumerate(seen, 1)]


def test_times_have_the_median_and_the_spread_of_the_ratios_of_each_run():
    values, line = measured.Values(timed()), measured.Line("r", "c", "seconds", "time", "", "", drawn=True)
    assert measured.spread(values, line, "hydra") == "0.50 (0.40–1.10)" and measured.spread(values, line, "linux") == "1.00"
    assert measured.differing(timed()) == {}


def test_the_picture_has_the_spread(monkeypatch, tmp_path):
    drawn = []
    real = report.bars

    def bars(axis, values, line, policies_drawn):
        real(axis, values, line, policies_drawn)
        drawn.append((axis.get_title(loc="left"), [patch.get_height() for patch in axis.patches], [text.get_text() for text in axis.texts],
                      [tuple(map(tuple, path)) for path in axis.collections[0].get_segments()] if axis.collections else []))
    monkeypatch.setattr(report, "bars", bars)
    report.picture(tmp_path / "x.png", "title", [measured.Line("r", "c", "seconds", "time", "", "", drawn=True)], timed())
    ((title, heights, texts, ends),) = drawn
    assert title == "time" and heights == [1, 0.5] and texts == ["1.00", "0.50 (0.40–1.10)"]
    assert [round(y, 2) for _, y in ends[1]] == [0.4, 1.1]


def test_a_row_of_the_demo_has_another_machine_and_its_words_say_so(monkeypatch, capsys):
    made = []

    def run_guest(command, machine, *_):
        made.append((command, machine))
        return [dict(zip(measured.FIELDS, ("munmap", "remote-spinners", policy, "interrupts_per_op", 6 * (policy == "linux"), "interrupts"))) for policy in ("linux", "hydra")]
    monkeypatch.setattr(measure, "run_guest", run_guest)
    monkeypatch.setattr(measure.build, "kernel", lambda: "bzImage")
    monkeypatch.setattr(measure.programs, "hydractl", lambda: paths.REPO)
    monkeypatch.setattr(measure.programs, "workloads", lambda: paths.REPO)
    assert verb.bench_verb(words("munmap", "--nodes", "4", "--policies", "linux,hydra", "--runs", "1")) == 0
    ((command, machine),) = made
    assert machine.nodes == 4 and command[command.index("--policies") + 1] == "linux,hydra" and "--everything" in command
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "on all CPUs of the 3" in shown and "Mitosis" not in shown
    assert measure.machine_for("locality", 8).memory == "4096M" and measure.machine_for("munmap", None) == measure.EIGHT_NODES
    assert "the other node" in demo_lines.lines(2, 2)[0].title


def test_runs_of_a_row_are_numbered_in_their_order():
    runs = [dict(zip(measured.FIELDS, ("munmap", "quiet", "hydra", "us_per_op", value, "us"))) for value in (3, 1)]
    assert [(entry["value"], entry["run"]) for entry in measure.numbered(runs)] == [(3, 1), (1, 2)]


@pytest.mark.parametrize("row", measure.ROWS)
@pytest.mark.parametrize("runs", [None, 1, 4])
def test_the_guest_announces_as_many_steps_as_the_bar_expects(row, runs, monkeypatch):
    """Of Apache each start of a server is one, too."""
    options = type("Options", (), {"policies": "linux,hydra", "programs": [], "runs": runs or measure.RUNS, "everything": runs is not None, "iterations": 1,
                                   "seconds": 1, "quiet_seconds": 1, "mib": 1, "quiet_mib": 1, "web_seconds": 1, "short_web_seconds": 1})
    announced = []
    monkeypatch.setattr(guest_measure, "put", lambda **fields: announced.append(fields) if "doing" in fields else None)
    monkeypatch.setattr(guest_measure.Lab, "workload", lambda *_: dict.fromkeys(
        ("case", "interrupts_per_op", "us_per_op", "domains_without_tables", "local_leaf_share", "pagetable_kib", "pagetable_kib_before")))
    monkeypatch.setattr(guest_measure, "Server", lambda *_: type("Server", (), {"load": lambda *_: (1, 1, 1), "stop": lambda *_: None})())
    lab = guest_measure.Lab(options)
    {"apache": lab.apache, "locality": lab.locality}.get(row, lambda: lab.shootdown(row))()
    assert len(announced) == measure.steps(row, ("linux", "hydra"), runs) if runs is not None else len(announced) * 5 == measure.steps(row) * 2
    if runs == 4 and row == "munmap":
        order = [fields["doing"].rsplit(", ")[-1] for fields in announced if ": quiet" in fields["doing"]]
        assert order == ["linux", "hydra", "hydra", "linux"] * 2


def test_settings_are_those_of_the_tool():
    text = (paths.REPO / "tools/hydractl/settings.c").read_text(encoding="utf-8")
    for name, prefix in (("domains", "HYDRA_SCOPE_"), ("replication", "HYDRA_REPLICATE_"), ("filter", "HYDRA_FILTER_")):
        known = re.findall(rf'\[{prefix}\w+\] = \{{ (?:\.name = )?"(\w+)"', text)
        assert policies.SETTINGS[name] == [value for value in known if value != "machine"]      # that of the policy linux
    assert list(policies.NAMES) == re.findall(r'^\t\{ "([\w-]+)", \'\w\', "', text.partition("policies[]")[2].partition("};")[0], re.M)


def test_the_policies_of_hydra_are_those_of_the_kernel():
    text = (paths.REPO / "kernel/arch/x86/mm/hydra/settings.c").read_text(encoding="utf-8")
    of_kernel = re.findall(r'^\t\{ "(\w+)", HYDRA_\w+_SETTINGS \},$', text, re.M)
    assert of_kernel == ["linux", *policies.OF_HYDRA] and {*policies.POLICIES, "auto"} == set(of_kernel)


def test_a_bench_is_unchanged_without_a_choice():
    for name, one in choice.BENCHES.items():
        assert dataclasses.replace(chosen(name), steps=one.steps) == one and chosen(name).steps == one.steps


def test_a_former_name_of_a_measurement_is_still_taken():
    assert set(choice.FORMER.values()) <= set(choice.BENCHES) and not set(choice.FORMER) & set(choice.BENCHES)
    with pytest.raises(LabError, match="'apps' has no column 'none'"):
        verb.bench_verb(cli.parser().parse_args(["bench", "people", "--policies", "none"]))
    assert here.chosen_names(types.SimpleNamespace(names=["people", "apps", "prefetch"], workload=None)) == ["apps", "prefetch"]
