# SPDX-License-Identifier: GPL-2.0-only
"""hydractl explain --locks: acquisitions of mmap_lock by system call, from a faked trace.

hydractl makes an instance of the trace with its own PID in the name. A test has put the files there before hydractl begins.
"""
import json
import os
import signal
import subprocess
import time

import pytest

EVENTS = ("mmap_lock/mmap_lock_start_locking", "mmap_lock/mmap_lock_acquire_returned", "raw_syscalls/sys_enter", "raw_syscalls/sys_exit")
SECONDS = 0.2
MMAP, MPROTECT, MUNMAP, BRK, MREMAP, MADVISE, CLONE = 9, 10, 11, 12, 25, 28, 56
ANONYMOUS, FIXED, NORESERVE, STACK = 0x22, 0x10, 0x4000, 0x20000
NONE, READ, READ_WRITE, ALL = 0, 1, 3, 7
MIB, GIB = 1 << 20, 1 << 30
MAPS = """\
00400000-00500000 r-xp 00000000 08:01 1234                               /usr/bin/server
00600000-00700000 rw-p 00000000 00:00 0                                  [heap]
10000000-20000000 rw-p 00000000 00:00 0
20000000-30000000 ---p 00000000 00:00 0
30000000-30001000 r--p 00000000 00:00 0
40000000-40001000 rw-s 00000000 00:01 77                                 /dev/zero (deleted)
50000000-50010000 rw-p 00000000 00:00 0                                  [anon:names with spaces]
"""
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max data size             unlimited            unlimited            bytes
Max address space         unlimited            unlimited            bytes
"""


class Trace:
    """The lines of a trace; each is a microsecond after the one before."""

    def __init__(self):
        self.lines, self.us = [], 0

    def line(self, tid, text, after=1, comm="a) b-7 [0"):
        self.us += after
        self.lines.append(f"{comm:>16}-{tid:<7} [003] ..... {5678 + self.us // 10**6:5}.{self.us % 10**6:06}: {text}\n")
        return self

    def enter(self, number, *arguments, tid=12):
        padded = [*arguments, *[0] * (6 - len(arguments))]
        return self.line(tid, f"sys_enter: NR {number} ({', '.join(f'{argument:x}' for argument in padded)})")

    def leave(self, number, result=0, tid=12):
        return self.line(tid, f"sys_exit: NR {number} = {result}")

    def take(self, write=True, mm="00000000deadbeef", waits=1, tid=12, success=True):
        words = f"mm={mm} memcg_path=/ write={'true' if write else 'false'}"
        self.line(tid, f"mmap_lock_start_locking: {words}")
        return self.line(tid, f"mmap_lock_acquire_returned: {words} success={'true' if success else 'false'}", waits)

    def call(self, number, *arguments, result=0, **how):
        tid = how.get("tid", 12)
        return self.enter(number, *arguments, tid=tid).take(**how).leave(number, result, tid)

    def mmap(self, size, protection=READ_WRITE, flags=ANONYMOUS, address=0, result=0x7F0000000000):
        return self.call(MMAP, address, size, protection, flags, 2 ** 64 - 1, 0, result=result)

    def lost(self, number):
        self.lines.append(f"CPU:3 [LOST {number} EVENTS]\n")
        return self


@pytest.fixture
def traced(kernel):
    """A kernel with the events, and process 12 with two threads."""
    for event in EVENTS:
        (kernel.sys / "kernel/tracing/events" / event).mkdir(parents=True)
    (kernel.sys / "kernel/tracing/instances").mkdir()
    process = kernel.process(12, "server", maps=MAPS, limits=LIMITS)
    for thread in (12, 13):
        (process / "task" / str(thread)).mkdir(parents=True)
    return kernel


def instance(kernel, trace):
    """For preexec_fn: the instance that hydractl is to find."""
    def prepare():
        own = kernel.sys / "kernel/tracing/instances" / f"hydractl-{os.getpid()}"
        for event in EVENTS:
            (own / "events" / event).mkdir(parents=True)
            (own / "events" / event / "enable").write_text("0")
            (own / "events" / event / "filter").write_text("none")
        (own / "options").mkdir()
        for name in ("trace_clock", "buffer_size_kb", "options/event-fork", "set_event_pid", "tracing_on"):
            (own / name).write_text("")
        (own / "trace_pipe").write_text("".join(trace.lines))
    return prepare


def own_files(kernel):
    made, = (kernel.sys / "kernel/tracing/instances").iterdir()
    return made


def run(kernel, trace, *options, **how):
    return kernel.run("explain", "--locks", 12, "--seconds", SECONDS, *options, preexec_fn=instance(kernel, trace), **how)


def watched(kernel, trace):
    """({call: its object}, the whole object)"""
    done = run(kernel, trace, "--json")
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    return {calls.pop("call"): calls for calls in got["calls"]}, got


def fits(kernel, trace):
    """For each call that has taken the lock for writing, how many would fit."""
    return {name: calls["fits"] for name, calls in watched(kernel, trace)[0].items() if calls["write"]}


# --- what is counted

def test_acquisitions_are_counted_by_call(traced):
    trace = Trace().mmap(4096).call(MUNMAP, 0x7F0000000000, 4096).call(MADVISE, 0x10000000, 4096, 4, write=False).take(write=False).take(write=False)
    trace.call(BRK, 0x700000)
    calls, got = watched(traced, trace)
    assert {name: (one["read"], one["write"]) for name, one in calls.items()} == {
        "mmap": (0, 1), "munmap": (0, 1), "madvise": (1, 0), "brk": (0, 1), "faults and other calls": (2, 0)}
    assert (got["pid"], got["comm"], got["ended"], got["lost"], got["limit"]) == (12, "server", False, 0, None)
    assert SECONDS <= got["seconds"] < 30 and round(got["fits_percent"], 1) == 66.7


def test_a_lock_that_is_downgraded_is_taken_once(traced):
    trace = Trace().enter(MUNMAP, 0x10000000, 4096).take()
    trace.line(12, "mmap_lock_acquire_returned: mm=00000000deadbeef memcg_path= write=false success=true").leave(MUNMAP)
    assert watched(traced, trace)[0]["munmap"] == {"read": 0, "write": 1, "fits": 1, "waits": 0, "waited_us": 0}


def test_a_lock_that_is_not_got_is_not_taken(traced):
    assert watched(traced, Trace().take(success=False, write=False))[0] == {}


def test_waits_are_of_ten_microseconds_or_more(traced):
    trace = Trace().call(MMAP, 0, 4096, READ_WRITE, ANONYMOUS, waits=9).call(MMAP, 0, 4096, READ_WRITE, ANONYMOUS, waits=2_000_000)
    calls = watched(traced, trace)[0]["mmap"]
    assert calls["waits"] == 1 and abs(calls["waited_us"] - 2_000_000) <= 1


def test_threads_do_not_mix(traced):
    trace = Trace().enter(MMAP, 0, 4096, READ_WRITE, ANONYMOUS, tid=12).take(write=False, tid=13).take(tid=12).leave(MMAP, 0x7F0000000000, tid=12)
    assert {name: (one["read"], one["write"]) for name, one in watched(traced, trace)[0].items()} == {"mmap": (0, 1), "faults and other calls": (1, 0)}


def test_other_memory_is_not_counted(traced):
    """A child of fork() has a copy, and its own mmap_lock; one of vfork() has its parent's."""
    trace = Trace().call(CLONE).call(MMAP, 0, 4096, READ_WRITE, ANONYMOUS, tid=99, mm="00000000c0ffee00").call(BRK, 1, tid=98)
    assert set(watched(traced, trace)[0]) == {"clone", "brk"}


