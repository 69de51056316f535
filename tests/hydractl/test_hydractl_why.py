# SPDX-License-Identifier: GPL-2.0-only
"""Policy auto: hydractl why, and what the other commands show of a process under it."""
import errno
import pathlib
import re

import pytest

from faked_kernel import HYDRA, OLDER_HYDRA, kernel_answers, refuses_text, under_auto
from faked_terminal import Terminal

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "kernel/Documentation/admin-guide/mm/hydra.rst"
LINUX = HYDRA.partition("domain 0")[0].replace("policy hydra", "policy linux").replace("domains node", "domains machine").replace(
    "active 1", "active 0").replace("split 1", "split 0")
RETURNS = "it returns to plain Linux when its balance, {} now, is -1.9 ms, or when one node alone has run it for 10 s"
FORCED = "under policy hydra ('hydractl set --policy hydra 12') it is split all the same"


@pytest.fixture
def machine(kernel):
    kernel.auto()
    return kernel


def why(kernel, text, pid=12):
    """The sentence about a process, as text and in JSON."""
    kernel.process(pid, "server", hydra=text)
    shown = kernel.run("why", pid)
    assert (shown.returncode, shown.stderr) == (0, "")
    process, = kernel.json("why", pid)["processes"]
    assert shown.stdout == f"process {pid} (server): {process['sentence']}\n"
    return process["sentence"]


@pytest.mark.parametrize("state, word, numbers, sentence", [
    ("watched", "new", {"rent_ppm": 15000}, "plain Linux so far: fewer than 3 looks, one each 1 s, have found it on two nodes; its flushes and walks across nodes "
     "cost 1.5 % of its CPU time, and a split is tried from 0.2 %"),
    ("plain", "one-node", {}, "plain Linux: one node alone runs it, so page tables for each node would save nothing; a split may come once 3 looks, one each 1 s, "
     "have found it on two nodes"),
    ("watched", "quiet", {"rent_ppm": 400}, "left alone: its flushes and walks across nodes cost 0.04 % of its CPU time; a split is tried from 0.2 %"),
    ("watched", "quiet", {"rent_ppm": 1999, "rent_us": 10 ** 9}, "left alone: its flushes and walks across nodes cost 0.2 % of its CPU time; a split is tried from 0.2 %"),
    ("watched", "quiet", {"rent_ppm": 2000, "rent_us": 340, "price_us": 1900}, "left alone so far: its flushes and walks across nodes cost 0.2 % of its CPU time, 340 us in "
     "all; a split is tried before that is 1.9 ms, which a split and a return cost, and no sooner than 10 s after a return"),
    ("returned", "waits", {"rent_ppm": 123456}, "left alone: 5 splits have followed each other, so the next has to wait, at most 15 minutes; its flushes and walks across nodes "
     "cost 12 % of its CPU time"),
    ("returned", "shared", {"tries": 2, "rent_us": 340, "price_us": 1900}, "left alone: the last split cost more than it saved (tries lost in a row: 2); the next is tried before "
     "its flushes and walks across nodes have cost 7.6 ms, of which they have cost 340 us, and no sooner than 40 s after the return"),
    ("watched", "purse", {"purse_us": -20, "price_us": 2500000}, "left alone: 1 % of its CPU time does not pay for a try yet; a split is tried once its purse, -20 us now, has the "
     "2.5 s that a split and a return cost"),
    ("watched", "saves", {"rent_ppm": 30000}, "about to be split: its flushes and walks across nodes cost 3 % of its CPU time"),
    ("split", "saves", {"gain_ppm": 13000, "balance_us": 8000, "price_us": 1900}, "split for gain: saves 1.3 % of its CPU time; " + RETURNS.format("8 ms")),
    ("split", "saves", {"gain_ppm": -700, "balance_us": -1200, "price_us": 1900}, "split: it has lost 0.07 % of its CPU time since the last look, and gains in sum; "
     + RETURNS.format("-1.2 ms")),
    ("split", "shared", {"balance_us": -1950}, "about to return to plain Linux: the split has cost more than it saved, in sum -1.9 ms"),
    ("split", "one-node", {}, "about to return to plain Linux: one node alone has run it for 10 s"),
    ("split", "purse", {"balance_us": -5, "purse_us": 12}, "about to return to plain Linux: 1 % of its CPU time pays for no more loss: its balance is -5 us, its purse 12 us"),
    ("split", "isolated", {}, "stays split: an isolated CPU runs it, which the kernel does not interrupt to end that; 'hydractl off 12' does"),
    ("watched", "isolated", {}, "left alone: an isolated CPU runs it, which the kernel does not interrupt to split it; " + FORCED),
    ("watched", "memory", {}, "left alone: its memory cgroup has no room for page tables, or they could not be allocated; that changes with more memory, or a higher memory.max"),
    ("split", "realtime", {}, "about to return to plain Linux: a thread of it is scheduled as SCHED_FIFO, SCHED_RR or SCHED_DEADLINE, and page tables for each node mean more page "
     "faults; " + FORCED),
    ("watched", "moonphase\033[1m", {}, "left alone: the kernel says 'moonphase\\033[1m'"),
])
def test_a_sentence_with_numbers(machine, state, word, numbers, sentence):
    assert why(machine, under_auto(state, word, **numbers)) == sentence


