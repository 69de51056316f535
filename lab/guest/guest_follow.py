# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the lab's machine: how long page tables stay behind when a program, or a virtual machine, has moved to another node.

Starts a program of workloads/, which moves to the last node: 'moved' does so itself, 'nested' moves a virtual machine and its
memory. Each second from then on, looks which leaf entries the last node reaches in its own memory. Prints one line of JSON: the shares, by
second. 'nested' ends when its tables have followed: from then on, the share is that which it has printed.

Standard library only, any Python 3.9 or later. Messages go to stderr; the exit status is 1 if the program failed, or has not moved.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

PROC = pathlib.Path("/proc")
IDLE = pathlib.Path("/sys/kernel/mm/hydra/vm_idle_seconds")
REACHED = r"^domain \d+ node {node} .*\blocal_leaves (\d+) remote_leaves (\d+)"
OFTEN = 0.05                 # seconds between two looks for the move
# nested.c writes it once the machine's memory has moved, before its CPU goes to the last node.
AFTER_THE_MOVE = "5"


def cpus_of(node):
    text = pathlib.Path(f"/sys/devices/system/node/node{node}/cpulist").read_text(encoding="ascii").strip()
    return {cpu for part in text.split(",") for cpu in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)}


def last_node():
    return max(int(path.name[4:]) for path in pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))


def thread_moved(pid, node):
    """Has the program pinned its first thread to the node? Before it has pinned it at all, it may run there, too."""
    return os.sched_getaffinity(pid) <= cpus_of(node)


def machine_moved(_pid, _node):
    return IDLE.read_text(encoding="ascii").strip() == AFTER_THE_MOVE


def share(pid, name, node):
    """Of the leaf entries that the node's CPUs reach, those in tables of the node; None without any."""
    local, remote = map(int, re.search(REACHED.format(node=node), (PROC / str(pid) / name).read_text(encoding="ascii"), re.M).groups())
    return local / (local + remote) if local + remote else None


def shares(program, moved, name, seconds):
    """By second from the move on, as long as the program runs."""
    node, made = last_node(), []
    while not moved(program.pid, node):
        if program.poll() is not None:
            return made
        time.sleep(OFTEN)
    begun = time.monotonic()
    while len(made) <= seconds and program.poll() is None:
        try:
            seen = share(program.pid, name, node)
        except (OSError, AttributeError):        # it has just ended
            break
        if seen is not None:
            made.append(seen)
        time.sleep(max(0.0, begun + len(made) - time.monotonic()))
    return made


def at_the_end(said):
    """The last node's share, from what 'nested' has printed, lines of libraries before it; None if it printed none."""
    found = json.loads((said.splitlines() or [b"{}"])[-1])
    return found["local"][-1] / (found["local"][-1] + found["remote"][-1]) if "local" in found else None


def arguments(words=None):
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--what", choices=("program", "machine"), required=True)
    options.add_argument("--seconds", type=int, required=True)
    options.add_argument("command", nargs=argparse.REMAINDER, help="the program, with options of its own")
    return options.parse_args(words)


def main():
    options = arguments()
    moved, name = (thread_moved, "hydra_tables") if options.what == "program" else (machine_moved, "hydra_vm_tables")
    with subprocess.Popen(options.command, stdout=subprocess.PIPE) as program:
        made = shares(program, moved, name, options.seconds)
        said, _ = program.communicate()
    last = at_the_end(said) if options.what == "machine" else made[-1] if len(made) > options.seconds else None
    if program.returncode or not made or last is None:
        print(f"guest_follow.py: {' '.join(options.command)}: exit status {program.returncode}, {len(made)} looks", file=sys.stderr)
        return 1
    print(json.dumps({"shares": made + [last] * (options.seconds + 1 - len(made))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
