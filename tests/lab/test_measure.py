# SPDX-License-Identifier: GPL-2.0-only
"""Measuring: reading what the kernel and wrk say, collecting values, their published form, and the limits."""
import json

import pytest

from lab.errors import LabError
from lab.guest import guest_measure
from lab.machine import vm
from lab.measure import demo_lines, limits, measure, report, values as measured
from lab.policies import POLICIES

ROWS = {"mprotect", "munmap", "apache", "locality"}
CASES = {"quiet", "all-cpus", "one-node", "remote-spinners", "remote-and-local-spinners", "shared", "private"}
METRICS = {"interrupts_per_op", "us_per_op", "interrupts_per_request", "requests_per_s", "local_leaf_share", "pagetable_kib"}

INTERRUPTS = """\
            CPU0       CPU1       CPU2
   1:          9          0          0   IO-APIC   1-edge      i8042
 LOC:       1234       5678       9012   Local timer interrupts
 TLB:         10          0         32   TLB shootdowns
ERR:          0
"""

WRK = """\
Running 4s test @ http://127.0.0.1:8080/page.html
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    56.84ms   33.15ms 191.16ms   69.17%
    Req/Sec   142.55     42.32   277.00     66.23%
  1147 requests in 4.03s, 18.15MB read
Requests/sec:    284.44
Transfer/sec:      4.50MB
"""


def good_values():
    """Values that keep every limit."""
    made = []

    def put(row, case, metric, *by_policy):
        for policy, value in zip(POLICIES, by_policy):
            made.append({"row": row, "case": case, "policy": policy, "metric": metric, "value": value, "unit": ""})
    # By policy: Linux, Mitosis, RadixVM, ABIS, Hydra.
    for row in ("mprotect", "munmap"):
        put(row, "quiet", "interrupts_per_op", 0, 0, 0, 0, 0)
        put(row, "quiet", "us_per_op", 300, 310, 330, 320, 310)
        put(row, "remote-spinners", "interrupts_per_op", 14, 13.9, 0, 0.01, 0.001)
        put(row, "remote-spinners", "us_per_op", 95000, 96000, 450, 430, 400)
        put(row, "remote-and-local-spinners", "interrupts_per_op", 15, 15, 0, 0, 1)
        put(row, "remote-and-local-spinners", "us_per_op", 99000, 99000, 500, 500, 900)
        for case in ("quiet", "remote-spinners", "remote-and-local-spinners"):
            put(row, case, "domains_without_tables", 0, 0, 0, 0, 0)
    put("apache", "quiet", "interrupts_per_request", 1.2, 1.2, 0.1, 0.1, 0.1)
    put("apache", "quiet", "requests_per_s", 200, 190, 210, 220, 230)
    put("apache", "all-cpus", "interrupts_per_request", 1.2, 1.3, 0.2, 0.1, 0.6)
    put("apache", "all-cpus", "requests_per_s", 200, 190, 200, 210, 210)
    put("apache", "one-node", "interrupts_per_request", 0.1, 0.1, 0, 0, 0.1)
    put("apache", "one-node", "requests_per_s", 200, 200, 190, 190, 200)
    for case in ("shared", "private"):
        put("locality", case, "local_leaf_share", 0.2, 1.0, 1.0, 1.0, 1.0)
    # As ./hydra bench locality has counted them in one boot.
    put("locality", "shared", "pagetable_kib", 572, 2360, 2288, 2268, 2288)
    put("locality", "shared", "pagetable_kib_before", 60, 292, 212, 212, 212)
    put("locality", "private", "pagetable_kib", 2116, 8504, 2296, 2284, 2288)
    put("locality", "private", "pagetable_kib_before", 64, 292, 228, 220, 212)
    put("locality", "quiet", "us_per_op", 20, 20, 21, 21, 21)
    return made


def changed(row, case, policy, metric, value):
    """The good values with one of them replaced."""
    values = good_values()
    wanted = {"row": row, "case": case, "policy": policy, "metric": metric}
    (entry,) = [entry for entry in values if wanted.items() <= entry.items()]
    entry["value"] = value
    return values


def test_shootdowns_are_the_tlb_line():
    assert guest_measure.shootdown_interrupts(INTERRUPTS) == 42


