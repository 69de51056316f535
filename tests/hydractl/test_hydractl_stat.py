# SPDX-License-Identifier: GPL-2.0-only
"""hydractl stat: what a program and its children counted.

The programs put their own counters into the faked /proc, and, when they end, the sum that the kernel would show of ended
processes into the file of hydractl.
"""
import errno
import json
import signal
import subprocess
import sys
import time

import pytest

from faked_kernel import ACCEPTS, HYDRA, OLDER_HYDRA, kernel_answers, refuses_text

# What a program does: count() writes the counters of the process that runs it, ended() what ended processes have counted.
COUNT = """
import ctypes, os, pathlib, shutil, subprocess, sys, threading, time
from contextlib import suppress
proc = pathlib.Path(os.environ["HYDRACTL_PROC"])
tool = int(os.environ.setdefault("TOOL", str(os.getppid())))
def write(pid, text):
    directory = proc / str(pid)
    directory.mkdir(exist_ok=True)
    (directory / "comm").write_text("x")
    if pid != tool: (directory / "stat").write_text(f"{pid} (x) S {os.getppid()} 1")
    (directory / "part").write_text(text)
    (directory / "part").rename(directory / "hydra")
def count(interrupted, spared=0, kib=0, pid=None):
    text = HYDRA.replace("cpus_interrupted 9", f"cpus_interrupted {interrupted}").replace("cpus_spared 1234", f"cpus_spared {spared}")
    write(pid or os.getpid(), text.replace("replica_kib 84", f"replica_kib {kib}"))
def leave():
    shutil.rmtree(proc / str(os.getpid()))
def ended(**counters):
    write(tool, HYDRA.replace("count 0", "count 1") + "".join(f"ended_{key} {number}\\n" for key, number in counters.items()))
def looked(times=2):
    # Wait until hydractl has read this process's counters so often: a whole look lies between two of them.
    libc = ctypes.CDLL(None)
    for _ in range(times):
        watch = libc.inotify_init()
        libc.inotify_add_watch(watch, str(proc / str(os.getpid()) / "hydra").encode(), 0x10)    # IN_CLOSE_NOWRITE
        os.read(watch, 4096)
        os.close(watch)
ended()
"""


def counting(lines, hydra=HYDRA):
    return ["--", sys.executable, "-c", f"HYDRA = {hydra!r}\n{COUNT}\n{lines}"]


def summary(kernel, lines, status=0, *options, hydra=HYDRA, own=HYDRA, then=ACCEPTS):
    done = kernel.run("stat", "--json", *options, *counting(lines, hydra), preexec_fn=kernel.own(own, then))
    assert done.returncode == status, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def test_the_sum_of_ended_processes(kernel):
    (kernel.proc / "interrupts").write_text("TLB: 1 2 shootdowns\n")
    got = summary(kernel, """
time.sleep(0.3)
ended(fills=12, prefetched=3400, propagated=56, flushes=78, cpus_interrupted=7, cpus_interrupted_across=6, cpus_spared=93, reclaimed=4)
(proc / 'interrupts').write_text('TLB: 1 44 shootdowns')
sys.exit(3)
""", 3)
    assert got.pop("command").startswith(f"{sys.executable} -c HYDRA = ") and got.pop("seconds") >= 0.3 and got.pop("looks") > 1
    assert got == {
        "group": "program", "name": None, "status": 3, "ended_counted": True, "with_others": False, "running": 0, "unreadable": 0, "fills": 12, "prefetched": 3400,
        "propagated": 56, "flushes": 78, "cpus_interrupted": 7, "cpus_interrupted_across": 6, "cpus_spared": 93, "fallbacks": 0,
        "reclaimed": 4, "peak_replica_kib": 0, "machine_tlb_interrupts": 42}


