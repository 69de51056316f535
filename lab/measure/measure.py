# SPDX-License-Identifier: GPL-2.0-only
"""Boots the machines of the demo, has guest_measure.py make the measurements there, and collects the values."""
import dataclasses
import json
import shutil
import statistics
import sys

from lab import paths, progress
from lab.errors import LabError
from lab.kernel import build
from lab.machine import console, programs, vm
from lab.policies import POLICIES

EIGHT_NODES = vm.Machine(nodes=8, cpus_per_node=2, memory="2G")
FOUR_NODES = vm.Machine(nodes=4, cpus_per_node=2, memory="2G")

# name: (machine, what it measures). Rows with the same machine share one boot in the demo.
ROWS = {
    "mprotect": (EIGHT_NODES, "protect and unprotect one page in a loop, with and without spinning threads"),
    "munmap": (EIGHT_NODES, "map, touch and unmap one page in a loop, with and without spinning threads"),
    "apache": (FOUR_NODES, "Apache serving a 16 KiB page to wrk: shootdowns per request, requests per second"),
    "locality": (FOUR_NODES, "where page-table entries are read from, for shared and for private data"),
}
RUNS = 3                     # where times are compared, the policies take turns so often, and the median counts
TIME_LIMIT = 900             # seconds for one boot's measurements

# Metrics that serve the comparison with the limits, not the published list.
INTERNAL = {"pagetable_kib_before", "domains_without_tables"}


def steps(row, policies=POLICIES, runs=None):
    """How many steps guest_measure.py announces for a row; with runs, everything is repeated so often."""
    loops, timed = {"mprotect": (2, 1), "munmap": (2, 1), "apache": (3, 3), "locality": (2, 1)}[row]
    if runs is not None:
        starts = loops if row == "apache" else 0
        return len(policies) * (starts + runs * (timed + loops - starts))
    return len(policies) * (loops + RUNS * timed)


class Collector:
    """Takes the guest's output as it comes, whatever the pieces, and sorts it."""

    def __init__(self, bar):
        self.bar = bar
        self.rest = b""
        self.values = []

    def feed(self, data):
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in filter(None, map(bytes.strip, lines)):
            try:
                entry = json.loads(line)
            except ValueError:
                print(line.decode(errors="replace"), file=sys.stderr)
                continue
            if "doing" in entry:
                self.bar.advance(1, entry["doing"])
            else:
                self.values.append(entry)


def take(rows, bar, image, machine=None, policies=POLICIES, runs=None):
    """Make the measurements of some rows in one boot of a kernel; returns the raw values. Runs: repeat everything so often."""
    tools = [programs.hydractl(), programs.workloads() / "shootdown", programs.workloads() / "locality"]
    machine = machine or ROWS[rows[0]][0]
    command = ["/usr/bin/python3", "-I", str(paths.REPO / "lab/guest/guest_measure.py"), "--policies", ",".join(policies),
               "--runs", str(runs or RUNS), *(["--everything"] if runs else []), "--programs", *map(str, tools), "--rows", *rows]
    return run_guest(command, machine, bar, image, TIME_LIMIT * -(-(runs or RUNS) // RUNS), ", ".join(rows))


def run_guest(command, machine, bar, image, limit, what, left=None):
    """Run one of the guest's programs in a machine; returns what it printed but its steps, then the samples of a plugin of the emulator.

    Left: a new directory for the files that the program leaves in $HYDRA_OUT.
    """
    for last in (False, True):
        collector, errors = Collector(bar), bytearray()
        result = vm.run(command, machine, limit, on_output=collector.feed, on_error=errors.extend, image=image)
        if left:
            shutil.rmtree(left, ignore_errors=True)
            shutil.move(result.directory / "out", left)
        why = console.spoilt(result.console)
        if last or not why:
            break
        progress.say(f"once more: {why}")
    if result.status or result.trouble:
        said = errors.decode(errors="replace").strip()
        raise LabError(f"measuring {what} failed.\n  {said}\n  {result.trouble}".rstrip(),
                       f"The machine's console: {result.directory / 'console.log'}", result.status or 1)
    samples = result.directory / "samples"
    lines = samples.read_text(encoding="ascii").splitlines() if samples.exists() else []
    return collector.values + [{"sample": json.loads(line)} for line in lines]


def medians(values):
    """One value per row, case, policy and metric: the median where there were several runs."""
    groups = {}
    for entry in values:
        key = tuple(entry[field] for field in ("row", "case", "policy", "metric"))
        groups.setdefault(key, []).append(entry)
    return [dict(entries[0], value=statistics.median(entry["value"] for entry in entries)) for entries in groups.values()]


def measure(rows):
    """All values of some rows; one boot for each kind of machine."""
    values = []
    image = build.kernel()           # once: every boot is of the same kernel, even if its files are edited meanwhile
    with progress.counting("measuring", sum(map(steps, rows))) as bar:
        for machine in (EIGHT_NODES, FOUR_NODES):
            here = [row for row in rows if ROWS[row][0] is machine]
            if here:
                progress.say(f"booting {machine.nodes} nodes of {machine.cpus_per_node} CPUs for {', '.join(here)}")
                values += take(here, bar, image)
    return medians(values)


def numbered(values):
    """The values of repeated measurements, each with its run."""
    seen, made = {}, []
    for entry in values:
        key = tuple(entry[field] for field in ("row", "case", "policy", "metric"))
        seen[key] = seen.get(key, 0) + 1
        made.append(dict(entry, run=seen[key]))
    return made


def machine_for(row, nodes):
    """A row's machine with another number of nodes; None: its own. Of 'locality' each node has as much memory as on its own machine."""
    machine = ROWS[row][0]
    if nodes is None:
        return machine
    if nodes < 2:
        raise LabError(f"--nodes {nodes}: '{row}' compares what threads on several nodes do to each other, and needs two at least", status=2)
    machine = dataclasses.replace(machine, nodes=nodes, memory=f"{nodes * machine.node_mib()}M" if row == "locality" else machine.memory)
    machine.check()
    return machine


def alone(row, machine, policies, runs):
    """All values of one row in one boot; runs: of each run, None: the medians, as in the demo."""
    image = build.kernel()
    with progress.counting("measuring", steps(row, policies, runs)) as bar:
        progress.say(f"booting {machine.nodes} nodes of {machine.cpus_per_node} CPUs for {row}")
        made = take([row], bar, image, machine, policies, runs)
    return medians(made) if runs is None else numbered(made) if runs > 1 else made


def published(values):
    return [entry for entry in values if entry["metric"] not in INTERNAL]