def test_lost_events_are_told_and_what_threads_do_is_forgotten(traced):
    trace = Trace().enter(MMAP, 0, 4096, READ_WRITE, ANONYMOUS).lost(45).take()
    calls, got = watched(traced, trace)
    assert got["lost"] == 45 and set(calls) == {"faults and other calls"}
    assert "45 events were lost" in run(traced, Trace().lost(45)).stdout


def test_lines_that_are_none_of_the_events_are_passed_over(traced):
    trace = Trace().mmap(4096)
    trace.lines += ["\n", "# tracer: nop\n", f"{'x':>16}-12 [000] nonsense\n", "x" * 70000 + "\n", "CPU:3 [LOST]\n"]
    assert set(watched(traced, trace.call(BRK, 1))[0]) == {"mmap", "brk"}


# --- what would fit a region

@pytest.mark.parametrize("size, protection, flags, address, fit", [
    (4096, READ_WRITE, ANONYMOUS, 0, 1),
    (4096, NONE, ANONYMOUS | NORESERVE, 0, 1),
    (8 * MIB, NONE, ANONYMOUS | STACK, 0, 1),
    (16 * GIB, READ_WRITE, ANONYMOUS, 0, 1),
    (16 * GIB + 1, READ_WRITE, ANONYMOUS, 0, 0),
    (4096, READ, ANONYMOUS, 0, 0),
    (4096, ALL, ANONYMOUS, 0, 0),
    (4096, READ_WRITE, 0x02, 0, 0),                              # a file
    (4096, READ_WRITE, 0x21, 0, 0),                              # shared
    (4096, READ_WRITE, ANONYMOUS | 0x8000, 0, 0),                # MAP_POPULATE
    (4096, READ_WRITE, ANONYMOUS, 0x10000000, 0),                # a hint
    (4096, READ_WRITE, ANONYMOUS | FIXED, 0x10000000, 1),        # inside memory of that kind
    (4096, NONE, ANONYMOUS | FIXED, 0x1FFFF000, 1),
    (8192, NONE, ANONYMOUS | FIXED, 0x1FFFF000, 1),              # of two kinds
    (8192, NONE, ANONYMOUS | FIXED, 0x2FFFF000, 0),              # beyond its end
    (4096, READ_WRITE, ANONYMOUS | FIXED, 0x60000000, 0),
    (4096, READ_WRITE, ANONYMOUS | 0x100000, 0x10000000, 0),     # FIXED_NOREPLACE
    (0, READ_WRITE, ANONYMOUS, 0, 0),
])
def test_mmap_that_fits(traced, size, protection, flags, address, fit):
    assert fits(traced, Trace().mmap(size, protection, flags, address)) == {"mmap": fit}


