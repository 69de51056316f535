# SPDX-License-Identifier: GPL-2.0-only
"""hydractl explain: what processes do, before Hydra is switched on, and what that means.

A process of the tests is counted by Kernel.counting(), which puts the later counters in place of "count=on".
"""
import errno
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from faked_kernel import HYDRA, OLDER_HYDRA, refuses_changes, refuses_text, under_auto
from faked_terminal import Terminal

SECONDS = 0.5
LINUX = (HYDRA.partition("domain 0")[0].replace("policy hydra", "policy linux").replace("active 1", "active 0").replace("split 1", "split 0")
         .replace("replica_kib 84", "replica_kib 0").replace("upper_tables 6", "upper_tables 0"))
BARRIER = "programs that use mprotect() or munmap() as a memory barrier"
TABLES = """\
domain 0 node 0 local_leaves 900 remote_leaves 100 hinting_leaves 0
domain 1 node 1 local_leaves 0 remote_leaves 0 hinting_leaves 0
node 0 pagetable_kib 300
node 1 pagetable_kib 100
"""


def later(flushes=0, sent=0, across=0, spared=0, fills=0, propagated=0, text=LINUX):
    """The counters have grown by that."""
    return (text.replace("fills 12\n", f"fills {12 + fills}\n", 1).replace("propagated 56", f"propagated {56 + propagated}").replace("count 0", "count 1").replace("flushes 78", f"flushes {78 + flushes}").replace("cpus_interrupted 9", f"cpus_interrupted {9 + sent}")
            .replace("cpus_interrupted_across 8", f"cpus_interrupted_across {8 + across}").replace("cpus_spared 1234", f"cpus_spared {1234 + spared}"))


@pytest.fixture
def two_nodes(kernel):
    kernel.nodes("0-1", "2-3")
    return kernel


def watched(kernel, pid, cpus, text=LINUX, tables=400, ticks=100, **growth):
    """The object of one process that is watched. It uses so many hundredths of a second of CPU time."""
    kernel.process(pid, "server", hydra=text)
    kernel.threads(pid, *cpus, tables=tables)
    with kernel.counting(ticks, **{f"p{pid}": later(text=text, **growth)}):
        got = kernel.json("explain", pid, "--seconds", SECONDS)
    process, = got["processes"]
    assert kernel.text(pid) == "count=off"
    return process


def test_what_is_seen_of_a_process(two_nodes):
    got = watched(two_nodes, 12, [0, 1, 2], flushes=2000, sent=1900, across=1500)
    assert SECONDS <= got["seconds"] < 30
    assert {key: round(got[f"{key}_per_second"] * got["seconds"]) for key in ("flushes", "sent", "across", "spared")} == {
        "flushes": 2000, "sent": 1900, "across": 1500, "spared": 0}
    assert (got["comm"], got["policy"], got["active"], got["ended"], got["threads"], got["spans_nodes"]) == ("server", "linux", False, False, 3, True)
    assert got["nodes"] == [{"node": 0, "threads": 2}, {"node": 1, "threads": 1}]
    assert (got["pagetable_kib"], got["cost_kib"], got["tables"]) == (400, 400 + 2 * 20, None)


MANY = 3000         # of one second of CPU time, that many interrupts take 0.6 %
LARGE = 17 * 1024


