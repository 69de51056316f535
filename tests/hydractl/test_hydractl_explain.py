# SPDX-License-Identifier: GPL-2.0-only
"""hydractl explain: what processes do, before Hydra is switched on, and what that means.

A process of the tests is counted by Kernel.counting(), which puts the later counters in place of "count=on".
"""
import errno
import json
import os
import signal
import subprocess
import time

import pytest

from faked_kernel import HYDRA, OLDER_HYDRA, refuses_changes, refuses_text
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


def later(flushes=0, sent=0, across=0, spared=0, text=LINUX):
    """The counters have grown by that."""
    return (text.replace("count 0", "count 1").replace("flushes 78", f"flushes {78 + flushes}").replace("cpus_interrupted 9", f"cpus_interrupted {9 + sent}")
            .replace("cpus_interrupted_across 8", f"cpus_interrupted_across {8 + across}").replace("cpus_spared 1234", f"cpus_spared {1234 + spared}"))


@pytest.fixture
def two_nodes(kernel):
    kernel.nodes("0-1", "2-3")
    return kernel


def watched(kernel, pid, cpus, text=LINUX, tables=400, **growth):
    """The object of one process that is watched."""
    kernel.process(pid, "server", hydra=text)
    kernel.threads(pid, *cpus, tables=tables)
    with kernel.counting(**{f"p{pid}": later(text=text, **growth)}):
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


MANY = 3000         # more than 1000 per second in the half second, also on a slow host
LARGE = 17 * 1024


@pytest.mark.parametrize("cpus, tables, growth, advice, says", [
    ([0, 2], 400, {"sent": 10 * MANY, "across": 10 * MANY}, "hydra", "hydractl set --policy hydra 12"),
    ([0, 2], 400, {"sent": 40 * MANY, "across": 10 * MANY}, "hydra", "stay within a node, which only core domains"),
    ([0, 1], 400, {"sent": 10 * MANY, "across": 10 * MANY}, "hydra", "100 % of"),        # the threads have moved meanwhile
    ([0, 2], 400, {"sent": 10 * MANY, "across": 10}, "cores", "Policy hydra would not help"),
    ([0, 1], 400, {"sent": 10 * MANY}, "cores", "hydractl set --policy abis 12"),
    ([0, 2], LARGE, {"sent": 20, "across": 10}, "walks", "may read up to 17 MiB of them on another node"),
    ([0, 2], 400, {"sent": 20, "across": 10}, "quiet", "saved (50 %), which is fewer than 1000, and page tables of 400 KiB are smaller than 16384 KiB"),
    ([0, 2], 400, {"sent": 20, "across": 10}, "quiet", "Little to gain: at most "),
    ([0, 2], 400, {"sent": 20}, "quiet", "Nothing to gain: at most 0.0 of "),
    ([0, 1], LARGE, {"sent": 20}, "one-node", "all threads ran on one node"),
    ([3], LARGE, {}, "one-node", "the process has a single thread"),
    ([3], LARGE, {"sent": 10, "across": 10}, "one-node", "the process has a single thread"),        # it has moved
])
def test_advice_under_linux(two_nodes, cpus, tables, growth, advice, says):
    got = watched(two_nodes, 12, cpus, tables=tables, **growth)
    assert got["advice"] == advice and says in got["sentence"], got
    assert got["cost_kib"] == (0 if advice == "one-node" or cpus == [0, 1] and "across" not in growth else tables + 40)


@pytest.mark.parametrize("cpus, tables, growth, advice, says", [
    ([0, 2], 400, {"sent": MANY, "spared": 9 * MANY}, "keep", "(90 %), for 108 KiB of Hydra's tables"),
    ([0, 2], 400, {"sent": 10 * MANY, "across": 10 * MANY}, "off", "hydractl off 12 gives 108 KiB back"),
    ([0, 2], 400, {"sent": 10, "spared": 30}, "off", "interrupts/s that Linux would send (75 %), which is fewer than 1000"),
    ([0, 2], LARGE + 108, {"spared": 10}, "walks", "page tables of 17 MiB are large"),
    ([0, 2], 16 * 1024 + 107, {"spared": 10}, "off", "page tables of 16383 KiB are small"),
    ([0, 1], 400, {}, "one-node", "Nothing to gain"),
])
def test_advice_under_a_policy(two_nodes, cpus, tables, growth, advice, says):
    got = watched(two_nodes, 12, cpus, text=HYDRA, tables=tables, **growth)
    assert got["advice"] == advice and says in got["sentence"], got
    assert (got["active"], got["cost_kib"]) == (True, 84 + 4 * 6)


UNSPLIT = HYDRA.partition("domain 0")[0].replace("split 1", "split 0")
EAGER = UNSPLIT.replace("policy hydra", "policy mitosis").replace("lazy", "eager").replace("filter table", "filter none")
KEEPS = "would move them there, but not while "


def left(far=1024, remote=500, node=1):
    """/proc/PID/hydra_tables of a process with so much on another node than its own, and so many of 1000 pages behind that."""
    other = 1 - node
    return (f"domain {other} node {other} local_leaves {remote} remote_leaves {1000 - remote} hinting_leaves 0\n"
            f"domain {node} node {node} local_leaves {1000 - remote} remote_leaves {remote} hinting_leaves 0\n"
            f"node {node} pagetable_kib 2000\nnode {other} pagetable_kib {far}\n")