def test_a_kernel_without_the_line_fails():
    with pytest.raises(guest_measure.Failure, match="no TLB line"):
        guest_measure.shootdown_interrupts("LOC: 1 2 Local timer interrupts\n")


def test_wrk_is_read():
    assert guest_measure.wrk_result(WRK) == (1147, 284.44)


@pytest.mark.parametrize("bad", ["", WRK.replace("1147", "0"), WRK + "  Non-2xx or 3xx responses: 3\n",
                                 WRK + "  Socket errors: connect 0, read 2, write 0, timeout 0\n"])
def test_wrk_that_missed_pages_fails(bad):
    with pytest.raises(guest_measure.Failure):
        guest_measure.wrk_result(bad)


def test_cpu_lists():
    assert guest_measure.cpu_set("0-1,4\n") == {0, 1, 4}
    assert guest_measure.cpu_set("\n") == set()


class Bar:
    def __init__(self):
        self.notes = []

    def advance(self, _steps, note):
        self.notes.append(note)


def test_the_collector_takes_any_pieces(capsys):
    bar, value = Bar(), good_values()[0]
    collector = measure.Collector(bar)
    stream = b'{"doing": "first"}\r\nstray words\n' + json.dumps(value).encode() + b"\n"
    for start in range(0, len(stream), 7):
        collector.feed(stream[start:start + 7])
    assert collector.values == [value] and bar.notes == ["first"]
    assert "stray words" in capsys.readouterr().err


@pytest.mark.parametrize("spoilt, boots, fails", [(0, 1, False), (1, 2, False), (2, 2, True)])
def test_a_machine_that_the_emulator_spoilt_is_booted_once_more(monkeypatch, tmp_path, spoilt, boots, fails):
    value, made = good_values()[0], []

    def run(*_, on_output, **__):
        made.append(1)
        on_output(json.dumps(value).encode() + b"\n")
        (tmp_path / "console.log").write_text("spoilt" if len(made) <= spoilt else "")
        return vm.Result(70 if len(made) <= spoilt else 0, "", tmp_path)
    monkeypatch.setattr(measure.vm, "run", run)
    monkeypatch.setattr(measure.console, "spoilt", lambda log: log)
    monkeypatch.setattr(measure.programs, "hydractl", lambda: tmp_path)
    monkeypatch.setattr(measure.programs, "workloads", lambda: tmp_path)
    if fails:
        with pytest.raises(LabError):
            measure.take(["mprotect"], Bar(), tmp_path)
    else:
        assert measure.take(["mprotect"], Bar(), tmp_path) == [value]
    assert len(made) == boots


def test_medians_of_several_runs():
    runs = [dict(row="apache", case="quiet", policy="hydra", metric="requests_per_s", value=value, unit="requests/s")
            for value in (1, 100, 3, 2, 4)]
    assert measure.medians(runs) == [dict(runs[0], value=3)]


def test_the_published_list_has_the_agreed_form(tmp_path):
    measured.write_json(tmp_path / "demo.json", measure.published(good_values()))
    entries = json.loads((tmp_path / "demo.json").read_text())
    assert {entry["row"] for entry in entries} == ROWS
    assert {entry["case"] for entry in entries} == CASES
    assert {entry["policy"] for entry in entries} == set(POLICIES) == {"linux", "mitosis", "radixvm", "abis", "hydra"}
    assert {entry["metric"] for entry in entries} == METRICS
    for entry in entries:
        assert set(entry) == {"row", "case", "policy", "metric", "value", "unit"}
        assert isinstance(entry["value"], (int, float))
    keys = [(entry["row"], entry["case"], entry["policy"], entry["metric"]) for entry in entries]
    assert len(keys) == len(set(keys))


def test_every_row_of_the_demo_is_a_bench():
    assert set(measure.ROWS) == ROWS and all(measure.steps(row) >= 5 for row in ROWS)


def test_good_values_keep_every_limit():
    checks = limits.check(good_values())
    assert len(checks) == 47 and all(check.passed for check in checks)
    assert {check.row for check in checks} == ROWS


LOOPS = ("mprotect", "munmap")


