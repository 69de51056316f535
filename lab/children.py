# SPDX-License-Identifier: GPL-2.0-only
"""Child processes that end when the lab ends: on success, on error, on Ctrl-C, on SIGTERM, on SIGKILL."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

from lab import paths
from lab.errors import LabError

# Lines in which compilers, make, apt and pip give the reason of a failure.
REASON = re.compile(r"\berror:|\berror \d|\*\*\*|undefined reference|multiple definition|No space left|^E:", re.I)


def die_by_exception():
    """SIGTERM and SIGHUP unwind the program as Ctrl-C does, so that every 'finally' runs."""
    def unwind(number, _frame):
        raise SystemExit(128 + number)
    signal.signal(signal.SIGTERM, unwind)
    signal.signal(signal.SIGHUP, unwind)


def kill_group(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def leashed(command, **options):
    """A Popen of the command in a new process group; after the block, every process of the group has ended."""
    held, given = os.pipe()
    # The child holds the reading end, and sees the end of the pipe when the lab's writing end is closed.
    child = None
    try:
        child = subprocess.Popen([sys.executable, str(paths.REPO / "lab/leash.py"), str(held), *command],
                                 pass_fds=[held], start_new_session=True, **options)
        os.close(held)
        held = -1
        yield child
    finally:
        if child is not None:
            kill_group(child.pid)
            child.wait()
        for end in (held, given):
            if end >= 0:
                os.close(end)


def run(command, **options):
    """Like subprocess.run(check=False), but nothing outlives the lab; returns (status, output) with both streams in the output."""
    with leashed(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as child:
        output = child.stdout.read().decode(errors="replace")
        return child.wait(), output


def reasons(text, pattern=REASON):
    """The lines of a command's output that give the reason of a failure; the last lines if no line does."""
    lines = text.splitlines()
    return [line for line in lines if pattern.search(line)][:12] or lines[-8:]


def logged(what, command, log, on_line=lambda line: None, append=False, **options):
    """Run a command and keep both streams in a log; on_line is called with each line.

    If the command fails, a LabError names what (as in "building the kernel"), the reason and the log.
    """
    log = pathlib.Path(log)
    begun = log.stat().st_size if append and log.exists() else 0
    with open(log, "ab" if append else "wb") as sink, \
            leashed(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as child:
        for line in child.stdout:
            sink.write(line)
            on_line(line.decode(errors="replace").rstrip("\n"))
        status = child.wait()
    if status:
        text = log.read_bytes()[begun:].decode(errors="replace")
        raise LabError(f"{what} failed:\n    " + "\n    ".join(reasons(text)), f"The whole log: {log}")
