# SPDX-License-Identifier: GPL-2.0-only
"""Child processes that end when the lab ends: on success, on error, on Ctrl-C, on SIGTERM, on SIGKILL."""
import contextlib
import os
import signal
import subprocess
import sys

from lab import paths


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
    """A Popen of the command in a process group of its own, of which nothing is left after the block."""
    held, given = os.pipe()
    # The child holds the reading end: it hangs up when the last writing end, ours, is gone.
    child = None
    try:
        child = subprocess.Popen([sys.executable, str(paths.REPO / "lab" / "leash.py"), str(held), *command],
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
    """Like subprocess.run(check=False), on a leash; returns (status, output) with both streams in the output."""
    with leashed(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as child:
        output = child.stdout.read().decode(errors="replace")
        return child.wait(), output