@pytest.mark.parametrize("cpus, tables, growth, advice, says", [
    ([0, 2], 400, {"sent": 10 * MANY, "across": 10 * MANY}, "auto", "Use policy auto (hydractl set --policy auto 12): it would split the process within 3 s, and save at most 6 % of its CPU time: the "),
    ([0, 2], 400, {"sent": 10 * MANY, "across": 10 * MANY}, "auto", "100 % of "),
    ([0, 2], 400, {"sent": 40 * MANY, "across": 10 * MANY}, "auto", "stay within a node, which only core domains"),
    ([0, 1], 400, {"sent": 10 * MANY, "across": 10 * MANY}, "auto", "100 % of"),        # the threads have moved meanwhile
    ([0, 2], 400, {"sent": 10 * MANY, "across": 10}, "cores", "Policies auto and hydra would not help"),
    ([0, 1], 400, {"sent": 10 * MANY}, "cores", "hydractl set --policy abis 12, or radixvm) might save some of the others, at most 6 % of its CPU time"),
    ([0, 2], LARGE, {"sent": 20, "across": 10}, "walks", "Few interrupts to save (at most 0.002 % of its CPU time), but threads on several nodes share page tables of 17408 KiB"),
    ([0, 2], 2048, {"sent": 20, "across": 10}, "walks", "hydractl set --policy auto 12, then hydractl why 12."),
    ([0, 2], 2047, {"sent": 20, "across": 10}, "small", "Little to gain: at most 0.002 % of its CPU time, "),
    ([0, 2], 400, {"sent": 20, "across": 10}, "small", "(50 %) at 2000 ns each; policy auto splits from 0.2 % on. To see it tried: hydractl set --policy auto 12, then hydractl why 12."),
    ([0, 2], 400, {"sent": 20}, "quiet", "Nothing to gain: no interrupt went to another node, and page tables of 400 KiB are smaller than 2048 KiB"),
    ([0, 1], LARGE, {"sent": 20}, "one-node", "all threads ran on one node"),
    ([3], LARGE, {}, "one-node", "the process has a single thread"),
    ([3], LARGE, {"sent": 10, "across": 10}, "one-node", "the process has a single thread"),        # it has moved
])
def test_advice_under_linux(two_nodes, cpus, tables, growth, advice, says):
    got = watched(two_nodes, 12, cpus, tables=tables, **growth)
    assert got["advice"] == advice and says in got["sentence"], got
    assert got["cost_kib"] == (0 if advice == "one-node" or cpus == [0, 1] and "across" not in growth else tables + 40)
    assert round(got["saving_ppm"]) == growth.get("across", 0) * 2


@pytest.mark.parametrize("cpus, tables, growth, advice, says", [
    ([0, 2], 400, {"sent": MANY, "spared": 9 * MANY}, "keep", "it saves 5.4 % of its CPU time. It spares "),
    ([0, 2], 400, {"sent": MANY, "spared": 9 * MANY}, "keep", "(90 %), for 108 KiB of page tables of its own"),
    ([0, 2], 400, {"sent": 10 * MANY, "across": 10 * MANY}, "off", "hydractl off 12 gives 108 KiB back, hydractl set --policy auto 12 leaves it to the kernel"),
    ([0, 2], 400, {"sent": 10, "spared": 30}, "off", "Policy hydra does little: it spares "),
    ([0, 2], 400, {"sent": 10, "spared": 30}, "off", "(75 %), and with what page tables of its own cost that saves 0.006 % of its CPU time; policy auto splits from 0.2 % on"),
    ([0, 2], 400, {"sent": 10, "spared": 1000, "fills": 1000}, "off", "Policy hydra costs more than it saves"),
    ([0, 2], LARGE + 108, {"spared": 10}, "walks", "page tables of 17408 KiB on the own node may save more"),
    ([0, 2], 2047 + 108, {"spared": 10}, "off", "Policy hydra does little"),
    ([0, 1], 400, {}, "one-node", "Nothing to gain"),
])
def test_advice_under_a_policy(two_nodes, cpus, tables, growth, advice, says):
    got = watched(two_nodes, 12, cpus, text=HYDRA, tables=tables, **growth)
    assert got["advice"] == advice and says in got["sentence"], got
    assert (got["active"], got["cost_kib"]) == (True, 84 + 4 * 6)