@pytest.mark.parametrize("row, case, policy, metric, value", [
    *((row, "remote-spinners", *wrong) for row in LOOPS for wrong in (
        ("linux", "interrupts_per_op", 12.55), ("mitosis", "interrupts_per_op", 12.0), ("mitosis", "interrupts_per_op", 16.0),
        ("radixvm", "interrupts_per_op", 1.0), ("abis", "interrupts_per_op", 0.06), ("hydra", "interrupts_per_op", 0.06),
        ("hydra", "interrupts_per_op", 14.0), ("hydra", "us_per_op", 2400))),
    *((row, "remote-and-local-spinners", *wrong, "interrupts_per_op", value) for row in LOOPS for *wrong, value in (
        ("mitosis", 13.0), ("radixvm", 1.0), ("abis", 1.0), ("hydra", 0.2), ("hydra", 2.0))),
    *((row, case, policy, "domains_without_tables", 1) for row in LOOPS for case in ("remote-spinners", "remote-and-local-spinners")
      for policy in POLICIES),
    ("apache", "quiet", "hydra", "interrupts_per_request", 0.3),
    ("apache", "quiet", "linux", "interrupts_per_request", 0),
    ("apache", "quiet", "hydra", "requests_per_s", 199),
    ("apache", "all-cpus", "abis", "interrupts_per_request", 0.121),
    *(("locality", case, policy, "local_leaf_share", 0.999) for case in ("shared", "private") for policy in POLICIES[1:]),
    *(("locality", "shared", policy, "pagetable_kib", wrong) for policy in POLICIES[1:] for wrong in (2000, 2600)),
    *(("locality", "private", policy, "pagetable_kib", wrong) for policy in POLICIES[1:] for wrong in (2100, 2400)),
])
def test_a_bad_value_breaks_exactly_one_limit(row, case, policy, metric, value):
    failed = [check for check in limits.check(changed(row, case, policy, metric, value)) if not check.passed]
    assert [check.row for check in failed] == [row]


@pytest.mark.parametrize("row, case, metric, value", [
    ("apache", "all-cpus", "interrupts_per_request", 0.601), ("mprotect", "quiet", "us_per_op", 316), ("munmap", "quiet", "us_per_op", 316), ("apache", "one-node", "requests_per_s", 190),
    ("locality", "quiet", "us_per_op", 21.1)])
def test_what_the_emulator_decides_is_reported_and_not_asserted(row, case, metric, value, capsys):
    checks = limits.check(changed(row, case, "hydra", metric, value))
    assert [check.row for check in checks if not check.passed] == [row]
    assert report.verdicts(checks) == 0
    assert "above" in capsys.readouterr().out


def test_hydra_has_fewer_interrupts_than_linux_also_on_all_cpus():
    checks = limits.check(changed("apache", "all-cpus", "hydra", "interrupts_per_request", 0.841))
    assert [check.asserted for check in checks if not check.passed] == [True, False]


@pytest.mark.parametrize("row", sorted(ROWS))
def test_a_row_that_was_not_measured_fails(row):
    checks = limits.check([entry for entry in good_values() if entry["row"] != row])
    assert [check.row for check in checks if not check.passed] == [row]


def line(row, case, metric):
    (found,) = [line for line in demo_lines.LINES if (line.row, line.case, line.metric) == (row, case, metric)]
    return found


@pytest.mark.parametrize("change, row, case, metric, said", [
    ((), "mprotect", "remote-spinners", "interrupts_per_op", "Fewest: RadixVM and Hydra."),       # 0, 0.001; ABIS: 0.01
    ((), "munmap", "remote-and-local-spinners", "interrupts_per_op", "Fewest: RadixVM and ABIS."),
    (("munmap", "remote-and-local-spinners", "hydra", "interrupts_per_op", 0), "munmap", "remote-and-local-spinners",
     "interrupts_per_op", "Fewest: RadixVM, ABIS and Hydra."),
    ((), "apache", "all-cpus", "interrupts_per_request", "Fewest: ABIS."),
    (("apache", "all-cpus", "radixvm", "interrupts_per_request", 0.11), "apache", "all-cpus", "interrupts_per_request",
     "Fewest: RadixVM and ABIS (within 10 %)."),
    ((), "locality", "shared", "local_leaf_share", "Most: Mitosis, RadixVM, ABIS and Hydra."),
    ((), "locality", "private", "pagetable_kib", "Fewest: Linux."),
    ((), "mprotect", "remote-spinners", "us_per_op", ""),         # the words of the line say that no column wins
])
def test_the_winners_come_from_the_values(change, row, case, metric, said):
    values = measured.Values(changed(*change) if change else good_values())
    assert measured.verdict(values, line(row, case, metric)) == said


