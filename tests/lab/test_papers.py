# SPDX-License-Identifier: GPL-2.0-only
"""./hydra papers: its 33 tables and figures, what is shown of them, what is kept, and that a model is always called one. (No machine boots.)"""
import base64
import csv
import dataclasses
import json

import pytest
import test_bench_operations
import test_bench_sizes
import test_benches
import test_counters
import test_measure

from lab import cli
from lab.bench import choice, core, operations
from lab.errors import LabError
from lab.measure import measure, model, spread, values
from lab.meter import counters
from lab.papers import agreement, page, papers, plan, quoted, rows, shown as shown_by
from test_html_report import Page


def good(name):
    """Values of a measurement that keep its limits."""
    if name in measure.ROWS:
        return [entry for entry in test_measure.good_values() if entry["row"] == name]
    if name == counters.NAME:
        return counters.entries_of(test_counters.found())
    if name == "operations":
        return operations.values_of(test_bench_operations.results())
    if name == "sizes":
        return test_bench_sizes.values()
    if name in ("programs", "sweeps"):
        one = choice.BENCHES[name]
        return core.entries_of(one, [{"step": number, "said": {"interrupts": 9, "pagetable_kib": 100, "seconds": 1}} for number, _ in enumerate(one.steps)])
    if name in plan.BESIDES:
        return [dict(entry, row=name) for entry in test_benches.entries("allocators")]
    if name == "pipeline-64":
        one = choice.BENCHES[name]
        said = [{"same_node": [3] * 9, "other_node": [4] * 9} for _ in one.steps]
        return core.entries_of(one, [{"step": number, "said": seen} for number, seen in enumerate(said)])
    return test_benches.entries(name)


def made_of(*names):
    return {name: {"values": good(name), "checks": [["a limit", "3", False, True]], "date": "today", "minutes": 1, "identity": "this kernel"} for name in names}


FIGURES = rows.benches_of(rows.ROWS)
EVERY = (*FIGURES, *plan.QUOTED)
RADIXVM = sorted(rows.benches_of(rows.chosen(("radixvm",))))


def document(made, chosen=rows.ROWS, **more):
    given = {"directory": "a run", "rows": chosen, "made": made, "failed": {}, "left_out": (), "prices": model.PRICES, "machine": [("The <machine>", [("made by", "<b>X</b>")])], **more}
    return page.Document(**given)


DRAW, FIRST = page.picture, page.first_page.draw


def html(document_made):
    return page.pages(document_made)[0]


