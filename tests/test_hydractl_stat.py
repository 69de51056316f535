# SPDX-License-Identifier: GPL-2.0-only
"""hydractl stat: what a program and its children counted.

The programs put their own counters into the faked /proc. hydractl reads the counters when a process ends, so each process of a
test writes what it wants to have counted.
"""
import json
import signal
import subprocess
import sys
import time

import pytest

from faked_kernel import ACCEPTS, HYDRA, kernel_answers, no_ptrace

# A program that counts: count INTERRUPTS SPARED KIB writes the counters of the process that runs it.
COUNT = """
import os, pathlib, subprocess, sys, threading, time
from contextlib import suppress
proc = pathlib.Path(os.environ["HYDRACTL_PROC"])
def count(interrupted, spared=0, kib=0, pid=None):
    directory = proc / str(pid or os.getpid())
    directory.mkdir(exist_ok=True)
    (directory / "comm").write_text("x")
    text = HYDRA.replace("cpus_interrupted 9", f"cpus_interrupted {interrupted}").replace("cpus_spared 1234", f"cpus_spared {spared}")
    (directory / "part").write_text(text.replace("replica_kib 84", f"replica_kib {kib}"))
    (directory / "part").rename(directory / "hydra")
"""


def counting(lines):
    return ["--", sys.executable, "-c", f"HYDRA = {HYDRA!r}\n{COUNT}\n{lines}"]


def summary(kernel, lines, status=0, *options):
    done = kernel.run("stat", "--json", *options, *counting(lines), preexec_fn=ACCEPTS)
    assert done.returncode == status, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def test_a_program_that_has_ended(kernel):
    (kernel.proc / "interrupts").write_text("TLB: 1 2 shootdowns\n")
    got = summary(kernel, "time.sleep(0.3); count(7, 93, 80); (proc / 'interrupts').write_text('TLB: 1 44 shootdowns'); sys.exit(3)", 3)
    assert got.pop("command").startswith(f"{sys.executable} -c HYDRA = ") and got.pop("seconds") >= 0.3
    assert got == {
        "status": 3, "processes": 1, "split": 1, "running": 0, "unreadable": 0, "fills": 12, "prefetched": 3400, "propagated": 56,
        "flushes": 78, "cpus_interrupted": 7, "cpus_spared": 93, "fallbacks": 0, "reclaimed": 4, "peak_replica_kib": 80,
        "machine_tlb_interrupts": 42}


def test_children_that_have_ended(kernel):
    """One after the other, of children, and with threads: each process once."""
    got = summary(kernel, """
for number in (1, 10):
    if not os.fork():
        if not os.fork():
            count(100 * number)
            os._exit(0)
        os.wait()
        count(number)
        os._exit(0)
    os.wait()
threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
count(10000)
""")
    assert (got["processes"], got["cpus_interrupted"]) == (5, 11111)


def test_a_process_that_ends_before_its_threads(kernel):
    """The main thread is gone, and its /proc/PID with its memory; another thread ends last."""
    got = summary(kernel, """
import ctypes
def last():
    time.sleep(0.3)
    me = threading.get_native_id()
    count(50, pid=me)
    (proc / str(os.getpid()) / "hydra").unlink()
    os._exit(5)
count(1)
threading.Thread(target=last).start()
ctypes.CDLL(None).syscall(60, 0)        # exit() of this thread alone
""", 5)
    assert (got["processes"], got["cpus_interrupted"]) == (1, 50)


def test_a_child_of_vfork_counts_only_what_is_its_own(kernel):
    """Until its execve (here: in vain) the child uses the parent's memory, whose counters the kernel shows for both."""
    got = summary(kernel, """
for pid in range(os.getpid(), os.getpid() + 300): count(5, pid=pid)
for _ in range(3):
    with suppress(FileNotFoundError):
        subprocess.run(["no-such-program"])
""")
    assert (got["processes"], got["cpus_interrupted"]) == (4, 5)


def test_what_was_counted_before_execve_is_kept(kernel):
    again = f"HYDRA = {HYDRA!r}\n{COUNT}\ncount(30)"
    got = summary(kernel, f"count(4); time.sleep(0.5); os.execv(sys.executable, [sys.executable, '-c', {again!r}])")
    assert (got["processes"], got["cpus_interrupted"]) == (1, 34)


def test_the_peak_is_that_of_all_processes_together(kernel):
    got = summary(kernel, """
def child():
    if os.fork(): return
    count(0, 0, 40); time.sleep(0.8); count(0, 0, 1)
    os._exit(0)
child(); child()
count(0, 0, 100); os.wait(); os.wait(); count(0, 0, 2)
""")
    assert got["peak_replica_kib"] == 180


def test_what_still_runs_goes_on(kernel, tmp_path):
    got = summary(kernel, f"""
if not os.fork():
    os.setsid(); sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)
    count(20); time.sleep(1.5); open({str(tmp_path / 'done')!r}, 'w').close(); os._exit(0)
time.sleep(0.5)
""")
    assert (got["running"], got["processes"], got["cpus_interrupted"]) == (1, 2, 20)
    for _ in range(100):
        if (tmp_path / "done").exists():
            return
        time.sleep(0.1)
    pytest.fail("the process did not go on")


