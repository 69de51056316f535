# SPDX-License-Identifier: GPL-2.0-only
"""A process that has a policy, and not yet page tables for each node: status, check and set say so, and why."""
import threading

import pytest

from faked_kernel import HYDRA, becomes

LATE = HYDRA.partition("domain 0")[0].replace("split 1", "split 0")
NONE = "ok tables 0 entries 0\n"


def late(kernel, pid, *threads, text=LATE, **files):
    """A process whose threads ran last on those CPUs; "2R": it still runs there."""
    kernel.process(pid, "server", hydra=text, **files)
    kernel.threads(pid, *(str(thread).strip("R") for thread in threads))
    for number, thread in enumerate(threads):
        stat = kernel.proc / str(pid) / "task" / str(pid + number) / "stat"
        stat.write_text(stat.read_text().replace(") S", ") R" if str(thread).endswith("R") else ") S"))


def worker(kernel, pid, number):
    """A thread is one of the kernel that works for the process."""
    stat = kernel.proc / str(pid) / "task" / str(pid + number) / "stat"
    before, state, rest = stat.read_text().partition(") R")
    fields = rest.split(" ")
    fields[6] = str(0x4000 | 0x40)
    stat.write_text(before + state + " ".join(fields))


STATES = [
    (["0R"], "one-thread", "not split: it has a single thread, and is plain Linux until it has more"),
    (["0R", "1R"], "one-domain", "not split: its threads ran last on one node, and it is plain Linux until they run on more"),
    (["0R", 2], "asleep", "not split yet: threads ran last in several domains (kind node), but sleep now; it is split when they run again"),
    (["0R", "3R"], "busy", "not split yet: threads run in several domains (kind node), and keep the lock of their memory (mmap_lock) busy"),
]


@pytest.mark.parametrize("threads, state, says", STATES)
def test_status_and_check_say_why(kernel, threads, state, says):
    late(kernel, 12, *threads, hydra_check=NONE)
    assert kernel.json("status", 12)["split_state"] == kernel.json("check", 12)["split_state"] == state
    assert kernel.json("status")["processes"][0]["split_state"] == state
    assert kernel.run("status", 12).stdout.startswith(f"process 12 (server): {says}")
    assert f": nothing to check, no node has page tables of its own for it: {says}" in kernel.run("check", 12).stdout
    # The list of all processes names those of which the threads run in several domains.
    assert (f"\n12 (server): {says}" in kernel.run("status").stdout) == (state in ("asleep", "busy"))


def test_threads_of_the_kernel_do_not_count(kernel):
    late(kernel, 12, "0R", "3R")
    worker(kernel, 12, 1)
    assert kernel.json("status", 12)["split_state"] == "one-thread"


def test_domains_of_another_scope(kernel):
    """CPUs 0 and 1 are of one node, and of two cores."""
    (kernel.hydra / "domains_core").write_text("".join(f"{cpu} node {cpu // 2} cpus {cpu}\n" for cpu in range(4)))
    late(kernel, 12, "0R", "1R", text=LATE.replace("domains node", "domains core"))
    late(kernel, 13, "1R", "1R", text=LATE.replace("domains node", "domains core"))
    assert kernel.json("status", 12)["split_state"] == "busy"
    assert "not split: its threads ran last on one core," in kernel.run("status", 13).stdout


@pytest.mark.parametrize("text, state", [(HYDRA, "split"), (LATE.replace("active 1", "active 0"), "linux")])
def test_nothing_to_say(kernel, text, state):
    late(kernel, 12, "0R", "3R", text=text)
    assert kernel.json("status", 12)["split_state"] == state
    assert "not split" not in kernel.run("status", 12).stdout + kernel.run("status").stdout


def test_set_waits_until_the_process_is_split(kernel):
    late(kernel, 12, "0R", "3R")
    with becomes(kernel, 12, LATE, HYDRA):
        done = kernel.run("set", "--policy", "hydra", "--wait", 12)
    assert (done.returncode, done.stdout, done.stderr) == (0, "process 12 (server): policy hydra, split: its domains have page tables of their own\n", "")
    with becomes(kernel, 12, LATE, HYDRA):
        got = kernel.json("set", "--policy", "hydra", "--wait=30", 12)
    assert got.pop("waited") >= 0.25 and got == {"pid": 12, "comm": "server", "policy": "hydra", "split_state": "split"}


@pytest.mark.parametrize("threads, state, says", STATES)
def test_set_says_that_it_waited_in_vain(kernel, threads, state, says):
    late(kernel, 12, *threads)
    with becomes(kernel, 12, LATE):
        done = kernel.run("set", "--policy", "hydra", "--wait=0.5", 12)
    assert (done.returncode, done.stderr) == (1, "") and done.stdout.startswith(f"process 12 (server): policy hydra, {says}")
    with becomes(kernel, 12, LATE):
        assert kernel.json("set", "--policy", "hydra", "--wait=0.5", 12, status=1)["split_state"] == state


def test_set_waits_for_nothing_under_linux(kernel):
    late(kernel, 12, "0R", "3R")
    with becomes(kernel, 12, LATE.replace("policy hydra", "policy linux").replace("active 1", "active 0")):
        done = kernel.run("set", "--policy", "linux", "--wait=30", 12)
    assert (done.returncode, done.stdout) == (0, "process 12 (server): policy linux, one page table for all CPUs\n")


def test_set_waits_for_a_process_that_ends(kernel):
    late(kernel, 12, "0R", "3R")
    timer = threading.Timer(0.5, kernel.end, [12])
    timer.start()
    done = kernel.run("set", "--policy", "hydra", "--wait=30", 12)
    timer.join()
    assert (done.returncode, done.stderr) == (3, "hydractl: process 12 has ended\n")


@pytest.mark.parametrize("arguments, says", [
    (["--policy", "hydra", "--wait=0"], "time '0' is not a number of seconds"),
    (["--policy", "hydra", "--vm", "--wait"], "--wait, --json and --csv are for processes"),
    ([], "or --vm with one of them, for virtual machines"),
])
def test_wrong_usage(kernel, arguments, says):
    late(kernel, 12, 0)
    done = kernel.run("set", *arguments, 12)
    assert done.returncode == 2 and says in done.stderr