@pytest.mark.parametrize("nodes", [2, 8])
def test_each_row_says_which_column_wins_or_why_none_does(nodes):
    shown = demo_lines.lines(nodes, nodes)
    for entry in shown:
        assert entry.words.startswith("No column wins: ") == (not entry.better), entry.title
        assert entry.words.endswith(".") and len(entry.words.split()) >= 8, f"not a full sentence: {entry.words}"
    values = measured.Values(good_values())
    assert all(entry.words.startswith("No column wins") != bool(measured.verdict(values, entry)) for entry in shown)


def test_where_all_are_the_same_no_column_wins(capsys):
    entries = [dict(entry, value=14) if (entry["row"], entry["case"], entry["metric"]) == ("mprotect", "remote-spinners", "interrupts_per_op")
               else entry for entry in good_values()]
    assert measured.verdict(measured.Values(entries), line("mprotect", "remote-spinners", "interrupts_per_op")) == "No difference."
    report.table("title", [line("mprotect", "remote-spinners", "interrupts_per_op")], entries)
    assert "14.00 *" not in capsys.readouterr().out


def test_interrupts_and_local_walks_come_first():
    order = ["interrupts_per_op", "interrupts_per_request", "local_leaf_share", "pagetable_kib", "us_per_op"]
    places = [order.index(line.metric) if line.metric in order else len(order) - 1 for line in demo_lines.LINES]
    assert places == sorted(places)


def test_times_are_shown_as_an_emulators_ratios_only(capsys):
    report.table("title", demo_lines.LINES, good_values())
    report.verdicts(limits.check(good_values()))
    shown = capsys.readouterr().out
    assert "faster" not in shown and "µs" not in shown and "95,000" not in shown and "95000" not in shown
    for entry in demo_lines.LINES:
        assert (entry.metric in measured.EMULATED) == ("an emulator's" in entry.title) and (not entry.better or entry.metric not in measured.EMULATED)


def test_where_the_web_servers_threads_and_their_load_are():
    nodes = [{0, 1}, {2, 3}]
    assert guest_measure.one_cpu_of_each_node(nodes) == ({0, 2}, [0, 2], {1, 3})
    assert guest_measure.all_cpus(nodes) == ({0, 1, 2, 3}, [0, 1, 2, 3], {0, 1, 2, 3})
    assert guest_measure.first_node(nodes) == ({0, 1}, [], {2, 3})


def test_table_and_picture(tmp_path, capsys):
    report.table("title", demo_lines.LINES, good_values())
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("Linux", "Mitosis", "RadixVM", "ABIS", "Hydra")) and "nofilter" not in shown
    assert "14.00" in shown and "0.00 *" in shown and "100.0 % *" in shown
    report.picture(tmp_path / "demo.png", "title", demo_lines.LINES, good_values())
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_every_value_that_is_published_has_a_line():
    shown = {(line.row, line.case, line.metric) for line in demo_lines.LINES}
    made = {(entry["row"], entry["case"], entry["metric"]) for entry in measure.published(good_values())}
    # Where no other thread runs there is nothing to interrupt.
    assert made - shown == {("mprotect", "quiet", "interrupts_per_op"), ("munmap", "quiet", "interrupts_per_op"),
                            ("mprotect", "remote-and-local-spinners", "us_per_op"), ("munmap", "remote-and-local-spinners", "us_per_op")}
    assert shown <= made


def test_verdicts_count_the_failures(capsys):
    assert report.verdicts(limits.check(good_values())) == 0
    assert report.verdicts(limits.check(changed("apache", "quiet", "hydra", "requests_per_s", 1))) == 1
    assert "FAIL" in capsys.readouterr().out