@pytest.mark.parametrize("flags, size, fit", [(0, 2 * MIB - 4096, 1), (0, 2 * MIB, 0), (STACK, 2 * MIB, 1)])
def test_mmap_where_huge_pages_are_always(traced, flags, size, fit):
    directory = traced.sys / "kernel/mm/transparent_hugepage"
    directory.mkdir()
    (directory / "enabled").write_text("[always] madvise never\n")
    assert fits(traced, Trace().mmap(size, flags=ANONYMOUS | flags)) == {"mmap": fit}


@pytest.mark.parametrize("number, arguments, fit", [
    (MUNMAP, (0x10000000, 4096), 1),
    (MUNMAP, (0x1FFFF000, 8192), 1),
    (MUNMAP, (0x50000000, 0x10000), 1),
    (MUNMAP, (0x2FFFF000, 8192), 0),
    (MUNMAP, (0x00400000, 4096), 0),
    (MUNMAP, (0x00600000, 4096), 0),
    (MUNMAP, (0x40000000, 4096), 0),
    (MUNMAP, (0x10000000, 0), 0),
    (MPROTECT, (0x20000000, 4096, READ_WRITE), 1),
    (MPROTECT, (0x10000000, 4096, READ_WRITE), 1),
    (MPROTECT, (0x20000000, 4096, NONE), 1),
    (MPROTECT, (0x10000000, 4096, NONE), 0),
    (MPROTECT, (0x1FFFF000, 8192, NONE), 0),
    (MPROTECT, (0x20000000, 4096, READ), 0),
    (MPROTECT, (0x30000000, 4096, READ_WRITE), 0),
    (MREMAP, (0x10000000, 4096, 8192, 1), 0),
    (BRK, (0x700000,), 0),
])
def test_calls_that_fit(traced, number, arguments, fit):
    assert list(fits(traced, Trace().call(number, *arguments)).values()) == [fit]


@pytest.mark.parametrize("number, arguments", [
    (MUNMAP, (0x10000000, 4096)), (MPROTECT, (0x10000000, 4096, READ)), (MREMAP, (0x10000000, 4096, 8192, 1)), (MADVISE, (0x10000000, 4096, 14)),
    (149, (0x10000000, 4096)),
])
def test_what_a_call_takes_out_of_a_region_is_out(traced, number, arguments):
    trace = Trace().call(number, *arguments, result=0x60000000).call(MUNMAP, 0x10001000, 4096).call(MUNMAP, 0x10000000, 4096)
    assert watched(traced, trace)[0]["munmap"]["fits"] == (2 if number == MUNMAP else 1)


def test_memory_that_a_call_gives_is_in_a_region(traced):
    at = 0x7F1234560000
    trace = Trace().mmap(8192, result=at).call(MUNMAP, at, 8192).call(MUNMAP, at, 8192)
    assert fits(traced, trace) == {"mmap": 1, "munmap": 1}


def test_memory_that_a_call_did_not_give_is_not(traced):
    assert fits(traced, Trace().mmap(8192, result=-12).call(MUNMAP, 2 ** 64 - 12 & ~4095, 4096)) == {"mmap": 1, "munmap": 0}


def test_a_large_reservation_is_a_region_though_its_mmap_is_not_in_one(traced):
    at = 0x7E0000000000
    trace = Trace().mmap(17 * GIB, NONE, result=at).call(MPROTECT, at + GIB, MIB, READ_WRITE).call(MPROTECT, at + GIB, MIB, NONE)
    assert fits(traced, trace) == {"mmap": 0, "mprotect": 1}


@pytest.mark.parametrize("name, says", [("Max address space", "RLIMIT_AS"), ("Max data size", "RLIMIT_DATA")])
def test_nothing_fits_under_a_limit(traced, name, says):
    (traced.proc / "12/limits").write_text(LIMITS.replace(f"{name:<26}unlimited", f"{name:<26}1000000  "))
    calls, got = watched(traced, Trace().mmap(4096))
    assert calls["mmap"]["fits"] == 0 and says in got["limit"]