def test_what_a_policy_saves_less_what_it_costs(two_nodes):
    """By the prices: 9,000 interrupts, 1,000 fills, 3,000 flushes; these change an entry of the other node's copy, and 500 more."""
    got = watched(two_nodes, 12, [0, 2], text=HYDRA, spared=9000, fills=1000, flushes=3000, propagated=3500)
    assert round(got["saving_ppm"] / 10) == round((9000 * 2000 - 1000 * 3000 - 3000 * (55 + 250) - 500 * 25) / 1e4)


@pytest.mark.parametrize("prices, ticks, advice", [
    ({}, 100, "small"), ({"price_interrupt": 4000}, 100, "auto"), ({}, 50, "auto"), ({"price_interrupt": 500}, 50, "small"),
])
def test_advice_by_prices_and_cpu_time(two_nodes, prices, ticks, advice):
    """800 interrupts of other nodes: of one second of CPU time, 0.16 %."""
    two_nodes.auto(**prices)
    got = watched(two_nodes, 12, [0, 2], ticks=ticks, sent=800, across=800)
    assert got["advice"] == advice and round(got["saving_ppm"]) == 80 * prices.get("price_interrupt", 2000) // ticks
    assert f"at {prices.get('price_interrupt', 2000)} ns each" in got["sentence"]


def test_when_policy_auto_would_split(two_nodes):
    """400,000 KiB are 100,000 tables: a split and a return cost 0.62 s. For that the process, which uses 2 CPUs, has to run for half a minute."""
    for pid, look_ms in ((12, 1000), (13, 100)):
        shutil.rmtree(two_nodes.hydra / "auto", ignore_errors=True)
        two_nodes.auto(look_ms=look_ms)
        got = watched(two_nodes, pid, [0, 2], tables=400000, sent=30000, across=30000)
        seconds = float(got["sentence"].partition("within ")[2].partition(" s")[0])
        assert abs(seconds - 0.62 / 0.01 / got["cpus"]) <= 1


@pytest.mark.parametrize("name, text", [("price_fill", "0"), ("price_walk", "much"), ("look_ms", "-1"), ("price_root", str(2 ** 32))])
def test_prices_that_make_no_sense(two_nodes, name, text):
    two_nodes.auto(**{name: text})
    two_nodes.process(12, hydra=LINUX)
    two_nodes.threads(12, 0, 2)
    with two_nodes.counting(p12=later(sent=10, across=10)):
        done = two_nodes.run("explain", 12, "--seconds", SECONDS)
    assert done.returncode == 2 and done.stdout == "" and f"cannot make sense of {two_nodes.hydra}/auto/{name} ({text})" in done.stderr


def test_pages_that_would_make_walks_worth_a_split(two_nodes):
    """0.2 % of 4 CPUs, at 75 ns for each page that the other node walks."""
    got = watched(two_nodes, 12, [0, 2], tables=LARGE, ticks=200)
    needed = got["cpus"] * 1e9 / 500 / 75 * 2
    told = float(got["sentence"].partition("several nodes use ")[2].partition(" pages/s")[0])
    assert got["advice"] == "walks" and abs(told - needed) <= 1


def test_a_process_under_auto_is_told_what_the_kernel_has_decided(two_nodes):
    text = under_auto("watched", "quiet", rent_ppm=400)
    got = watched(two_nodes, 12, [0, 2], text=text, sent=10 * MANY, across=10 * MANY)
    assert got["advice"] == "decided" and got["sentence"] == (
        "Policy auto decides by itself: left alone: its flushes and walks across nodes cost 0.04 % of its CPU time; a split is tried from 0.2 %.")
    assert explained(two_nodes, text=text, pid=13)["advice"] == "moved"


UNSPLIT = HYDRA.partition("domain 0")[0].replace("split 1", "split 0")
EAGER = UNSPLIT.replace("policy hydra", "policy mitosis").replace("lazy", "eager").replace("filter table", "filter none")
KEEPS = "would move them there, but not while "