@pytest.mark.parametrize("policy", ["linux", "hydra"])
def test_the_kernel_is_asked_to_count_before_the_program_starts(kernel, policy, tmp_path):
    done = kernel.run("stat", "--policy", policy, "sh", "-c", f'cat "$HYDRACTL_PROC/$PPID/hydra" >{tmp_path}/seen; echo "$HYDRA" >"$HYDRACTL_PROC/$PPID/hydra"',
                      preexec_fn=kernel.own(then=ACCEPTS), environment={"HYDRA": HYDRA})
    assert done.returncode == 0 and (tmp_path / "seen").read_text() == "count=on"


def test_what_was_counted_before_is_not_the_programs(kernel):
    """hydractl is itself counted, by another one or by 'explain'."""
    before = HYDRA.replace("count 0", "count 1") + "ended_flushes 1000\nended_cpus_interrupted 200\n"
    got = summary(kernel, "ended(flushes=1010, cpus_interrupted=205)", own=before)
    assert (got["flushes"], got["cpus_interrupted"], got["with_others"]) == (10, 5, True)
    done = kernel.run("stat", *counting("ended(flushes=1010)"), preexec_fn=kernel.own(before, ACCEPTS))
    assert done.returncode == 0 and "hydractl itself was counted when it started" in done.stderr


@pytest.mark.parametrize("own, then, why", [
    (OLDER_HYDRA, ACCEPTS, "this kernel's Hydra is older than hydractl, and cannot count processes under policy linux"),
    (HYDRA, refuses_text("count=on", errno.EINVAL), "this kernel's Hydra is older than hydractl, and cannot count processes under policy linux"),
    (HYDRA, refuses_text("count=on", errno.EOPNOTSUPP), "Hydra cannot work on this machine (no: Xen PV guest)"),
    (HYDRA, refuses_text("count=on", errno.ENOMEM), "cannot count process "),
])
def test_a_kernel_that_does_not_count_is_looked_at(kernel, own, then, why):
    """What was seen of a process stays in the sums after its end, and after it executed another program."""
    (kernel.hydra / "supported").write_text("no: Xen PV guest\n")

    def both():
        then()
        if then is not ACCEPTS:
            ACCEPTS()
    lines = "count(20); looked(); count(4); looked(); leave()"
    got = summary(kernel, lines, hydra=own, own=own, then=both)
    assert (got["ended_counted"], got["cpus_interrupted"], got["running"]) == (False, 24, 0)
    assert got["cpus_interrupted_across"] == (None if own is OLDER_HYDRA else 16)
    done = kernel.run("stat", *counting(lines, own), preexec_fn=kernel.own(own, both))
    line, = [line for line in done.stderr.splitlines() if why in line]
    assert line.startswith(" Counted is only what hydractl saw at ") and done.returncode == 0


def test_the_program_counts_even_if_its_sum_cannot_be_read(kernel):
    """The program's exit status is not lost."""
    done = kernel.run("stat", *counting("write(tool, 'count=on'); sys.exit(4)"), preexec_fn=kernel.own(then=ACCEPTS))
    assert done.returncode == 4 and "what ended processes have counted could not be read at the end" in done.stderr


def test_the_peak_is_that_of_all_processes_together(kernel):
    got = summary(kernel, """
there, go = os.pipe(), os.pipe()
def child():
    if os.fork(): return
    count(0, 0, 40); os.write(there[1], b"x"); os.read(go[0], 1); count(0, 0, 1); leave()
    os._exit(0)
count(0, 0, 100); child(); child()
os.read(there[0], 1); os.read(there[0], 1); looked(); os.write(go[1], b"xx")
os.wait(); os.wait(); count(0, 0, 2); looked(); leave()
""")
    assert got["peak_replica_kib"] == 180


def test_what_still_runs_is_counted_and_goes_on(kernel, tmp_path):
    """Also a process whose parent has ended."""
    got = summary(kernel, f"""
there = os.pipe()
if not os.fork():
    if not os.fork():
        os.setsid(); os.close(1); os.close(2)
        # The faked kernel tells the parent of the moment that it is asked: the old one has to be gone.
        while os.getppid() != tool: time.sleep(0.01)
        count(20); os.write(there[1], b"x")
        while (proc / str(tool)).exists() and os.path.exists(f"/proc/{{tool}}/exe"): time.sleep(0.05)
        open({str(tmp_path / 'done')!r}, 'w').close(); os._exit(0)
    os._exit(0)
os.wait()
ended(cpus_interrupted=3)
os.read(there[0], 1)
""")
    assert (got["running"], got["cpus_interrupted"]) == (1, 23)
    for _ in range(100):
        if (tmp_path / "done").exists():
            return
        time.sleep(0.1)
    pytest.fail("the process did not go on")


