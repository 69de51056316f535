# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command and never lets it outlive the lab: python3 leash.py FD COMMAND…

The lab starts this as the leader of a new process group and holds the other end of the pipe FD. If the lab
dies, however it dies, the pipe closes and the whole group (COMMAND, QEMU, all of it) is killed.
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
