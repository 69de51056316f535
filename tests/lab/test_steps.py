# SPDX-License-Identifier: GPL-2.0-only
"""The meter: symbols, samples that agree or do not, limits, calibration, cross-check. (No machine boots here.)"""
import dataclasses
import json

import pytest

from lab import cli
from lab.bench import verb
from lab.errors import LabError
from lab.machine import programs
from lab.meter import steps, steps_limits, steps_report, steps_samples, steps_verbs
from lab.meter.steps_samples import Disagreement, Measured, Number

MAP = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T startup_64
ffffffff810cf130 T call_rcu
ffffffff811dad30 T __alloc_pages_noprof
ffffffff811e5200 T kmem_cache_alloc_noprof
ffffffff81600c00 T asm_common_interrupt
ffffffff81600cb0 T asm_sysvec_apic_timer_interrupt
ffffffff81600b00 T asm_exc_page_fault
ffffffff81601000 T __switch_to_asm
ffffffff82000000 D some_data
"""


def sample(**changed):
    """One line of the plugin, as if nothing had disturbed it."""
    made = {"policy": 0, "row": 2, "accesses": 0, "dirty": "", "interrupts": 0, "waits": 0, "user": 6, "kernel": 2068,
            "locked": 7, "executed": 2074, "pages": 1, "objects": 0, "call_rcu": 0, "switches": 0, "remote": 0}
    made.update(changed)
    return made


def measured(*samples):
    text = "".join(json.dumps(entry) + "\n" for entry in samples)
    (group,) = steps_samples.parse(text).values()
    return steps_samples.measured(group, bool(samples[0]["accesses"]))


# --- symbols

def test_symbols_know_their_classes():
    found = {name: letter for _, letter, name in steps_samples.symbols(MAP)}
    assert found == {"startup_64": "-", "call_rcu": "r", "__alloc_pages_noprof": "p", "kmem_cache_alloc_noprof": "s",
                     "asm_common_interrupt": "d", "asm_sysvec_apic_timer_interrupt": "i", "asm_exc_page_fault": "f",
                     "__switch_to_asm": "t"}


def test_symbols_are_in_order_and_fit_the_plugin():
    lines = steps_samples.symbol_lines(steps_samples.symbols(MAP + f"ffffffff81000010 t {'long' * 40}\n")).splitlines()
    addresses = [int(line.split()[0], 16) for line in lines]
    assert addresses == sorted(addresses)
    assert all(len(line.split()[2]) <= 63 for line in lines)


def test_a_kernel_whose_functions_are_called_otherwise_is_refused():
    with pytest.raises(Disagreement, match="__alloc_pages_noprof"):
        steps_samples.symbols(MAP.replace("__alloc_pages_noprof", "__alloc_pages"))


# --- samples

def test_more_than_half_have_to_agree():
    assert steps_samples.typical([5, 5, 5, 9, 1]) == Number(5, True)
    with pytest.raises(Disagreement, match="2 of 4"):
        steps_samples.typical([500, 500, 900, 100])


def test_of_what_nearly_agrees_the_least_is_taken_and_says_so():
    found = steps_samples.typical([1000, 1002, 1004, 1006])
    assert (found.value, found.exact, str(found)) == (1000, False, "~1,000") and 1.2 < found.error < 1.4


def test_what_is_far_off_does_not_count():
    assert steps_samples.typical([1000, 1002, 1004, 1006, 9000]).value == 1000
    assert steps_samples.typical([100, 1002, 1004, 1006, 1008, 1010]).value == 1002
    with pytest.raises(Disagreement):
        steps_samples.typical([1000, 1002, 1004, 9006, 9000])


def test_samples_hit_by_an_interrupt_are_thrown_away():
    row = measured(sample(), sample(), sample(), sample(interrupts=1, kernel=9999))
    assert row.get("kernel") == Number(2068, True) and row.samples == 3 and not row.interrupted


def test_a_row_that_interrupts_always_hit_says_so():
    row = measured(*[sample(interrupts=1)] * 4)
    assert row.interrupted and row.get("kernel").value == 2068


def test_a_row_of_spoilt_samples_is_an_error():
    row = measured(sample(), *[sample(dirty="an interrupt of a device")] * 3)
    with pytest.raises(Disagreement, match="3 of 4 samples were spoilt: an interrupt of a device"):
        row.get("kernel")


def test_samples_of_accesses_give_remote_lines_only():
    row = measured(*[sample(accesses=1, remote=4, waits=1)] * 3)
    assert row.numbers == {"remote": Number(4, True)} and row.waits
    with pytest.raises(Disagreement, match="not measured"):
        row.get("kernel")


def test_the_functions_are_those_of_a_sample_like_most():
    odd, even = sample(kernel=9000, functions={"1": 9000}), sample(functions={"1": 2000, "2": 68})
    groups = steps_samples.parse("".join(json.dumps(entry) + "\n" for entry in (odd, even, even)))
    row = steps_samples.measured(next(iter(groups.values())), False, ["(user)", "a", "b"])
    assert row.functions == {"a": 2000, "b": 68}


def test_functions_of_remote_lines_stand_apart_from_those_of_instructions():
    results = steps.Results(ROWS)
    for accesses, found in ((False, {"1": 2068}), (True, {"2": 4})):
        groups = steps_samples.parse(json.dumps(sample(accesses=int(accesses), remote=4, functions=found)) + "\n")
        results.add(2, "off", "minor-fault", steps_samples.measured(next(iter(groups.values())), accesses, ["(user)", "a", "b"]))
    row = results.measured[2, "off", "minor-fault"]
    assert (row.functions, row.lines) == ({"a": 2068}, {"b": 4})


def test_a_kernel_without_hydra_has_no_symbol_of_it():
    assert not steps_verbs.no_symbol(MAP).failed
    assert steps_verbs.no_symbol(MAP + "ffffffff81000020 T __hydra_flush\n").why == "__hydra_flush"


# --- limits

ROWS = [steps.Row(name, alone, shared) for name, alone, shared in (
    ("nothing", False, False), ("known", False, False), ("minor-fault", False, False), ("fault-in-new-table", False, False),
    ("map-unmap-4k-alone", False, False), ("first-fill", False, True), ("fork-exit-1m", True, False))]
BASE = {"nothing": 3, "known": 2022, "minor-fault": 2000, "fault-in-new-table": 2500, "map-unmap-4k-alone": 18000,
        "first-fill": 1, "fork-exit-1m": 220000}


def good_results():
    """What keeps every limit."""
    results = steps.Results(ROWS)
    for nodes in (2, 16):
        for policy in steps.POLICIES:
            for row in ROWS:
                if row.under(policy):
                    numbers = dict.fromkeys(steps_samples.METRICS, 0)
                    numbers.update(instructions=BASE[row.name], kernel=BASE[row.name], locked=10)
                    numbers["pages"] = {"minor-fault": 1, "fault-in-new-table": 2}.get(row.name, 0)
                    if row.name in steps.CALIBRATION:
                        numbers.update(kernel=0, user=BASE[row.name], locked=9 if row.name == "known" else 0)
                    if row.name == "known" and steps.POLICIES[policy].split:
                        numbers["remote"] = steps_samples.KNOWN_REMOTE
                    if row.name == "first-fill" and policy == "hydra-split":
                        numbers.update(instructions=7000, locked=12)
                    results.add(nodes, policy, row.name, Measured({metric: Number(value, True) for metric, value in numbers.items()}, 9))
                    for accesses in (False, True):
                        results.clocks[nodes, policy, row.name, accesses] = [6] * 9
    return results


def changed(nodes, policy, row, **values):
    results = good_results()
    for metric, value in values.items():
        results.measured[nodes, policy, row].numbers[metric] = Number(value, True)
    return results


def failures(outcomes):
    return {outcome.name.removeprefix("steps, ") for outcome in outcomes if outcome.failed}


def test_good_results_keep_every_limit():
    outcomes = steps_limits.judge(good_results(), not_yet={})
    assert outcomes and not failures(outcomes)
    judged = {outcome.name.removeprefix("steps, ").split(":")[0] for outcome in outcomes}
    assert judged == {limit.name for limit in steps_limits.LIMITS}


@pytest.mark.parametrize("nodes, policy, row, values, broken", [
    (16, "hydra", "minor-fault", {"instructions": 2061}, {"cost: minor-fault", "nodes: minor-fault"}),
    (2, "hydra", "minor-fault", {"instructions": 2061}, {"cost: minor-fault"}),
    (2, "hydra", "fork-exit-1m", {"instructions": 223400}, {"cost: fork-exit-1m"}),
    (2, "hydra-split", "minor-fault", {"instructions": 2061}, {"cost-split: minor-fault"}),
    (2, "unused", "minor-fault", {"instructions": 2011}, {"unused: minor-fault"}),
    (16, "hydra", "minor-fault", {"instructions": 2009}, {"nodes: minor-fault"}),
    (16, "hydra-split", "minor-fault", {"instructions": 2009}, {"nodes-split: minor-fault"}),
    (2, "hydra", "minor-fault", {"locked": 11}, {"locked: minor-fault"}),
    (2, "hydra", "minor-fault", {"pages": 2}, {"pages: minor-fault"}),
    (2, "hydra", "minor-fault", {"objects": 1}, {"objects: minor-fault"}),
    (2, "hydra", "map-unmap-4k-alone", {"call_rcu": 1}, {"call-rcu: map-unmap-4k-alone"}),
    (2, "hydra-split", "map-unmap-4k-alone", {"call_rcu": 1}, set()),
    (2, "hydra-split", "map-unmap-4k-alone", {"call_rcu": 2}, {"call-rcu-split: map-unmap-4k-alone"}),
    (2, "hydra", "minor-fault", {"remote": 1}, {"remote: minor-fault"}),
    (16, "hydra-split", "minor-fault", {"remote": 2}, {"remote-split: minor-fault"}),
    (2, "hydra-split", "first-fill", {"instructions": 8001}, {"fill: first-fill"}),
    (2, "hydra-split", "first-fill", {"locked": 17}, {"fill-locked: first-fill"}),
])
def test_a_broken_limit_fails_and_no_other(nodes, policy, row, values, broken):
    assert failures(steps_limits.judge(changed(nodes, policy, row, **values), not_yet={})) == broken


def test_what_was_not_measured_fails():
    results = good_results()
    del results.measured[16, "hydra", "minor-fault"]
    assert "cost: minor-fault" in failures(steps_limits.judge(results, not_yet={}))


def test_growth_that_is_linux_own_is_not_charged():
    results = changed(16, "off", "minor-fault", instructions=2010)
    results.measured[16, "hydra", "minor-fault"].numbers["instructions"] = Number(2015, True)
    assert "nodes: minor-fault" not in failures(steps_limits.judge(results, not_yet={}))


def test_averages_are_not_judged_to_the_unit():
    results = good_results()
    results.measured[2, "hydra", "fork-exit-1m"].numbers["locked"] = Number(11.1, False)
    assert not failures(steps_limits.judge(results, not_yet={}))
    results.measured[2, "hydra", "fork-exit-1m"].numbers["locked"] = Number(11.3, False)
    assert failures(steps_limits.judge(results, not_yet={})) == {"locked: fork-exit-1m"}


@pytest.mark.parametrize("exact, broken", [(False, set()), (True, {"call-rcu: fork-exit-1m"})])
def test_callbacks_may_be_more_only_where_samples_do_not_agree(exact, broken):
    results = good_results()
    for policy, value in (("off", 19), ("hydra", 21)):
        results.measured[2, policy, "fork-exit-1m"].numbers["call_rcu"] = Number(value, exact or policy == "hydra")
    assert failures(steps_limits.judge(results, not_yet={})) == broken


def test_an_average_breaks_a_limit_only_beyond_its_errors():
    results = good_results()
    results.measured[2, "hydra", "fork-exit-1m"].numbers["instructions"] = Number(223700, False, 300)
    assert not failures(steps_limits.judge(results, not_yet={}))
    results.measured[2, "hydra", "fork-exit-1m"].numbers["instructions"] = Number(223700, False, 100)
    assert failures(steps_limits.judge(results, not_yet={})) == {"cost: fork-exit-1m"}


def test_not_yet_is_a_skip_with_its_numbers_and_fails_when_it_is_met():
    broken = changed(2, "hydra", "minor-fault", locked=11)
    (outcome,) = [outcome for outcome in steps_limits.judge(broken, not_yet={"locked: minor-fault": "stage A"})
                  if outcome.name == "steps, locked: minor-fault"]
    assert outcome.result == "skipped" and "not yet: measured +1" in outcome.why and "stage A" in outcome.why
    met = steps_limits.judge(good_results(), not_yet={"locked: minor-fault": "stage A"})
    assert failures(met) == {"locked: minor-fault"}


def test_what_grows_is_not_judged_on_one_machine_and_may_still_be_named():
    results = good_results()
    results.measured = {key: measured for key, measured in results.measured.items() if key[0] == 2}
    outcomes = steps_limits.judge(results, not_yet={"nodes: minor-fault": "stage A"})
    assert outcomes and not failures(outcomes)
    assert not any(outcome.name.startswith("steps, nodes") for outcome in outcomes)


def test_the_table_of_limits_shows_what_is_not_kept(capsys):
    broken = changed(2, "hydra", "minor-fault", locked=11, instructions=2061)
    steps_report.limits(steps_limits.judge(broken, not_yet={"locked: minor-fault": "stage A"}))
    shown = capsys.readouterr().out
    assert "minor-fault: 1.0305 on 2 nodes (2,061 : 2,000)" in shown and "minor-fault: +1 on 2 nodes" in shown
    assert "2 of 2" not in shown and "0 of 1" not in shown and "3 of 4" in shown


def test_not_yet_names_only_what_there_is():
    assert failures(steps_limits.judge(good_results(), not_yet={"locked: no-such-row": ""})) == {"locked: no-such-row"}


def test_the_list_of_not_yet_names_rows_that_exist():
    rows = {row.name for row in steps.known_rows()}
    names = {limit.name for limit in steps_limits.LIMITS}
    for entry in steps_limits.NOT_YET:
        name, row = entry.split(": ")
        assert name in names and row in rows
    for limit in steps_limits.LIMITS:
        assert rows >= {*limit.only, *limit.by_row}


# --- calibration and cross-check

def test_a_good_instrument_passes():
    assert not failures(steps_limits.calibration(good_results()) + steps_limits.cross_check(good_results()))


@pytest.mark.parametrize("values", [{"instructions": 2023}, {"locked": 8}, {"kernel": 1}, {"remote": 1}, {"pages": 1}])
def test_an_instrument_that_counts_wrong_fails(values):
    assert failures(steps_limits.calibration(changed(2, "hydra", "known", **values))) == {"calibration: hydra on 2 nodes"}


def test_an_instrument_that_misses_allocations_fails():
    assert failures(steps_limits.calibration(changed(16, "off", "fault-in-new-table", pages=1))) == {"calibration: pages on 16 nodes"}


def test_a_clock_that_disagrees_fails():
    results = good_results()
    results.clocks[2, "hydra", "minor-fault", False] = [6, 6, 7, 7, 7]
    (outcome,) = [outcome for outcome in steps_limits.cross_check(results) if outcome.failed]
    assert "hydra, minor-fault: 2 of 5" in outcome.why and "2 nodes" in outcome.name


@pytest.mark.parametrize("row, beyond, agrees", [("minor-fault", 1, False), ("fork-exit-1m", 2, True), ("fork-exit-1m", 3, False)])
def test_a_long_row_may_have_some_instructions_of_other_cpus(row, beyond, agrees):
    results = good_results()
    results.clocks[2, "hydra", row, False] = [6 + beyond] * 9
    assert bool(failures(steps_limits.cross_check(results))) == (not agrees)


def test_only_undisturbed_samples_have_to_agree_with_the_clock():
    samples = [sample(), sample(interrupts=1), sample(waits=2), sample()]
    assert steps_samples.clock_overheads(samples, [2080, 99999, 88888, 2081]) == [6, 7]


# --- what the guest is told, what is shown

def test_hydra_is_not_used_before_unused_is_measured():
    words, count = steps.guest_steps(steps.Plan(access_samples=0), "lab", 2, ROWS)
    assert [line.split()[0] for line in words] == ["plainly", "beside:linux", "beside:hydra", "hydra"]
    assert count == 3 * 6 + 6
    assert "--others threads --cpus 3" in words[-1] and "fork-exit-1m" not in words[-1] and "first-fill" in words[-1]
    assert "first-fill" not in words[0]


def test_one_node_has_no_others():
    words, _ = steps.guest_steps(steps.Plan(), "off", 1, ROWS)
    assert len(words) == 1 and "--others" not in words[0]


def test_remote_lines_are_counted_while_all_nodes_work():
    words, _ = steps.guest_steps(steps.Plan(), "off", 4, ROWS)
    assert [line.split("--others ")[-1] for line in words if line.endswith("--accesses")] == [
        "processes --cpus 3,5,7 --accesses", "threads --cpus 3,5,7 --accesses"]


def test_the_plugin_builds(cache):
    assert programs.steps_plugin().exists()


def test_the_marks_are_the_same_on_both_sides():
    import re
    plugin = (programs.paths.REPO / "lab/meter/plugin_interface.h").read_text(encoding="utf-8")
    header = (programs.paths.REPO / "workloads/markers.h").read_text(encoding="utf-8")
    there = re.search(r"enum mark \{ START = 1, (.*) \};", plugin)[1].split(", ")
    here = re.findall(r"^\tMARK_(\w+),", header, re.M)
    assert there == here


def test_an_unknown_row_is_refused():
    with pytest.raises(LabError, match="no-such-row"):
        steps.chosen_rows(steps.Plan(rows=("no-such-row",)), ROWS)


def test_the_calibration_is_always_measured():
    chosen = steps.chosen_rows(steps.Plan(rows=("minor-fault",)), ROWS)
    assert [row.name for row in chosen] == ["nothing", "known", "minor-fault"]


def test_values_and_tables(tmp_path, capsys):
    results = good_results()
    results.measured[2, "hydra", "minor-fault"].errors["kernel"] = "only 2 of 5 samples agree"
    del results.measured[2, "hydra", "minor-fault"].numbers["kernel"]
    steps_report.tables(results)
    assert "only 2 of 5" in capsys.readouterr().out
    steps_report.write_json(tmp_path / "steps.json", results)
    entries = json.loads((tmp_path / "steps.json").read_text())
    assert {"nodes": 16, "policy": "hydra", "row": "minor-fault", "metric": "instructions", "value": 2000,
            "unit": "instructions", "exact": True, "waits": False, "samples": 9} in entries
    steps_report.picture(tmp_path / "steps.png", results)
    assert (tmp_path / "steps.png").stat().st_size > 1000


def test_functions_that_make_the_difference():
    results = good_results()
    for policy, functions in (("off", {"a": 5, "b": 7}), ("hydra", {"a": 5, "b": 9, "c": 100})):
        results.measured[2, policy, "minor-fault"] = dataclasses.replace(results.measured[2, policy, "minor-fault"], functions=functions)
    assert steps_report.differences(results, 2, "minor-fault", ("hydra", "off")) == [("c", 100), ("b", 2)]


@pytest.mark.parametrize("words", [["--nodes", "3"], ["--samples", "2"], ["--samples", "0"], ["--functions", "0"]])
def test_impossible_plans_are_refused(words):
    with pytest.raises(LabError):
        steps_verbs.plan_of(cli.parser().parse_args(["bench", "steps", *words]))


@pytest.mark.parametrize("words", [["--rows", "x"], ["--samples", "9"], ["--functions"], ["--plot", "x.png"], ["--cross-check"]])
def test_what_is_for_the_meter_is_refused_elsewhere(monkeypatch, words):
    monkeypatch.setattr(verb.measure, "measure", lambda _: pytest.fail("it measured"))
    with pytest.raises(LabError, match=f"{words[0]} is for the measurement 'steps'") as caught:
        cli.dispatch(cli.parser().parse_args(["bench", "munmap", *words]))
    assert caught.value.status == 2


def test_the_meter_is_listed():
    assert "steps" in verb.listing()
