# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command that ends with the lab, at the latest: python3 leash.py FD COMMAND…

The lab starts leash.py as the leader of a new process group and holds the other end of the pipe FD. When the lab ends, in
whatever way, the pipe closes, and leash.py kills the whole group (COMMAND, QEMU, all processes).
"""
import os
import select
import signal
import subprocess
import sys


def main():
    leash = int(sys.argv[1])
    child = subprocess.Popen(sys.argv[2:])
    events = select.poll()
    events.register(leash, select.POLLHUP)
    ended = os.pidfd_open(child.pid)
    events.register(ended, select.POLLIN)
    ready = [fd for fd, _ in events.poll()]
    if ended not in ready:
        os.killpg(0, signal.SIGKILL)
    status = child.wait()
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