def test_the_summary_for_people(kernel):
    done = kernel.run("stat", *counting("os.fork() or os._exit(0); os.wait(); count(7, 93, 80); print('out'); sys.exit(3)"), preexec_fn=ACCEPTS)
    assert (done.returncode, done.stdout) == (3, "out\n")
    words = [line.split() for line in done.stderr.splitlines()]
    assert "7 interrupts sent (CPUs interrupted)".split() in words
    assert "93 interrupts spared (CPUs spared): 93.0 % of both".split() in words
    assert "12 fills, and 3400 entries prefetched".split() in words
    assert "80 KiB of replica tables at the peak (looked at every 0.1 s)".split() in words
    assert "and the 1 processes it started:" in done.stderr and "1 of the processes are missing" in done.stderr


def test_nothing_under_hydra_is_said(kernel):
    done = kernel.run("stat", "--policy", "linux", *counting("count(0); f = proc / str(os.getpid()) / 'hydra'; "
                                                             "f.write_text(f.read_text().replace('split 1', 'split 0'))"), preexec_fn=ACCEPTS)
    assert done.returncode == 0 and "No process had threads on several nodes under Hydra" in done.stderr


def test_a_command_of_any_bytes(kernel):
    done = kernel.run("stat", "sh", "-c", ": \033[31m", preexec_fn=ACCEPTS)
    assert done.returncode == 0 and "'sh -c : \\033[31m'" in done.stderr and "\033" not in done.stderr
    done = kernel.run("stat", "--json", "sh", "-c", ": \033", preexec_fn=ACCEPTS)
    assert json.loads(done.stderr)["command"] == "sh -c : \033"


def test_the_summary_in_a_file(kernel, tmp_path):
    done = kernel.run("stat", "--json", "--output", tmp_path / "it", "sh", "-c", "echo err >&2", preexec_fn=ACCEPTS)
    assert (done.returncode, done.stderr) == (0, "err\n") and json.loads((tmp_path / "it").read_text())["status"] == 0
    done = kernel.run("stat", "--output", tmp_path / "no" / "it", "touch", tmp_path / "ran", preexec_fn=ACCEPTS)
    assert done.returncode == 125 and f"cannot write {tmp_path}/no/it: No such file" in done.stderr and not (tmp_path / "ran").exists()


def test_statuses_of_programs_that_do_not_run(kernel):
    for program, status, message in [("no-such-program-anywhere", 127, "No such file"), ("/", 126, "Permission denied")]:
        done = kernel.run("stat", program, preexec_fn=ACCEPTS)
        assert (done.returncode, done.stdout) == (status, "") and done.stderr.startswith(f"hydractl: cannot run '{program}': {message}")
        assert "counters" not in done.stderr
    done = kernel.run("stat", "--policy", "linux", "true", preexec_fn=kernel_answers(22))
    assert done.returncode == 125 and "the kernel refused the settings 'linux': Invalid argument" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_that_ends_the_program(kernel, number):
    done = kernel.run("stat", "--json", "sh", "-c", f"kill -{number.value} $$", preexec_fn=ACCEPTS)
    assert done.returncode == 128 + number and json.loads(done.stderr)["status"] == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_hydractl_goes_to_the_program(kernel, number):
    command = [kernel.program, "stat", "--json", "sh", "-c", f"trap 'exit 9' {number.name[3:]}; echo ready; while :; do sleep 0.1; done"]
    with subprocess.Popen(command, env=kernel.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=ACCEPTS) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        _, err = child.communicate(timeout=30)
    assert child.returncode == 9 and json.loads(err)["status"] == 9


def test_a_program_that_is_stopped_goes_on(kernel):
    """SIGSTOP stops the traced program, and SIGCONT continues it, as without hydractl."""
    got = summary(kernel, """
child = os.fork()
if not child:
    while True: time.sleep(0.05)
os.kill(child, 19)
assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
os.kill(child, 18)
assert os.WIFCONTINUED(os.waitpid(child, os.WCONTINUED)[1])
os.kill(child, 15)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -15
count(1)
""")
    assert got["cpus_interrupted"] == 1


def test_the_program_has_signals_and_files_as_without_hydractl(kernel):
    look = ["sh", "-c", "ls /proc/self/fd; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"]
    direct = subprocess.run(look, capture_output=True, text=True, check=True, preexec_fn=ACCEPTS, stdin=subprocess.DEVNULL)
    assert kernel.run("stat", *look, preexec_fn=ACCEPTS, stdin=subprocess.DEVNULL).stdout == direct.stdout


def test_many_processes_at_once(kernel):
    got = summary(kernel, """
children = [subprocess.Popen(["sh", "-c", "(true); (true) & wait"]) for _ in range(30)]
assert all(child.wait() == 0 for child in children)
count(2)
""")
    assert (got["processes"], got["cpus_interrupted"]) == (91, 2)


def test_tracing_is_not_permitted(kernel, tmp_path):
    done = kernel.run("stat", "touch", tmp_path / "ran", preexec_fn=no_ptrace())
    assert (done.returncode, done.stdout) == (125, "") and not (tmp_path / "ran").exists()
    assert done.stderr == ("hydractl: cannot trace 'touch', which 'stat' needs for the counters of processes that end: "
                           "use 'hydractl run' and 'hydractl status': Operation not permitted\n")


def test_a_thread_executes_another_program(kernel):
    got = summary(kernel, """
count(8)
def other(): time.sleep(0.2); os.execv("/bin/sh", ["sh", "-c", "exit 6"])
threading.Thread(target=other).start()
time.sleep(60)
""", 6)
    assert (got["processes"], got["cpus_interrupted"]) == (1, 16)      # the faked counters outlive execve