@pytest.fixture(autouse=True, scope="module")
def no_pictures():
    """Drawing takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "picture", lambda *_: "")
        patch.setattr(page.first_page, "draw", lambda *_: b"")
        yield


@pytest.fixture(scope="module")
def whole(no_pictures):
    """The document with every measurement, and its parts by (paper, label)."""
    made = document(made_of(*EVERY))
    get = page.Get(made)
    return made, {(row.paper, row.label): page.part(row, made, get) for row in rows.ROWS}


def test_there_are_33_and_each_says_what_it_is():
    assert len(rows.ROWS) == len({(row.paper, row.label) for row in rows.ROWS}) == 33
    for row in rows.ROWS:
        assert row.title and row.theirs and row.paper in rows.PAPERS and (row.verdict == rows.NOT) == (not row.benches) == (not row.shown)
        assert row.verdict == rows.FULL or row.cannot
        assert row.verdict == rows.NOT or row.exact


def test_each_measurement_is_there_and_has_its_minutes():
    assert set(EVERY) <= {*measure.ROWS, *choice.BENCHES, *plan.BESIDES, counters.NAME} and set(plan.MINUTES) == set(EVERY)
    assert sum(minutes for minutes, _ in plan.MINUTES.values()) <= 90 and sum(minutes for _, minutes in plan.MINUTES.values()) <= 15


def test_every_point_and_column_is_a_value_of_a_measurement(whole):
    """So no name of a case, column or metric in the table is wrong."""
    made, _ = whole
    get = page.Get(made)
    for row in rows.ROWS:
        for shown in row.shown:
            missing = {(point, column) for point, _ in shown.points for column in shown.columns} - set(page.grid(shown, get))
            assert not missing, (row.paper, row.label, shown.title, missing)


def test_with_every_measurement_each_row_has_its_verdict(whole):
    _, parts = whole
    assert {key: part["verdict"] for key, part in parts.items()} == {(row.paper, row.label): row.verdict for row in rows.ROWS}
    assert all(part["missing"] == {} for part in parts.values())


def test_what_is_modelled_says_so_everywhere(whole):
    _, parts = whole
    seen = 0
    for part in parts.values():
        for table in part["tables"]:
            if table["model"]:
                seen += 1
                assert "model" in table["title"] and part["row"].modelled
    assert seen > 15
    for row in rows.ROWS:
        for shown in row.shown:
            found = page.grid(shown, page.Get(document(made_of(*row.benches))))
            assert not page.is_model(found) or "model" in shown.ylabel


@pytest.mark.parametrize("label, number", [("figure 1", 0), ("figure 1", 1), ("figure 8", 0)])
def test_pictures_have_the_papers_axes(label, number, monkeypatch):
    (row,) = [row for row in rows.ROWS if (row.paper, row.label) == ("hydra", label)]
    drawn = []
    for name in ("draw_lines", "draw_bars"):
        real = getattr(page, name)
        monkeypatch.setattr(page, name, lambda axis, *more, real=real, name=name: (real(axis, *more), drawn.append((name, axis))))
    shown, found = row.shown[number], page.grid(row.shown[number], page.Get(document(made_of(*row.benches))))
    made = base64.b64decode(DRAW(shown, found, [point for point, _ in shown.points], shown.columns))
    ((name, axis),) = drawn
    assert made.startswith(b"\x89PNG") and name == ("draw_lines" if label == "figure 1" else "draw_bars")
    assert (axis.get_xlabel(), axis.get_ylabel()) == (shown.xlabel, shown.ylabel) and len(axis.figure.legends[0].get_texts()) == len(shown.columns)
    assert ("model" in axis.get_ylabel()) == page.is_model(found)


def test_a_title_of_a_model_gets_the_word():
    shown = shown_by.Shown("time", "ratio", (("x", "c"),), ("hydra",), lambda *_: model.Ratio(0.5, 1.5, 0.25), "ratio")
    found = page.grid(shown, None)
    made = page.table(shown, found)
    assert made["title"] == "time (model)" and made["lines"] == [("x", ["0.50 (1.50, 0.25)"])]
    assert made["flips"] == ["x, Hydra: faster, but slower with prices halved"]


def test_modelled_times_are_those_of_the_counts(whole):
    """Figure 1: the time of a call is that of its instructions and of the interrupts that it sends."""
    made, _ = whole
    (row,) = [row for row in rows.ROWS if (row.paper, row.label) == ("hydra", "figure 1")]
    get, found = page.Get(made), page.grid(row.shown[1], page.Get(made))
    instructions = get("operations", "mprotect-4k, apart", "linux", "instructions")
    assert found[8, "linux"].usual == pytest.approx((0.33 * instructions + 63 * 500) / (0.33 * instructions)) and found[0, "linux"].usual == 1
    (row,) = [row for row in rows.ROWS if (row.paper, row.label) == ("vmitosis", "figure 1")]
    found = page.grid(row.shown[0], get)
    assert found["gups", "LL"].usual == 1 and found["gups", "LR"].usual == found["gups", "RL"].usual < found["gups", "RR"].usual


def test_the_table_of_prices_decides():
    made = made_of("spinners", "operations")
    dear = {**model.PRICES, "sent": dataclasses.replace(model.PRICES["sent"], ns=10000)}
    (row,) = [row for row in rows.ROWS if (row.paper, row.label) == ("hydra", "figure 1")]
    usual, other = (page.grid(row.shown[1], page.Get(document(made, prices=prices)))[8, "linux"].usual for prices in (model.PRICES, dear))
    assert other > 10 * usual


def test_the_page_has_all_rows_and_no_text_becomes_html(whole):
    made, _ = whole
    seen = Page(html(made))
    for row in rows.ROWS:
        assert " ".join(row.theirs.split()) in seen.words and row.title in seen.words
    assert "<b>X</b>" in seen.words and "The <machine>" in seen.words
    assert all(price.source in seen.words for price in model.PRICES.values()) and "1 of its limits broken" in seen.words
    full = sum(row.verdict == rows.FULL for row in rows.ROWS)
    assert f"Of 33 tables and figures: {full} in full" in seen.words
    assert {value.split(":")[0] for _, name, value in seen.attributes if name == "src"} == {"data"}


def test_the_first_page_is_a_picture_with_all_rows(whole, monkeypatch):
    made, parts = whole
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.text", lambda _, x, y, text, **more: drawn.append((x, y, text)))
    picture = FIRST("The <papers>", list(page.said(made, parts.values(), page.numbers_of(made, page.Get(made)))), list(parts.values()))
    words = " ".join(text for _, _, text in drawn)
    assert picture.startswith(b"\x89PNG") and "Of 33 tables and figures: 24 in full, 5 in part, 4 not possible" in words
    assert sum(text in page.first_page.COLOURS for _, _, text in drawn) == len(rows.ROWS)
    # A row's cells begin at one height, and no line stands on another one.
    assert len({(x, y) for x, y, _ in drawn}) == len(drawn)


def test_what_was_not_measured_is_said_with_the_reason():
    made = document(made_of("sizes"), rows.chosen(("hydra",)), failed={"spinners": "the machine ended"}, left_out=("apache",))
    parts = {part["row"].label: part for part in (page.part(row, made, page.Get(made)) for row in made.rows)}
    assert parts["figure 1"]["verdict"] == "not measured in this run: spinners, operations"
    assert parts["figure 1"]["missing"] == {"spinners": "the machine ended", "operations": "it was not reached"}
    assert parts["figure 2"]["verdict"] == "in part; not measured in this run: mprotect" and len(parts["figure 2"]["tables"]) == 1
    assert parts["figure 13"]["missing"] == {"apache": "a quick run leaves it out", "sweeps": "it was not reached"} and parts["figure 8"]["missing"] == {"miniatures": "it was not reached"}
    assert parts["figure 9"]["verdict"] == rows.FULL and parts["figure 9"]["missing"] == {}
    words = Page(html(made)).words
    assert "spinners was not measured: the machine ended" in words and "1 in full, 12 not, or not wholly, measured in this run" in words


def test_a_row_without_all_its_points_is_not_in_full():
    made = made_of("placed", "prefetch")
    (row,) = [row for row in rows.ROWS if (row.paper, row.label) == ("vmitosis", "figure 1")]
    assert page.part(row, document(made), page.Get(document(made)))["verdict"] == rows.FULL
    made["placed"]["values"] = [entry for entry in made["placed"]["values"] if entry["case"] != "btree"]
    found = page.part(row, document(made), page.Get(document(made)))
    assert found["verdict"] == "in part; not measured in this run: some points" and len(found["tables"][0]["lines"]) == 4


# --- The call

class Runs:
    """In the place of plan.run()."""

    def __init__(self, fail=None):
        self.names, self.fail = [], fail or {}

    def __call__(self, one):
        self.names.append(one.name)
        if one.name in self.fail:
            raise self.fail[one.name]
        return good(one.name), []


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch, cache):
    monkeypatch.setattr(plan.build, "image_key", lambda _: "kernel")


def call(home, *words, runs=None):
    runs = runs or Runs()
    arguments = cli.parser().parse_args(["papers", "--out", str(home), *words])
    return papers.papers_verb(arguments, runs), runs.names


def test_what_was_measured_is_kept(tmp_path, monkeypatch, capsys):
    status, names = call(tmp_path, "--only", "radixvm")
    assert status == 0 and sorted(names) == RADIXVM
    assert json.loads((tmp_path / "miniatures.json").read_text())["values"] == good("miniatures")
    with open(tmp_path / "papers.csv", encoding="utf-8") as source:
        assert len(list(csv.DictReader(source))) == len(json.loads((tmp_path / "papers.json").read_text())) == sum(len(good(name)) for name in RADIXVM)
    assert "figure 9" in (tmp_path / "papers.html").read_text() and "ABIS, figure 5" not in (tmp_path / "papers.html").read_text()
    assert call(tmp_path, "--only", "radixvm") == (0, []) and "kept from" in capsys.readouterr().err
    # Another kernel, or other steps: what is kept is of another thing.
    assert call(tmp_path, "--only", "radixvm", "--quick")[1] == ["miniatures"]
    monkeypatch.setattr(plan.build, "image_key", lambda _: "another")
    assert sorted(call(tmp_path, "--only", "radixvm")[1]) == RADIXVM
    (tmp_path / "miniatures.json").write_text("{ broken")
    assert call(tmp_path, "--only", "radixvm")[1] == ["miniatures"]


def test_a_failure_ends_no_other_measurement(tmp_path, capsys):
    status, names = call(tmp_path, "--only", "radixvm", runs=Runs({"pipeline-64": LabError("the machine <ended>")}))
    assert status == 1 and sorted(names) == RADIXVM and not (tmp_path / "pipeline-64.json").exists()
    assert "the machine &lt;ended&gt;" in (tmp_path / "papers.html").read_text() and "pipeline-64 failed" in capsys.readouterr().err
    assert call(tmp_path, "--only", "radixvm") == (0, ["pipeline-64"])


def test_an_interrupted_call_leaves_a_report(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        call(tmp_path, "--only", "radixvm", runs=Runs({"miniatures": KeyboardInterrupt()}))
    assert "it was not reached" in (tmp_path / "papers.html").read_text() and json.loads((tmp_path / "papers.json").read_text()) == [*good(counters.NAME), *good("pipeline-64")]


def test_a_quick_run_makes_less_and_says_what(tmp_path):
    tasks, left_out = plan.tasks(EVERY, True)
    assert {one.name for one in tasks} | set(left_out) == set(EVERY) and {"auto", *plan.QUOTED} <= set(left_out)
    quick = {one.name: one.bench for one in tasks}
    assert {step.case for step in quick["placed"].steps} == {"gups", "canneal"} and set(quick["miniatures"].columns()) == {"linux", "mitosis", "hydra"}
    assert [one.minutes for one in tasks] == sorted(one.minutes for one in tasks)
    assert call(tmp_path, "--quick", "--only", "abis")[1] == ["miniatures"]
    assert "a quick run leaves it out" in (tmp_path / "papers.html").read_text()


@pytest.mark.parametrize("words, said", [(["--only", "hydra,linux"], "there is no paper 'linux'"), (["--only", " ,"], "names no paper"),
                                         (["--costs", "/no/such/file"], "no JSON file of ./hydra here"), (["--out", "/dev/null/x"], "cannot make the directory"), (["--against", "/no/such/run"], "there is no measurement of ./hydra papers")])
def test_wrong_words_are_refused_before_anything_is_measured(tmp_path, words, said):
    runs = Runs()
    with pytest.raises(LabError, match=said) as caught:
        call(tmp_path, *words, runs=runs)
    assert caught.value.status == 2 and runs.names == []


def test_only_a_whole_run_of_all_papers_makes_what_documents_quote(tmp_path):
    assert set(call(tmp_path, "--only", "hydra,abis,radixvm,vmitosis")[1]) == set(EVERY)
    assert not set(plan.QUOTED) & set(call(tmp_path / "quick", "--quick")[1])
    assert set(FIGURES) > set(call(tmp_path / "some", "--only", "hydra,abis")[1])


def test_prices_of_a_measured_machine(tmp_path):
    from test_cost_model import document as measured
    (tmp_path / "here.json").write_text(json.dumps(measured()))
    made = papers.prices_of(tmp_path / "here.json")
    assert made["sent"].ns == 1500 and papers.prices_of(None) is model.PRICES
    (tmp_path / "here.json").write_text("[]")
    with pytest.raises(LabError, match="no JSON file"):
        papers.prices_of(tmp_path / "here.json")


def test_limits_of_a_part_are_not_compared(monkeypatch):
    (part,) = [one for one in plan.tasks(("placed",), True)[0]]
    monkeypatch.setattr(plan.core, "run", lambda one: [entry for entry in good("placed") if entry["case"] in ("gups", "canneal")])
    assert plan.run(part)[1] == []
    (whole_one,) = [one for one in plan.tasks(("placed",), False)[0]]
    monkeypatch.setattr(plan.core, "run", lambda one: good("placed"))
    assert plan.run(whole_one)[1] and all(check[2] for check in plan.run(whole_one)[1])


# --- The documents' numbers

def shown_in(document_made):
    """{(title, policy's column): what the report says of a number}."""
    tables = page.numbers_of(document_made, page.Get(document_made))
    return {(line["title"], column): found for table in tables for line in table["lines"] for column, found in zip(table["columns"], line["cells"]) if found}


def changed(made, where, column, value):
    """The same run, in which a quoted number is another one."""
    entries = [dict(entry, value=value) if (entry["row"], entry["case"], entry["policy"], entry["metric"]) == (where.row, where.case, where.column(column), where.metric)
               else entry for entry in made[page.measured_as(where)]["values"]]
    assert entries != made[page.measured_as(where)]["values"]
    return {**made, page.measured_as(where): {**made[page.measured_as(where)], "values": entries}}


def test_each_quoted_number_stands_beside_the_runs(whole):
    made, _ = whole
    seen = shown_in(made)
    assert len(seen) > 200
    verdicts = {found.verdict for found in seen.values()}
    assert verdicts <= {quoted.EQUAL, quoted.WITHIN, quoted.OTHER, quoted.MISSING} and quoted.EQUAL in verdicts
    assert {title for (title, _), found in seen.items() if found.verdict == quoted.MISSING} <= {title for title, _ in seen if title.startswith(("wander", "decay", "threads", "migrated", "apart", "requests"))}
    words = Page(html(made)).words
    assert "The run is in a run: " in words and "./hydra bench munmap , today" in words and "./hydra bench steps" in words


def test_a_number_that_a_run_does_not_measure_is_named_as_different(whole):
    made, _ = whole
    where = quoted.SECTIONS["Nested page tables"]["vCPUs flushed"]
    (title,) = {title for title, _ in shown_in(made) if title.startswith("vCPUs flushed")}
    assert shown_in(made)[title, "Hydra: a tree for each node"].verdict == quoted.EQUAL
    other = document(changed(made.made, where, "hydra", 3))
    assert shown_in(other)[title, "Hydra: a tree for each node"] == quoted.Judged("**2**", "3", quoted.OTHER)
    assert "2; here 3: different" in Page(html(other)).words
    left = document({name: found for name, found in made.made.items() if name != "nested"})
    assert shown_in(left)[title, "Hydra: a tree for each node"].verdict == quoted.MISSING


@pytest.mark.parametrize("cell, seen, verdict", [
    ("14.00", [14.004], quoted.EQUAL), ("14.00", [14.006], quoted.OTHER), ("**0 %**", [0.004], quoted.EQUAL), ("99.8 %", [0.998], quoted.EQUAL),
    ("99.8 %", [0.997], quoted.OTHER), ("2,268", [2268], quoted.EQUAL), ("2,268", [2269], quoted.OTHER),
    ("746–1,504", [746], quoted.EQUAL), ("746–1,504", [1000], quoted.EQUAL), ("746–1,504", [1505], quoted.OTHER), ("746–1,504", [745], quoted.OTHER),
    ("38, 262, **34**", [38, 262, 34], quoted.EQUAL), ("38, 262, 34", [38, 262, 35], quoted.OTHER), ("38, 262", [38, 262, 34], quoted.OTHER),
    ("32", [32, 32, 32], quoted.EQUAL), ("32", [32, 32, 33], quoted.OTHER)])
def test_a_cell_is_compared_as_far_as_it_is_written(cell, seen, verdict):
    assert quoted.covered(cell, seen, spread.EXACT) == verdict


def test_a_number_within_the_spread_is_called_so():
    tenth = spread.Allowed(0.1, 0, "")
    assert [quoted.covered(cell, [seen], tenth) for cell, seen in (("1.00", 1.09), ("1.00", 1.2), ("100–200", 215), ("100–200", 230))] == \
        [quoted.WITHIN, quoted.OTHER, quoted.WITHIN, quoted.OTHER]


def test_the_names_of_quoted_rows_are_those_of_measurements():
    for known in quoted.SECTIONS.values():
        for where in known.values():
            assert page.measured_as(where) in {*plan.MINUTES, "wander"}
    text = quoted.text()
    assert all(quoted.section(text, section) for section in quoted.SECTIONS) and all(f"# {section}\n" in text for section, _ in quoted.ELSEWHERE)


# --- Two runs

def compared(mine, others):
    return agreement.compare(mine, others, "the other")


def with_value(made, change, **where):
    """The same run with other values of a measurement."""
    (name,) = {where["row"]} & made.keys()
    entries = [dict(entry, value=change(entry["value"])) if all(entry[field] == value for field, value in where.items()) else entry for entry in made[name]["values"]]
    assert entries != made[name]["values"]
    return {**made, name: {**made[name], "values": entries}}


def test_a_run_agrees_with_itself(whole):
    made, _ = whole
    found = compared(made.made, made.made)
    assert found.broken() == set() and found.missing == () and found.times > 0
    assert all(group.equal == len(group.compared) and group.largest is None for group in found.groups)
    assert "every value is within the spread" in Page(html(dataclasses.replace(made, agreed=found))).words


@pytest.mark.parametrize("where", [{"row": "footprint", "case": "full", "policy": "hydra", "metric": "leaf_tables"}, {"row": "prefetch", "case": "first", "policy": "H-4", "metric": "first_fills"},
                                   {"row": "nested", "case": "dropped", "policy": "hydra", "metric": "flushes_per_drop"}])
def test_a_count_that_is_exact_may_not_differ_at_all(whole, where):
    made, _ = whole
    found = compared(made.made, with_value(made.made, lambda value: value + 1, **where))
    assert found.broken() == {where["row"]}
    (group,) = [group for group in found.groups if group.outside]
    assert group.allowed == spread.EXACT and len(group.outside) == 1 and group.largest == group.outside[0]
    words = Page(html(dataclasses.replace(made, agreed=found))).words
    assert f"outside of the spread: {where['row']}" in words and agreement.told(group.largest).replace(", ", " ").split()[0] in words


def test_a_value_that_one_of_two_equal_runs_lacks_is_named(whole):
    made, _ = whole
    fewer = {**made.made["nested"], "values": made.made["nested"]["values"][1:]}
    found = compared(made.made, {**made.made, "nested": fewer})
    assert found.broken() == {"nested"} and len(found.alone["nested"]) == 1
    # A quick run has fewer steps.
    found = compared(made.made, {"nested": {**fewer, "identity": "a quick run"}})
    assert found.broken() == set() and found.other_steps == {"nested"} and "apache" in found.missing


@pytest.mark.parametrize("row, part, allowed", spread.ALLOWED)
def test_a_value_may_differ_by_its_spread_and_by_no_more(row, part, allowed):
    assert allowed.why and (allowed.share or allowed.most) and str(allowed) != "0"
    for value in (0, 1, 100, 100000):
        most = max(allowed.most, value * allowed.share / (1 - allowed.share))
        assert allowed.covers(value, value + most) and allowed.covers(value + most, value)
        assert not allowed.covers(value, 1.01 * (value + most) + 0.01)
    # Of every such value there is a measurement.
    names = [name for name in plan.MINUTES if row in (name, None)]
    assert any(spread.allowed(entry["row"], entry["metric"]) is allowed for name in names for entry in good(name))


def test_times_are_not_compared(whole):
    made, _ = whole
    assert compared(made.made, with_value(made.made, lambda value: 9 * value, row="munmap", metric="us_per_op")).broken() == set()


def test_what_another_run_lacks_is_no_agreement(tmp_path, capsys):
    words = ("--only", "radixvm")
    assert call(tmp_path / "one", *words)[0] == call(tmp_path / "two", *words)[0] == 0
    assert call(tmp_path / "one", *words, "--against", str(tmp_path / "two")) == (0, [])
    kept = tmp_path / "two/pipeline-64.json"
    found = json.loads(kept.read_text())
    found["values"][0]["value"] += 1
    kept.write_text(json.dumps(found))
    assert call(tmp_path / "one", *words, "--against", str(tmp_path / "two")) == (1, [])
    assert "does not agree with this run in pipeline-64" in capsys.readouterr().err
    assert "outside of the spread" in (tmp_path / "one/papers.html").read_text()