WORDS = ["new", *re.findall(r"^``([a-z-]+)``", GUIDE.read_text(encoding="utf-8").partition("\n``new``")[2].partition("\n====")[0], re.M)]


def test_the_guide_has_the_words():
    assert WORDS == "new one-node quiet waits shared purse saves realtime locked hugetlb memory cgroup isolated".split()


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("state", ["watched", "split"])
def test_each_word_of_the_guide_has_a_sentence(machine, word, state):
    """But for those that only a plain process has."""
    sentence = why(machine, under_auto(state, word))
    assert ("the kernel says" in sentence) == (state == "split" and word in ("new", "quiet", "waits")) and "{" not in sentence


def test_spans_of_time_count_looks(kernel):
    kernel.auto(look_ms=10)
    assert "at most 9 s; its" in why(kernel, under_auto("returned", "waits"))
    assert "no sooner than 13 s" in why(kernel, under_auto("returned", "shared", tries=7), 13)        # 1,280 looks
    assert "no sooner than 13 s" in why(kernel, under_auto("returned", "shared", tries=99), 14)


@pytest.mark.parametrize("text, sentence", [
    (LINUX, "policy linux leaves the kernel no choice, and the process is plain Linux"),
    (HYDRA, "policy hydra leaves the kernel no choice, and the process is split"),
    (HYDRA.partition("domain 0")[0].replace("split 1", "split 0"),
     "policy hydra leaves the kernel no choice, and the process is not split: it has a single thread, and is plain Linux until it has more"),
])
def test_a_policy_of_its_own(kernel, text, sentence):
    assert why(kernel, text) == f"chosen: {sentence}; this kernel has no policy auto"
    kernel.auto()
    assert why(kernel, text, 13) == f"chosen: {sentence}; 'hydractl set --policy auto 13' lets the kernel decide"


def test_the_raw_numbers(machine):
    machine.process(12, hydra=under_auto("split", "saves", tries=1, rent_us=2, price_us=3, rent_ppm=4, gain_ppm=-5, balance_us=-6, purse_us=7))
    machine.process(13, hydra=OLDER_HYDRA)
    got = machine.json("why", "--all")
    assert (got["group"], got["name"], got["unreadable"], got["not_understood"]) == ("system", None, 0, 0)
    first, second = got["processes"]
    assert first.pop("sentence").startswith("split: it has lost")
    assert first == {"pid": 12, "comm": "httpd", "policy": "auto", "split": 1, "why": "saves", "auto": "split", "tries": 1, "rent_us": 2, "price_us": 3,
                     "rent_ppm": 4, "gain_ppm": -5, "balance_us": -6, "purse_us": 7, "barriers": 3}
    assert (second["policy"], second["why"], second["auto"], second["purse_us"], second["barriers"]) == ("hydra", "chosen", None, None, None)