def left(far=1024, remote=500, node=1):
    """/proc/PID/hydra_tables of a process with so much on another node than its own, and so many of 1000 pages behind that."""
    other = 1 - node
    return (f"domain {other} node {other} local_leaves {remote} remote_leaves {1000 - remote} hinting_leaves 0\n"
            f"domain {node} node {node} local_leaves {1000 - remote} remote_leaves {remote} hinting_leaves 0\n"
            f"node {node} pagetable_kib 2000\nnode {other} pagetable_kib {far}\n")


def explained(kernel, cpus=(2, 3), text=LINUX, tables=left(), pte=3100, idle="60\n", locked=0, pid=12, **growth):
    """The object of a process that has moved, with the advice of a group: nothing asks for its tables."""
    if idle:
        (kernel.hydra / "idle_seconds").write_text(idle)
    kernel.process(pid, hydra=text, **({"hydra_tables": tables} if tables else {}))
    kernel.threads(pid, *cpus, tables=pte)
    with open(kernel.proc / str(pid) / "status", "a", encoding="ascii") as status:
        status.write(f"VmLck:\t{locked:8} kB\n")
    with kernel.counting(**{f"p{pid}": later(text=text, **growth)}):
        got, = kernel.json("explain", "--tree", pid, "--seconds", SECONDS)["processes"]
    return got


@pytest.mark.parametrize("case, says", [
    ({}, "The process runs on node 1, but 1024 KiB of its page tables are on other nodes, and it reaches 50 % of its pages through these: hydractl set "
         "--policy auto 12 moves them there, up to 32 MiB every 15 s, and costs nothing while one node runs the process."),
    ({"cpus": [0], "tables": left(1500, 900, node=0)}, "runs on node 0, but 1500 KiB of its page tables are on other nodes, and it reaches 90 % "),
    ({"cpus": [3], "sent": 10, "across": 10, "pte": 1024}, "runs on node 1"),
    ({"text": UNSPLIT, "idle": "50\n"}, "through these: the kernel moves them there, up to 32 MiB every 12.5 s."),
    ({"text": EAGER}, "the kernel does not move them while replication is eager."),
    ({"text": UNSPLIT, "idle": "0\n"}, "the kernel does not move them while /sys/kernel/mm/hydra/idle_seconds is 0"),
    ({"idle": "0\n"}, KEEPS + "/sys/kernel/mm/hydra/idle_seconds is 0 (at boot it is 60)."),
    ({"locked": 4}, KEEPS + "the process has locked memory."),
    ({"text": LINUX.replace("lazy", "eager")}, "hydractl set --policy auto 12 moves them there"),
])
def test_a_process_that_left_its_page_tables(two_nodes, case, says):
    got = explained(two_nodes, **case)
    assert got["advice"] == "moved" and says in got["sentence"], got
    assert sum(node["pagetable_kib"] for node in got["tables"]["per_node"]) > 3000


@pytest.mark.parametrize("case, looked", [
    ({"tables": left(remote=499)}, True), ({"tables": left(far=1023)}, True), ({"tables": left(remote=900, node=0)}, True),
    ({"tables": left(remote=0)}, True), ({"tables": left().replace("500", "0")}, True), ({"idle": None}, True),
    ({"tables": None}, False), ({"tables": "what?\n"}, False), ({"pte": 1023}, False), ({"text": HYDRA}, False),
])
def test_a_process_that_has_page_tables_near_or_few(two_nodes, case, looked):
    """Or of which nothing is known; and no look costs anything where a look at other files tells so."""
    got = explained(two_nodes, **case)
    assert (got["advice"], bool(got["tables"])) == ("one-node", looked) and got["sentence"].startswith("Nothing to gain: all threads ran on one node")


@pytest.mark.parametrize("case, advice", [({"sent": 10 * MANY}, "cores"), ({"sent": 10 * MANY, "across": 10 * MANY}, "auto"), ({"cpus": [0, 2], "pte": 2000}, "quiet")])
def test_other_advice_comes_first(two_nodes, case, advice):
    assert explained(two_nodes, **case)["advice"] == advice


