# SPDX-License-Identifier: GPL-2.0-only
"""When the lab ends, in whatever way, its children and grandchildren end, too."""
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from lab import children
from lab.errors import LabError

REPO = pathlib.Path(__file__).resolve().parents[2]


def alive(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition, what):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"waited 30 s for: {what}")


@pytest.fixture
def lab(tmp_path):
    """A program like the lab with a machine: a child, and a grandchild in the background; yields the Popen and both ids."""
    pids = tmp_path / "pids"
    program = textwrap.dedent(f"""
        from lab import children
        children.die_by_exception()
        with children.leashed(["sh", "-c", "sleep 600 & echo $! $$ >{pids}.part; mv {pids}.part {pids}; wait"]) as child:
            child.wait()
        """)
    environment = dict(os.environ, PYTHONPATH=str(REPO))
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    wait_until(pids.exists, "the children to start")
    yield process, [int(pid) for pid in pids.read_text().split()]
    process.kill()
    process.wait()


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(lab, signal_):
    process, pids = lab
    assert all(map(alive, pids))
    process.send_signal(signal_)
    process.wait(timeout=60)
    wait_until(lambda: not any(map(alive, pids)), "all children to be gone")


def test_nothing_is_left_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with children.leashed(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as child:
            pid = int(child.stdout.readline())
            assert alive(pid)
            raise ZeroDivisionError
    wait_until(lambda: not alive(pid), "the child to be gone")


def test_what_a_command_leaves_behind_goes_with_it():
    with children.leashed(["sh", "-c", "sleep 600 & echo $!"], stdout=subprocess.PIPE, text=True) as child:
        pid = int(child.stdout.readline())
        assert child.wait() == 0
    wait_until(lambda: not alive(pid), "the grandchild to be gone")


@pytest.mark.parametrize("command, status", [(["true"], 0), (["sh", "-c", "exit 77"], 77), (["sh", "-c", "kill -9 $$"], 137)])
def test_exit_status_passes_through(command, status):
    assert children.run(command)[0] == status


@pytest.mark.parametrize("script, said", [
    ("echo CC lib/error.o; echo 'x.c:1: error: no' >&2; echo make: leaving; exit 2", "making x failed:\n    x.c:1: error: no\n"),
    ("echo 'E: Unable to locate'; echo done; exit 1", "making x failed:\n    E: Unable to locate\n"),
    ("seq 20; exit 1", "making x failed:\n    13\n"), ("kill -9 $$", "making x failed:\n")])
def test_a_logged_command_that_fails_says_why(tmp_path, script, said):
    (tmp_path / "log").write_text("an error: of before\n")
    with pytest.raises(LabError) as caught:
        children.logged("making x", ["sh", "-c", script], tmp_path / "log", append=True)
    assert str(caught.value).startswith(said) and f"The whole log: {tmp_path / 'log'}" in str(caught.value)
    assert "of before" not in str(caught.value)


def test_a_logged_command_that_succeeds(tmp_path):
    seen = []
    children.logged("making x", ["sh", "-c", "echo 'no error'; echo more >&2"], tmp_path / "log", seen.append)
    assert seen == ["no error", "more"] and (tmp_path / "log").read_text() == "no error\nmore\n"


def test_both_streams_are_caught():
    assert children.run(["sh", "-c", "echo out; echo err >&2"]) == (0, "out\nerr\n")