def explained(kernel, cpus=(2, 3), text=LINUX, tables=left(), pte=3100, idle="60\n", locked=0, **growth):
    """The object of a process that has moved, with the advice of a group: nothing asks for its tables."""
    if idle:
        (kernel.hydra / "idle_seconds").write_text(idle)
    kernel.process(12, hydra=text, **({"hydra_tables": tables} if tables else {}))
    kernel.threads(12, *cpus, tables=pte)
    with open(kernel.proc / "12" / "status", "a", encoding="ascii") as status:
        status.write(f"VmLck:\t{locked:8} kB\n")
    with kernel.counting(p12=later(text=text, **growth)):
        got, = kernel.json("explain", "--tree", 12, "--seconds", SECONDS)["processes"]
    return got


@pytest.mark.parametrize("case, says", [
    ({}, "The process runs on node 1, but 1024 KiB of its page tables are on other nodes, and it reaches 50 % of its pages through these: hydractl set "
         "--policy hydra 12 moves them there, up to 32 MiB every 15 s, and costs nothing while one node runs the process."),
    ({"cpus": [0], "tables": left(1500, 900, node=0)}, "runs on node 0, but 1500 KiB of its page tables are on other nodes, and it reaches 90 % "),
    ({"cpus": [3], "sent": 10, "across": 10, "pte": 1024}, "runs on node 1"),
    ({"text": UNSPLIT, "idle": "50\n"}, "through these: the kernel moves them there, up to 32 MiB every 12.5 s."),
    ({"text": EAGER}, "the kernel does not move them while replication is eager."),
    ({"text": UNSPLIT, "idle": "0\n"}, "the kernel does not move them while /sys/kernel/mm/hydra/idle_seconds is 0"),
    ({"idle": "0\n"}, KEEPS + "/sys/kernel/mm/hydra/idle_seconds is 0 (at boot it is 60)."),
    ({"locked": 4}, KEEPS + "the process has locked memory."),
    ({"text": LINUX.replace("lazy", "eager")}, "hydractl set --policy hydra 12 moves them there"),
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


@pytest.mark.parametrize("case, advice", [({"sent": 10 * MANY}, "cores"), ({"sent": 10 * MANY, "across": 10 * MANY}, "hydra"), ({"cpus": [0, 2]}, "quiet")])
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


def test_the_thresholds(two_nodes):
    """800 interrupts per second are few, and 1600, less what a slow host takes longer, are many."""
    for pid, (across, advice) in enumerate([(0.8, "quiet"), (1.6, "hydra")], start=12):
        two_nodes.process(pid, hydra=LINUX)
        two_nodes.threads(pid, 0, 2)
        with two_nodes.counting(**{f"p{pid}": later(sent=int(2000 * across), across=int(2000 * across))}):
            assert two_nodes.json("explain", pid, "--seconds", 2)["processes"][0]["advice"] == advice


def test_the_text_for_one_process(two_nodes):
    two_nodes.process(12, b"evil\033[31m", hydra=LINUX, hydra_tables=TABLES)
    two_nodes.threads(12, 0, 1, 2)
    with two_nodes.counting(p12=later(flushes=100, sent=20 * MANY, across=15 * MANY)):
        done = two_nodes.run("explain", 12, "--seconds", SECONDS)
    assert done.returncode == 0 and done.stderr == "" and "\033" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("process 12 (evil\\033[31m), policy linux, watched for ")
    # The advice comes first.
    assert lines[1] == "" and lines[2].startswith("Switch Hydra on (hydractl set --policy hydra 12)")
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
    assert {process["pid"]: process["advice"] for process in got["processes"]}[13] == "hydra"
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
    assert lines[0] == "PID COMMAND POLICY THREADS NODES FLUSH/S SENT/S ACROSS/S TABLE-KIB COST-KIB ADVICE".split()
    assert [(line[0], line[1], line[4], line[-1]) for line in lines[1:3]] == [("13", "p13", "0-1", "hydra"), ("12", "p12", "0-1", "cores")]
    assert lines[3] == "and 2 processes without a TLB flush, and with nothing to gain".split()
    assert "13 (p13): Switch Hydra on (hydractl set --policy hydra 13)" in done.stdout and done.stdout.count(BARRIER) == 1


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
    assert BARRIER in words and "Switch Hydra on" in words and ("ADVICE" in words) == (arguments == ["--all"])
    if arguments == ["--all"]:
        head, row = written.splitlines()[:2]
        assert row.split()[0] == "13" and row.split()[-1] == "hydra" and ("COMMAND" in head) == (columns == 80)


def test_the_progress_is_for_terminals_only(family):
    with family.counting(**GROWN):
        done = family.run("explain", 13, "--seconds", SECONDS)
    assert "left" not in done.stdout + done.stderr and os.path.exists(family.program)


def test_the_threshold_can_be_chosen(two_nodes):
    two_nodes.process(12, hydra=LINUX)
    two_nodes.threads(12, 0, 2)
    with two_nodes.counting(p12=later(sent=200, across=180)):
        done = two_nodes.run("explain", 12, "--seconds", SECONDS, "--threshold", 10, "--json")
    process, = json.loads(done.stdout)["processes"]
    assert process["advice"] == "hydra" and "90 % of" in process["sentence"]
    done = two_nodes.run("explain", 12, "--threshold", "many")
    assert done.returncode == 2 and "threshold 'many' is not a number of interrupts per second" in done.stderr


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