def test_a_single_thread_is_where_it_ran_last(two_nodes):
    (two_nodes.hydra / "idle_seconds").write_text("60\n")
    two_nodes.process(12, hydra=LINUX, hydra_tables=left(), hydra_vm="vm 0\n")
    two_nodes.threads(12, 0, tables=3100)
    with two_nodes.counting(p12=later()), subprocess.Popen(
            [two_nodes.program, "explain", "--seconds", "1", "--all"], env=two_nodes.environment(), stdout=subprocess.PIPE, text=True) as child:
        time.sleep(0.4)
        two_nodes.threads(12, 2, tables=3100)
        out, _ = child.communicate(timeout=30)
    row, = [line.split() for line in out.splitlines() if line.startswith("     12")]
    assert (row[4], row[-1]) == ("0-1", "moved") and "runs on node 1" in out and KEEPS + "the process has a virtual machine." in out
    assert "CPUs of node 1 reach 50.0 % of the pages" in out


def test_the_text_for_one_process(two_nodes):
    two_nodes.process(12, b"evil\033[31m", hydra=LINUX, hydra_tables=TABLES)
    two_nodes.threads(12, 0, 1, 2)
    with two_nodes.counting(p12=later(flushes=100, sent=20 * MANY, across=15 * MANY)):
        done = two_nodes.run("explain", 12, "--seconds", SECONDS)
    assert done.returncode == 0 and done.stderr == "" and "\033" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("process 12 (evil\\033[31m), policy linux, watched for ")
    # The advice comes first.
    assert lines[1] == "" and lines[2].startswith("Use policy auto (hydractl set --policy auto 12)")
    assert any(line.endswith("(75.0 %)") for line in lines) and {"  3 threads", "  2 of them ran last on node 0", "  1 of them ran last on node 1", "  400 KiB of page tables"} <= set(lines)
    assert "  440 KiB more at most with Hydra: (nodes - 1) x page tables + nodes x 20 KiB" in lines
    assert {"  page tables on node 0: 300 KiB", "  CPUs of node 0 reach 90.0 % of the pages through page tables of their node"} <= set(lines)
    assert not any("CPUs of node 1" in line for line in lines)
    assert BARRIER in lines[-1]


@pytest.fixture
def family(two_nodes):
    """1 began 12, which began 13 and 14; 14 is counted already; 2 is a kernel thread."""
    two_nodes.process(2, "kthreadd", parent=0, hydra="")
    for pid, parent, text in ((12, 1, LINUX), (13, 12, LINUX), (14, 12, later()), (20, 1, LINUX)):
        two_nodes.process(pid, f"p{pid}", parent=parent, hydra=text)
        two_nodes.threads(pid, 0, 2)
    return two_nodes


GROWN = {"p12": later(flushes=10, sent=MANY, across=100), "p13": later(flushes=30, sent=20 * MANY, across=20 * MANY), "p20": later()}


@pytest.mark.parametrize("arguments, pids", [(["--tree", 12], {12, 13, 14}), (["--all"], {12, 13, 14, 20}), (["--system"], {12, 13, 14, 20}), (["--unit", "web"], {13, 20})])
def test_groups(family, arguments, pids):
    family.cgroup("/system.slice/web.service", 13, 20)
    with family.counting(**GROWN):
        got = family.json("explain", *arguments, "--seconds", SECONDS)
    assert {process["pid"] for process in got["processes"]} == pids and got["group"] == arguments[0].strip("-").replace("all", "system")
    assert got["processes"][0]["pid"] == 13         # most to other nodes
    assert {process["pid"]: process["advice"] for process in got["processes"]}[13] == "auto"
    # Exactly those that were watched, and were not counted before.
    assert {pid for pid in (12, 13, 14, 20) if family.text(pid) == "count=off"} == pids - {14}
    assert family.text(14) == later()


