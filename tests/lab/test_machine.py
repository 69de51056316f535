# SPDX-License-Identifier: GPL-2.0-only
"""./hydra run with real virtual machines: needs the built kernel."""
import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import time

import pytest

pytestmark = pytest.mark.machine

HYDRA = pathlib.Path(__file__).resolve().parents[2] / "hydra"
SMALL = ["--nodes", "2", "--cpus-per-node", "1", "--memory", "1G"]


def hydra_run(*arguments, **options):
    return subprocess.run([HYDRA, "run", *SMALL, *arguments], capture_output=True, text=True, check=False, timeout=600, **options)


def emulators_below(pid):
    """The QEMUs among the descendants of a process."""
    found, look = [], [pid]
    while look:
        parent = look.pop()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):      # the process may end during the look
            for children in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
                look += map(int, children.read_text().split())
            if "qemu" in pathlib.Path(f"/proc/{parent}/comm").read_text():
                found.append(parent)
    return found


def test_nodes_output_input_arguments_and_status(tmp_path):
    (tmp_path / "seen").write_text("a file of the host\n")
    command = ('cat seen; cat; printf "<%s>" "$@"; echo; ls -d /sys/devices/system/node/node*; '
               'echo out >$HYDRA_OUT/left; echo err >&2; exit 7')
    done = hydra_run("--out", "results", "--", "sh", "-c", command, "sh", "a  b", "'$HOME\"", cwd=tmp_path, input="from stdin\n")
    assert done.returncode == 7, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["a file of the host", "from stdin", "<a  b><'$HOME\">"]
    assert lines[3:] == [f"/sys/devices/system/node/node{n}" for n in (0, 1)]
    assert "err" in done.stderr.splitlines()
    assert "booting 2 nodes of 1 CPUs" in done.stderr
    assert (tmp_path / "results" / "left").read_text() == "out\n"


def test_a_command_on_the_terminal():
    child, terminal = pty.fork()
    if not child:
        os.execv(HYDRA, [HYDRA, "run", *SMALL, "--shell", "--", "sh", "-c", "tty; read line; echo got $line; no-such-command-anywhere"])
    os.write(terminal, b"word\n")
    seen = b""
    with contextlib.suppress(OSError):       # the terminal disappears with the last process
        while data := os.read(terminal, 4096):
            seen += data
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 127, seen
    assert b"/dev/pts/" in seen and b"got word" in seen and b"not found" in seen


def test_a_kernel_crash_is_printed_and_ends_the_machine():
    done = hydra_run("--", "sh", "-c", "echo before; echo c >/proc/sysrq-trigger; sleep 600")
    assert done.returncode == 70
    assert "before" in done.stdout and "sysrq triggered crash" in done.stderr


def test_a_time_limit_ends_the_machine():
    """The limit counts from the start of the machine, which may still boot."""
    done = hydra_run("--timeout", "10", "--", "sleep", "900")
    assert done.returncode == 124 and "time limit" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_machine_is_left_when_the_lab_ends(how):
    lab = subprocess.Popen([HYDRA, "run", *SMALL, "--", "sleep", "900"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    emulators = []
    for _ in range(1200):
        assert lab.poll() is None, "the lab ended before its machine ran"
        emulators = emulators_below(lab.pid)
        if emulators:
            break
        time.sleep(0.1)
    assert emulators, "no QEMU was started"
    lab.send_signal(how)
    assert lab.wait(60) != 0
    for _ in range(600):
        if not any(os.path.exists(f"/proc/{pid}") for pid in emulators):
            return
        time.sleep(0.1)
    pytest.fail("QEMU outlived the lab")
