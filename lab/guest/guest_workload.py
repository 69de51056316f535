# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the virtual machine: runs a user's command under each policy, and counts.

Standard library only, any Python 3.9 or later. The plan is a JSON list of {"doing", "settings"}: the settings are words for
hydractl stat, which runs the command in a shell. Prints {"doing"} before each step, and after it {"step": its number, "said":
{metric: value}, "output": the end of what the command printed}, one JSON object per line. A step with "warm" is not counted.
Messages go to stderr; the exit status is 1 if the command fails.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EVENTS = re.compile(r"^(nr_tlb_\w+) (\d+)$", re.M)      # of /proc/vmstat, with CONFIG_DEBUG_TLBFLUSH
LOOK = 0.05                  # seconds between two looks at the memory of page tables
SHOWN = 2000                 # bytes of the command's output in a message


def put(**fields):
    print(json.dumps(fields), flush=True)


def tlb_events(path="/proc/vmstat"):
    return {name: int(number) for name, number in EVENTS.findall(pathlib.Path(path).read_text(encoding="ascii"))}


def descendants(pid):
    """The processes below a process that are there now."""
    found, look = [], [pid]
    while look:
        for path in pathlib.Path(f"/proc/{look.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):             # the thread has ended
                children = [int(word) for word in path.read_text(encoding="ascii").split()]
                found += children
                look += children
    return found


def page_tables_kib(pids):
    """Page tables of the processes, copies included. Unlike the machine's sum in /proc/meminfo, these counters are exact."""
    kib = 0
    for pid in pids:
        with contextlib.suppress(OSError):                 # the process has ended
            found = re.search(r"^VmPTE:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace"), re.M)
            kib += int(found[1]) if found else 0           # a process that is about to end has none
    return kib


def peak_of_page_tables(child):
    """Looks at the page tables of the processes below a process until that has ended; returns the most, in KiB."""
    most = 0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LOOK)
            return most
        most = max(most, page_tables_kib(descendants(child.pid)))


def counted(hydractl, settings, command, home):
    """Run the command once; returns (its counts, the end of its output), or (None, a message)."""
    summary, output = home / "summary", home / "output"
    words = [hydractl, "stat", "--json", "--output", str(summary), *settings, "--", "/bin/sh", "-c", command]
    events = tlb_events()
    environment = {name: value for name, value in os.environ.items() if name != "HYDRA_OUT"}
    with open(output, "wb") as sink, subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=environment) as child:
        kib = peak_of_page_tables(child)
    events = {name: number - events[name] for name, number in tlb_events().items()}
    said = output.read_bytes()[-SHOWN:].decode(errors="replace")
    if child.returncode:
        return None, f"exit status {child.returncode}; the end of its output:\n{said}"
    seen = json.loads(summary.read_text(encoding="utf-8"))
    numbers = {name: value for name, value in seen.items() if isinstance(value, (int, float)) and name != "status"}
    return {**numbers, **events, "pagetable_kib": kib}, said


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hydractl", required=True)
    options.add_argument("--command", required=True)
    options.add_argument("--plan", type=json.loads, required=True)
    options = options.parse_args()
    home = pathlib.Path(tempfile.mkdtemp(prefix="hydra-", dir="/dev/shm"))
    for number, step in enumerate(options.plan):
        put(doing=step["doing"])
        said, output = counted(options.hydractl, step["settings"], options.command, home)
        if said is None:
            print(f"{step['doing']}: the command failed: {output}", file=sys.stderr)
            return 1
        if not step.get("warm"):
            put(step=number, said=said, output=output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