def test_hydractl_does_not_watch_itself(family):
    with family.counting(**GROWN):
        done = family.run("explain", "--all", "--json", "--seconds", SECONDS, preexec_fn=family.own(LINUX))
    assert {process["comm"] for process in json.loads(done.stdout)["processes"]} == {"p12", "p13", "p14", "p20"}


def test_the_table(family):
    with family.counting(**GROWN):
        done = family.run("explain", "--all", "--seconds", SECONDS)
    assert done.returncode == 0 and done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == "PID COMMAND POLICY THREADS NODES FLUSH/S SENT/S ACROSS/S SAVES TABLE-KIB COST-KIB ADVICE".split()
    assert [(line[0], line[1], line[4], line[-1]) for line in lines[1:3]] == [("13", "p13", "0-1", "auto"), ("12", "p12", "0-1", "cores")]
    assert [line[8] for line in lines[1:3]] == ["12%", "0.02%"]
    assert lines[3] == "and 2 processes without a TLB flush, and with nothing to gain".split()
    assert "13 (p13): Use policy auto (hydractl set --policy auto 13)" in done.stdout and done.stdout.count(BARRIER) == 1


def test_page_tables_of_several_processes_only_if_asked_for(family):
    for pid in (12, 13):
        (family.proc / str(pid) / "hydra_tables").write_text(TABLES)
    for more, told in (([], 0), (["--tables"], 2)):
        for pid in (12, 13):
            (family.proc / str(pid) / "hydra").write_text(LINUX)
        with family.counting(**GROWN):
            got = family.json("explain", "--tree", 12, "--seconds", SECONDS, *more)
        tables = [process["tables"] for process in got["processes"] if process["tables"]]
        assert len(tables) == told and all(table["per_node"][0] == {"node": 0, "pagetable_kib": 300} for table in tables)


def test_what_a_watched_process_has_started_is_no_longer_counted(family):
    """Children inherit. Counting of older processes, and of those that others started, is not hydractl's to end."""
    with open("/proc/self/stat", encoding="ascii") as file:
        new = int(file.read().rpartition(")")[2].split()[19]) + 10 ** 9
    with family.counting(**GROWN), subprocess.Popen(
            [family.program, "explain", "--seconds", "1", "--tree", "12"], env=family.environment(), stdout=subprocess.PIPE, text=True) as child:
        time.sleep(0.4)
        for pid, parent, start in ((30, 13, new), (31, 30, new), (32, 13, 1), (33, 14, new), (34, 1, new)):
            directory = family.process(pid, hydra=later())
            (directory / "stat").write_text(f"{pid} (x) S {parent}" + 17 * " 1" + f" {start} 1\n")
        child.communicate(timeout=30)
    assert child.returncode == 0
    assert [pid for pid in (12, 13, 14, 20, 30, 31, 32, 33, 34) if family.text(pid) == "count=off"] == [12, 13, 30, 31]


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 0), (signal.SIGTERM, -15), (signal.SIGHUP, -1)])
def test_a_signal_ends_the_watch_and_the_counting(family, number, status):
    with family.counting(**GROWN), subprocess.Popen(
            [family.program, "explain", "--json", "--seconds", "60", "--all"], env=family.environment(), stdout=subprocess.PIPE, text=True) as child:
        for _ in range(100):
            if "count 1" in family.text(20):
                break
            time.sleep(0.05)
        time.sleep(0.2)
        child.send_signal(number)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == status and [family.text(pid) for pid in (12, 13, 20)] == 3 * ["count=off"] and family.text(14) == later()
    assert (out == "") == bool(status)
    if not status:
        assert len(json.loads(out)["processes"]) == 4