@pytest.fixture
def family(machine):
    """12 began 13 to 17: one gains, one is quiet, two were never found on two nodes, two are under fixed policies."""
    for pid, text in enumerate([under_auto("split", "saves"), under_auto("watched", "quiet"), under_auto("plain", "one-node"), under_auto("plain", "one-node"), LINUX, HYDRA],
                               start=12):
        machine.process(pid, f"p{pid}", parent=1 if pid == 12 else 12, hydra=text)
    return machine


def test_several_processes(family):
    family.cgroup("/system.slice/web.service", 13, 14)
    lines = family.run("why", "--tree", 12).stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["12 (p12)", "13 (p13)", "17 (p17)"]
    assert lines[3:] == ["and 2 processes under policy auto that no look has found on two nodes", "and 1 process under policy linux"]
    assert family.run("why", "--all").stdout.splitlines() == lines
    assert [line.partition(":")[0] for line in family.run("why", "--unit", "web").stdout.splitlines()] == [
        "13 (p13)", "and 1 process under policy auto that no look has found on two nodes"]
    assert [process["pid"] for process in family.json("why", "--cgroup", "/system.slice")["processes"]] == [13, 14]
    assert family.run("why", 14).stdout.startswith("process 14 (p14): plain Linux: one node alone runs it")
    family.end(13)
    assert family.run("why", "--unit", "web").stdout == "1 process under policy auto that no look has found on two nodes\n"


def test_the_sentence_is_broken_on_a_terminal(family):
    terminal = Terminal([family.program, "why", "12"], family.environment(), columns=40)
    terminal.read()
    assert terminal.end() == 0
    lines = terminal.written.decode().replace("\r", "").splitlines()
    terminal.close()
    assert len(lines) > 3 and all(len(line) <= 40 for line in lines) and " ".join(lines).startswith("process 12 (p12): split for gain: saves")


@pytest.mark.parametrize("arguments, message", [
    ([], "no process named: give a PID, --tree, --cgroup, --unit or --all"), (["12", "--all"], "give a PID or --system, not both"), (["4242"], "no process 4242"),
    (["12", "13"], "one PID only"), (["--tree", "4242"], "no process 4242"), (["x"], "'x' is not a PID"), (["2"], "process 2 has no user memory"),
])
def test_wrong_usage_of_why(family, arguments, message):
    family.process(2, "kthreadd", hydra="")
    done = family.run("why", *arguments)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


@pytest.mark.parametrize("change, key", [
    (("auto watched\n", ""), "auto"), (("why quiet\n", ""), "why"), (("tries 0", "tries -1"), "tries"), (("rent_ppm 0\n", ""), "rent_ppm"),
    (("gain_ppm 0", "gain_ppm --1"), "gain_ppm"), (("purse_us 0", "purse_us 99999999999999999999"), "purse_us"), (("balance_us 0", "balance_us -"), "balance_us"),
])
def test_lines_that_make_no_sense(machine, change, key):
    machine.process(12, hydra=under_auto("watched", "quiet").replace(*change))
    machine.process(13, hydra=under_auto("watched", "quiet"))
    done = machine.run("why", 12)
    assert (done.returncode, done.stdout) == (2, "") and f"cannot make sense of {machine.proc}/12/hydra ({key})" in done.stderr
    done = machine.run("why", "--all")
    assert done.returncode == 0 and done.stdout.startswith("13 (httpd): left alone") and "1 process left out: cannot make sense" in done.stderr


# What other commands show

def test_status_of_a_process_under_auto(family):
    assert family.run("status", 13).stdout.startswith("process 13 (p13): left alone: its flushes")
    assert family.run("status", 12).stdout.startswith("process 12 (p12): split for gain: saves")
    assert [family.json("status", pid)["split_state"] for pid in (12, 13, 14)] == ["split", "auto", "auto"]
    (family.proc / "12" / "hydra").write_text(under_auto("split", "saves", balance_us=-7))
    assert family.json("status", 12)["balance_us"] == -7 and ["balance_us", "-7"] in map(str.split, family.run("status", 12).stdout.splitlines())


NEVER = "\n2 processes under policy auto that no look has found on two nodes ('hydractl why --all')\n"