# --- what is told

@pytest.mark.parametrize("trace, says", [
    (Trace(), "Nothing to gain: no thread has taken mmap_lock."),
    (Trace().mmap(4096), "Little to gain: threads have waited for mmap_lock for 0 %"),
    (Trace().call(BRK, 1, waits=100_000).mmap(4096, READ), "but only 0 % of the acquisitions for writing, most of them of mmap"),
    (Trace().call(MMAP, 0, 4096, READ_WRITE, ANONYMOUS, waits=100_000), "and 100 % of the acquisitions for writing, most of them of mmap, are of plain anonymous memory"),
])
def test_advice(traced, trace, says):
    assert says in watched(traced, trace)[1]["sentence"]


def test_the_table(traced):
    lines = run(traced, Trace().mmap(4096).call(BRK, 1, waits=20)).stdout.splitlines()
    assert lines[0].startswith("process 12 (server), traced for 0.2 s")
    assert [line.split() for line in lines[4:]] == [
        ["CALL", "READ", "WRITE", "FITS", "WAITS", "WAITED-US"], ["mmap", "0", "1", "1", "0", "0"], ["brk", "0", "1", "0", "1", lines[6].split()[-1]],
        ["all", "0", "2", "1", "1", lines[6].split()[-1]], [], "50.0 % of the acquisitions for writing would fit a region.".split()]


def test_a_line_of_csv_for_each_call(traced):
    lines = run(traced, Trace().mmap(4096).call(BRK, 1), "--csv").stdout.splitlines()
    assert lines[0].startswith("pid,comm,") and lines[0].endswith(",call,read,write,fits,waits,waited_us") and len(lines) == 3


# --- how the kernel is asked

def test_the_trace_is_of_the_threads_and_of_few_calls(traced):
    assert run(traced, Trace()).returncode == 0
    files = own_files(traced)
    assert (files / "set_event_pid").read_text() in ("12 13", "13 12")
    assert (files / "options/event-fork").read_text() == "1" and (files / "tracing_on").read_text() == "0"
    for event in EVENTS:
        assert (files / "events" / event / "enable").read_text() == "1"
    wanted = (files / "events/raw_syscalls/sys_enter/filter").read_text()
    assert wanted.startswith("id == 9 || ") and wanted == (files / "events/raw_syscalls/sys_exit/filter").read_text() and len(wanted) < 4096


@pytest.mark.parametrize("gone, says", [
    ("", "Mount it: mount -t tracefs tracefs"), ("mmap_lock/mmap_lock_start_locking", "this kernel has no event mmap_lock/mmap_lock_start_locking"),
    ("raw_syscalls/sys_enter", "this kernel has no event raw_syscalls/sys_enter"),
])
def test_a_kernel_that_lacks_what_is_needed(traced, gone, says):
    events = traced.sys / "kernel/tracing/events"
    (events / gone).rename(traced.sys / "gone")
    done = run(traced, Trace())
    assert done.returncode == 2 and says in done.stderr and not done.stdout


def test_a_trace_that_cannot_be_made(traced):
    (traced.sys / "kernel/tracing/instances").rmdir()
    done = traced.run("explain", "--locks", 12)
    assert done.returncode == 2 and "cannot make a trace of its own" in done.stderr


def test_a_process_that_is_not_there(traced):
    done = traced.run("explain", "--locks", 77)
    assert done.returncode == 2 and "no process 77" in done.stderr


def test_a_program_of_32_bits(traced):
    (traced.proc / "12/exe").write_bytes(b"\x7fELF\x01")
    done = run(traced, Trace())
    assert done.returncode == 2 and "32 bits" in done.stderr


@pytest.mark.parametrize("words", [("--all",), ("12", "--tables"), ()])
def test_one_process_alone(traced, words):
    assert traced.run("explain", "--locks", *words).returncode == 2


def test_no_hydra_is_needed(traced):
    traced.hydra.rename(traced.sys / "gone")
    assert run(traced, Trace().mmap(4096)).returncode == 0


def test_an_end_ahead_of_time(traced):
    """Ctrl-C shows what was seen until then."""
    with subprocess.Popen([str(traced.program), "explain", "--locks", "12", "--seconds", "60"], env=traced.environment(), text=True,
                          stdout=subprocess.PIPE, preexec_fn=instance(traced, Trace().mmap(4096))) as running:
        deadline = time.monotonic() + 30
        enabled = traced.sys / "kernel/tracing/instances" / f"hydractl-{running.pid}" / "events" / EVENTS[0] / "enable"
        while time.monotonic() < deadline and not (enabled.exists() and enabled.read_text() == "1"):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=30)[0]
    assert running.returncode == 0 and "mmap" in said
