# SPDX-License-Identifier: GPL-2.0-only
"""Whole programs under each policy: what is counted while one works, and what is said when one fails."""
import json
import os
import subprocess
import sys
import time

import pytest

from lab import paths
from lab.bench import core, programs as bench_programs
from lab.guest import guest_apps
from lab.measure import report

GUEST = paths.REPO / "lab/guest/guest_apps.py"


def guest(*words):
    return subprocess.run([sys.executable, "-I", str(GUEST), *words], capture_output=True, text=True, check=False)


def test_a_program_works_and_is_counted():
    done = guest("make", str(paths.REPO / "tools/hydractl"), "text.o")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert set(seen) == {"interrupts", "pagetable_kib", "seconds"} and seen["seconds"] > 0     # the other counts are the whole host's


def test_a_program_that_fails_is_named():
    done = guest("make", "/nowhere")
    assert done.returncode == 1 and not done.stdout and "failed: [['make'" in done.stderr
    done = guest("cache", "/bin/false")
    assert done.returncode == 1 and "/bin/false ended with status 1" in done.stderr


def test_work_that_does_not_end(monkeypatch):
    monkeypatch.setattr(guest_apps, "SECONDS", 0)
    with pytest.raises(guest_apps.Failure, match="more than 0 seconds"):
        guest_apps.measure(lambda: (lambda: False, []), 0)
    with pytest.raises(guest_apps.Failure, match="never: not after 0 seconds"):
        guest_apps.until(lambda: False, "never", seconds=0)


def test_a_server_that_ends_leaves_no_child_with_the_output():
    """Its reader would wait for ever."""
    server = subprocess.Popen(["sh", "-c", "sleep 60 & trap \"kill $!; exit\" TERM; echo started; wait"], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "started\n"
    begun = time.monotonic()
    guest_apps.end(server)
    assert server.stdout.read() == "" and time.monotonic() - begun < 50 and server.returncode is not None


def entries(**interrupts):
    """The values of a bench whose programs were interrupted so often under each policy (10, unless named)."""
    said = {"pagetable_kib": 100, "seconds": 2.0}
    return core.entries_of(bench_programs.BENCH, [{"step": number, "said": {"interrupts": interrupts.get(step.policy, 10), **said}}
                                                   for number, step in enumerate(bench_programs.BENCH.steps)])


def test_more_interrupts_than_linux_are_reported_and_fail_nothing(capsys):
    checks = core.checked(bench_programs.BENCH, entries(hydra=11, abis=9))
    assert len(checks) == 6 * len(bench_programs.CASES)
    assert [check.text.split(":")[0] for check in checks if not check.passed] == [f"{case}, Hydra" for case in bench_programs.CASES]
    assert report.verdicts(checks) == 0 and "above" in capsys.readouterr().out


def test_a_value_that_is_missing_fails():
    (failed,) = core.checked(bench_programs.BENCH, entries()[1:])
    assert failed.asserted and not failed.passed and "missing: programs redis linux interrupts" in failed.seen


def test_every_program_has_words_for_its_user():
    assert all(what and words.endswith(".") for _, what, words in bench_programs.CASES.values())
    assert {words[0] for words, _, _ in (*bench_programs.CASES.values(), *bench_programs.SWEEPS.values())} == set(guest_apps.WORKS)


def test_the_files_from_elsewhere_are_words_of_the_commands(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_programs.setup, "unpacked", lambda package: tmp_path / package)
    monkeypatch.setattr(bench_programs.programs, "java", lambda: tmp_path)
    words = {word for step in bench_programs.BENCH.steps for word in step.command}
    assert {path.name for path in bench_programs.made()} == {"memcached", "Allocating.class"} <= words


PROTECTED = """
import ctypes, os, select, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
pieces = [libc.malloc(1 << 20) for _ in range(2)]

def rights():
    found = set()
    for line in open("/proc/self/maps"):
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        found |= {line.split()[1] for piece in pieces if begin <= piece < end}
    return found

def wake():
    while rights() != {"r--p"}:
        pass
    os.write(ends[1], b"x")

ends = os.pipe()
waiting = select.epoll()
waiting.register(ends[0], select.EPOLLIN)
for _ in range(3):
    threading.Thread(target=wake).start()
    waiting.poll()
    os.read(ends[0], 1)
    print(rights() == {"rw-p"}, flush=True)
"""


def test_a_store_is_writable_only_between_two_waits():
    """The other thread wakes the first one when it has seen the store read-only."""
    from lab.machine import programs
    done = subprocess.run([sys.executable, "-I", "-c", PROTECTED], env={**os.environ, "LD_PRELOAD": str(programs.workloads() / "protect_store.so")},
                          capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "True\nTrue\nTrue\n"), done.stderr