def test_status_of_the_system_leaves_out_what_is_plain_linux(family):
    assert [process["pid"] for process in family.json("status")["processes"]] == [12, 13, 17]
    shown = family.run("status").stdout
    assert shown.endswith(NEVER) and " p14 " not in shown
    for pid in (12, 13, 17):
        family.end(pid)
    assert family.run("status").stdout.endswith("\nno process runs under Hydra\n" + NEVER)


def test_check_says_why_there_is_nothing_to_check(machine):
    machine.process(12, hydra=under_auto("watched", "locked"), hydra_check="ok tables 0 entries 0\n")
    assert "has page tables of its own for it: left alone: it has called mlockall()" in machine.run("check", 12).stdout


def test_export_of_what_policy_auto_does(family):
    lines = family.run("export").stdout.splitlines()
    assert {"hydra_auto_looks_total 120", "hydra_auto_splits_total 3", "hydra_auto_returns_total 2", "hydra_auto_watched_processes 4",
            "hydra_auto_spent_seconds_total 2.500001"} <= set(lines)
    assert {re.search(r'pid="(\d+)"', line)[1] for line in lines if line.startswith("hydra_process_barriers_total{")} == {"12", "13", "17"}
    (family.hydra / "auto" / "stats").write_text("looks many\n")
    done = family.run("export")
    assert done.returncode == 2 and f"cannot make sense of {family.hydra}/auto/stats (looks)" in done.stderr and done.stdout == ""


def test_export_of_a_kernel_without_policy_auto(kernel):
    assert "hydra_auto" not in kernel.run("export").stdout


def test_top_shows_the_decision(family):
    done = family.run("top", "--batch", "--delay", "0.1", "--count", "1", "--sort", "pid")
    rows = {line.split()[0]: line.split()[-3:-1] for line in done.stdout.splitlines() if line[:7].strip().isdigit()}
    assert rows == {"12": ["split", "saves"], "13": ["watched", "quiet"], "17": ["-", "-"]}
    done = family.run("top", "--batch", "--delay", "0.1", "--count", "1", "--all")
    assert len([line for line in done.stdout.splitlines() if line[:7].strip().isdigit()]) == 6
    got = family.json("top", "--delay", "0.1", "--count", "1", "--sort", "pid")
    assert [(process["pid"], process["auto"], process["why"]) for process in got["processes"]] == [
        (12, "split", "saves"), (13, "watched", "quiet"), (17, None, None)]


def test_the_decision_on_the_screen(family):
    terminal = Terminal([family.program, "top", "--delay", "0.3", "--sort", "pid"], family.environment(), columns=100)
    try:
        shown = terminal.until("q quit")
        assert " AUTO     WHY      COMMAND" in shown and " watched  quiet    p13" in shown
        terminal.keys(b"\033OB\r")                    # down
        shown = terminal.until("process 13 (p13)")
        assert "watched: left alone: its flushes and walks across nodes cost 0 % of its CPU time; a split is" in shown and "barriers                           3" in shown
        terminal.keys(b"\rpu")
        terminal.until("process 13: policy auto")
        assert family.text(13) == "hydra,domains=auto,replication=lazy,prefetch=9,filter=auto"
        terminal.keys(b"q")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_off_ends_policy_auto(family):
    assert family.run("off", "--tree", 12).returncode == 0
    assert {pid: family.text(pid) == "linux" for pid in range(12, 18)} == {12: True, 13: True, 14: True, 15: True, 16: False, 17: True}


def test_a_kernel_without_policy_auto_refuses_it(kernel):
    text = "hydra,domains=auto,replication=lazy,prefetch=9,filter=auto"
    message = "hydractl: this kernel's Hydra is older than hydractl, and has no policy auto\n"
    kernel.process(12, hydra=HYDRA)
    done = kernel.run("set", "--policy", "auto", 12, preexec_fn=refuses_text(text, errno.EINVAL))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    done = kernel.run("run", "--policy", "auto", "true", preexec_fn=kernel_answers(errno.EINVAL))
    assert (done.returncode, done.stderr) == (125, message)
    kernel.auto()
    done = kernel.run("run", "--policy", "auto", "--replication", "eager", "true", preexec_fn=kernel_answers(errno.EINVAL))
    assert "the kernel refused the settings 'hydra,domains=auto,replication=eager" in done.stderr