def test_a_signal_that_is_ignored_stays_so(family):
    with family.counting(**GROWN), subprocess.Popen(
            [family.program, "explain", "--json", "--seconds", "1", "--all"], env=family.environment(), stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as child:
        time.sleep(0.5)
        child.send_signal(signal.SIGHUP)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 0 and min(process["seconds"] for process in json.loads(out)["processes"]) >= 1


def test_an_error_ends_the_counting(family):
    """The kernel refuses the last process of the list with what means that it cannot count at all."""
    (family.proc / "20" / "hydra").write_text(OLDER_HYDRA)
    done = family.run("explain", "--all", "--seconds", SECONDS)
    assert done.returncode == 2 and "older than hydractl" in done.stderr and done.stdout == ""
    assert [family.text(pid) for pid in (12, 13)] == 2 * ["count=off"]


# What goes meanwhile

def goes(kernel, gone, *arguments, status=0):
    with kernel.counting(**GROWN), subprocess.Popen(
            [kernel.program, "explain", *map(str, arguments), "--seconds", "1"], env=kernel.environment(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True) as child:
        time.sleep(0.4)
        for pid in gone:
            kernel.end(pid)
        out, err = child.communicate(timeout=30)
    assert child.returncode == status, err
    return out, err


def test_a_process_that_ends_is_reported(family):
    out, err = goes(family, [12], "--tree", 12)
    assert "process 12 (p12) has ended while it was watched\n" in out and err == "" and out.splitlines()[1].split()[0] == "13"
    (family.proc / "13" / "hydra").write_text(LINUX)
    out, _ = goes(family, [20], "--all", "--json")
    assert {process["pid"]: process["ended"] for process in json.loads(out)["processes"]} == {13: False, 14: False, 20: True}


@pytest.mark.parametrize("arguments", [[12], ["--tree", 12], ["--all"]])
def test_all_have_ended(family, arguments):
    out, err = goes(family, [12, 13, 14, 20], *arguments, status=3)
    assert out == "" and err == "hydractl: all processes have ended while they were watched: nothing is left to explain\n"


def test_the_cgroup_has_gone(family):
    directory = family.cgroup("/work", 13)
    with family.counting(**GROWN), subprocess.Popen([family.program, "explain", "--seconds", "1", "--cgroup", "/work"], env=family.environment(),
                                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        time.sleep(0.4)
        family.end(13)
        (directory / "cgroup.procs").unlink()
        directory.rmdir()
        out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (3, "") and f"cgroup /work has gone ({directory} was removed)" in err


def test_another_process_with_the_pid_is_left_alone(family):
    with family.counting(p13=later()), subprocess.Popen([family.program, "explain", "--seconds", "1", "13"], env=family.environment(),
                                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        time.sleep(0.4)
        family.end(13)
        (family.process(13, hydra=LINUX) / "stat").write_text("13 (x) S 1" + 17 * " 1" + f" {10 ** 12} 1\n")
        child.communicate(timeout=30)
    assert child.returncode == 3 and family.text(13) == LINUX


# What cannot be watched

@pytest.mark.parametrize("hydra, refusal, message", [
    (OLDER_HYDRA, None, "this kernel's Hydra is older than hydractl, and cannot count processes under policy linux"),
    (LINUX, refuses_text("count=on", errno.EINVAL), "this kernel's Hydra is older than hydractl, and cannot count processes under policy linux"),
    (LINUX, refuses_text("count=on", errno.EOPNOTSUPP), "Hydra cannot work on this machine (no: Xen PV guest)"),
    (LINUX, refuses_changes(errno.EPERM), "not permitted to count process 12: be its owner or root"),
    (LINUX, refuses_text("count=on", errno.ENOMEM), "cannot count process 12: Cannot allocate memory"),
])
def test_a_process_that_cannot_be_counted(two_nodes, hydra, refusal, message):
    (two_nodes.hydra / "supported").write_text("no: Xen PV guest\n")
    two_nodes.process(12, hydra=hydra)
    done = two_nodes.run("explain", 12, "--seconds", SECONDS, **({"preexec_fn": refusal} if refusal else {}))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"hydractl: {message}\n")


def test_processes_that_cannot_be_counted_are_left_out(family):
    done = family.run("explain", "--all", "--seconds", SECONDS, preexec_fn=refuses_changes(errno.EACCES))
    assert done.returncode == 0 and done.stderr == "hydractl: 3 processes left out: not permitted to read (be root)\n"
    done = family.run("explain", "--tree", 13, "--seconds", SECONDS, preexec_fn=refuses_changes(errno.EACCES))
    assert done.returncode == 2 and done.stderr.endswith("hydractl: no process can be counted\n")
    (family.proc / "20" / "hydra").write_text("policy linux\n")
    assert family.json("explain", "--all", "--seconds", SECONDS)["not_understood"] == 1


@pytest.mark.parametrize("arguments, message", [
    ([], "no process named: give a PID, --tree, --cgroup, --unit or --all"), (["12", "--all"], "give a PID or --system, not both"),
    (["12", "--seconds", "0"], "time '0' is not a number of seconds from 0.1 to 86400"), (["4242"], "no process 4242"),
    (["--tree", "4242"], "no process 4242"), (["--unit", "nginx"], "no unit nginx.service runs"), (["2"], "process 2 has no user memory"),
    (["12", "13"], "one PID only"), (["x"], "'x' is not a PID"),
])
def test_wrong_usage_of_explain(family, arguments, message):
    family.cgroup("/")
    done = family.run("explain", *arguments)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


# On a terminal

@pytest.mark.parametrize("columns", [20, 80])
@pytest.mark.parametrize("arguments", [["13"], ["--all"]])
def test_a_terminal_of_any_width(family, columns, arguments):
    """No line is wider, and the progress leaves nothing behind."""
    with family.counting(**GROWN):
        terminal = Terminal([family.program, "explain", "--seconds", "1.5", *arguments], family.environment(), columns=columns, lines=200)
        shown = terminal.until("s left")
        assert len(shown.rstrip().splitlines()) == 1
        terminal.read()
        assert terminal.end() == 0
        written = terminal.written.decode().rpartition("\r" + (columns - 1) * " " + "\r")[2].replace("\r", "")
    terminal.close()
    assert all(len(line) <= columns for line in written.splitlines()), written
    words = " ".join(written.split())
    assert BARRIER in words and "Use policy auto" in words and ("ADVICE" in words) == (arguments == ["--all"])
    if arguments == ["--all"]:
        head, row = written.splitlines()[:2]
        assert row.split()[0] == "13" and row.split()[-1] == "auto" and ("COMMAND" in head) == (columns == 80)


def test_the_progress_is_for_terminals_only(family):
    with family.counting(**GROWN):
        done = family.run("explain", 13, "--seconds", SECONDS)
    assert "left" not in done.stdout + done.stderr and os.path.exists(family.program)


def test_a_process_that_is_not_split_yet(two_nodes):
    """Nothing of what it counts tells what the policy will do."""
    late = HYDRA.partition("domain 0")[0].replace("split 1", "split 0")
    got = watched(two_nodes, 12, [0, 2], text=late, sent=10)
    assert (got["advice"], got["split_state"]) == ("not-split", "asleep")
    assert got["sentence"].startswith("Policy hydra does nothing yet: the process is not split yet: threads ran last in several domains")
    assert watched(two_nodes, 13, [0, 1], text=late, sent=10)["advice"] == "one-node"


def test_no_header_without_a_row(two_nodes):
    for pid in (12, 13):
        two_nodes.process(pid, hydra=LINUX)
        two_nodes.threads(pid, 0, 2)
    with two_nodes.counting(p12=later(), p13=later()):
        lines = two_nodes.run("explain", "--all", "--seconds", SECONDS).stdout.splitlines()
    assert lines[0] == "2 processes without a TLB flush, and with nothing to gain"