def test_a_child_of_vfork_counts_only_what_is_its_own(kernel):
    """Until its execve the child uses the parent's memory, whose counters the kernel shows for both."""
    got = summary(kernel, """
libc = ctypes.CDLL(None)
count(5, kib=50)
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def child(_):
    count(5, kib=50)
    looked()
    return 0
stack = ctypes.create_string_buffer(1 << 20)
pid = libc.clone(child, ctypes.c_void_p(ctypes.addressof(stack) + (1 << 20) - 64), 0x100 | 17, None)      # CLONE_VM
os.waitpid(pid, 0)
shutil.rmtree(proc / str(pid), ignore_errors=True)
""")
    assert (got["peak_replica_kib"], got["running"]) == (50, 1)


def test_the_summary_for_people(kernel):
    done = kernel.run("stat", *counting("""
count(0, 0, 80); looked(); leave()
ended(flushes=20, fills=12, prefetched=3400, cpus_interrupted=8, cpus_interrupted_across=6, cpus_spared=72)
print('out'); sys.exit(3)
"""), preexec_fn=kernel.own(then=ACCEPTS))
    assert (done.returncode, done.stdout) == (3, "out\n")
    words = [line.split() for line in done.stderr.splitlines()]
    assert "8 interrupts sent (CPUs interrupted)".split() in words
    assert "6 to CPUs of another node: 75.0 % of those sent".split() in words
    assert "72 interrupts spared, which Linux would have sent: 90.0 % of both".split() in words
    assert "12 fills, and 3400 entries prefetched".split() in words
    assert any(line[:8] == "80 KiB of replica tables at the peak".split() for line in words)
    assert "and the processes it started:" in done.stderr and "still run" not in done.stderr and "Counted is only" not in done.stderr


def test_processes_that_cannot_be_read_are_missing(kernel):
    if not subprocess.os.geteuid():
        pytest.skip("root reads everything")
    done = kernel.run("stat", *counting("count(1); (proc / str(os.getpid()) / 'hydra').chmod(0)"), preexec_fn=kernel.own(then=ACCEPTS))
    assert "1 process that still runs is missing" in done.stderr


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
    done = kernel.run("stat", "--policy", "linux", "true", preexec_fn=kernel_answers(errno.EINVAL))
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


def test_the_program_has_signals_and_files_as_without_hydractl(kernel):
    look = ["sh", "-c", "ls /proc/self/fd; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"]

    def ignores():
        ACCEPTS()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    direct = subprocess.run(look, capture_output=True, text=True, check=True, preexec_fn=ignores, stdin=subprocess.DEVNULL)
    done = kernel.run("stat", *look, preexec_fn=ignores, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, direct.stdout)
    # A shell would have a handler of its own.
    done = kernel.run("stat", "grep", "SigIgn", "/proc/self/status", preexec_fn=ignores)
    assert int(done.stdout.split()[1], 16) >> (signal.SIGCHLD - 1) & 1


def test_the_program_can_be_traced(kernel):
    """hydractl does not trace: a debugger may."""
    done = kernel.run("stat", "grep", "TracerPid", "/proc/self/status", preexec_fn=ACCEPTS)
    assert done.stdout.split() == ["TracerPid:", "0"]


def test_children_of_ended_children_do_not_hold_hydractl_up(kernel):
    """hydractl takes the exit statuses of orphans, and does not take them for the program's."""
    got = summary(kernel, """
for _ in range(20):
    if not os.fork():
        os.fork() or time.sleep(0.1)
        os._exit(1)
    os.wait()
time.sleep(0.5)
""")
    assert (got["status"], got["running"]) == (0, 0)
