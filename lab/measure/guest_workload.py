# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the virtual machine: runs a user's command under each policy, and counts.

Standard library only, any Python 3.9 or later. The plan is a JSON list of {"doing", "settings"}: the settings are words for
hydractl stat, which runs the command in a shell. Prints {"doing"} before each step, and after it {"step": its number, "said":
{metric: value}, "output": the end of what the command printed}, one JSON object per line. A step with "warm" is not counted.
Messages go to stderr; the exit status is 1 if the command fails.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

EVENTS = re.compile(r"^(nr_tlb_\w+) (\d+)$", re.M)      # of /proc/vmstat, with CONFIG_DEBUG_TLBFLUSH
LOOK = 0.05                  # seconds between two looks at the memory of page tables
SHOWN = 2000                 # bytes of the command's output in a message


def put(**fields):
    print(json.dumps(fields), flush=True)


def tlb_events(path="/proc/vmstat"):
    return {name: int(number) for name, number in EVENTS.findall(pathlib.Path(path).read_text(encoding="ascii"))}


def page_tables_kib(path="/proc/meminfo"):
    """Page tables of all processes, copies included."""
    return int(re.search(r"^PageTables: +(\d+) kB", pathlib.Path(path).read_text(encoding="ascii"), re.M)[1])


class Peak(threading.Thread):
    """Looks at the memory of page tables until the block ends."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = self.most = page_tables_kib()
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(LOOK):
            self.most = max(self.most, page_tables_kib())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def counted(hydractl, settings, command, home):
    """Run the command once; returns (its counts, the end of its output), or (None, a message)."""
    summary, output = home / "summary", home / "output"
    words = [hydractl, "stat", "--json", "--output", str(summary), *settings, "--", "/bin/sh", "-c", command]
    events = tlb_events()
    environment = {name: value for name, value in os.environ.items() if name != "HYDRA_OUT"}
    with open(output, "wb") as sink, Peak() as peak:
        status = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=environment, check=False).returncode
    events = {name: number - events[name] for name, number in tlb_events().items()}
    said = output.read_bytes()[-SHOWN:].decode(errors="replace")
    if status:
        return None, f"exit status {status}; the end of its output:\n{said}"
    seen = json.loads(summary.read_text(encoding="utf-8"))
    numbers = {name: value for name, value in seen.items() if isinstance(value, (int, float)) and name != "status"}
    return {**numbers, **events, "pagetable_kib": peak.most - peak.before}, said


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
