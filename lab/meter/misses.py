# SPDX-License-Identifier: GPL-2.0-only
"""Page walks by a model of TLBs (lab/meter/misses_plugin.c): which of them read a leaf table of the CPU's own node."""
import bisect
import re

from lab.errors import LabError
from lab.machine import programs

DOMAIN = re.compile(r"(\d+) node (\d+) cpus (\S+)")                       # of /sys/kernel/mm/hydra/domains
RANGE = re.compile(r"domain (\d+) start (0x\w+) end (0x\w+) node (\d+)")    # of /proc/PID/hydra_map


def plugin():
    """The words for QEMU; the machine's directory has the samples then.

    There is room for all translated code: QEMU 7.2 may end when it throws code away that has callbacks for memory accesses.
    """
    return ("-accel", "tcg,thread=single,tb-size=2047", "-plugin", f"{programs.misses_plugin()},out=DIRECTORY/samples")


def cpus_of(text):
    """The numbers of a list like 0-2,5."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def matched(pattern, lines, file):
    found = [pattern.match(line) for line in lines]
    if None in found:
        raise LabError(f"{file} says '{lines[found.index(None)]}'")
    return [match.groups() for match in found]


def homes_of(lines):
    """{CPU: (its domain, its node)}."""
    return {cpu: (int(domain), int(node)) for domain, node, cpus in matched(DOMAIN, lines, "/sys/kernel/mm/hydra/domains") for cpu in cpus_of(cpus)}


def ranges_of(lines):
    """{domain: [(first address, the one behind the last, node)] in order}."""
    made = {}
    for domain, start, end, node in matched(RANGE, lines, "/proc/PID/hydra_map"):
        made.setdefault(int(domain), []).append((int(start, 16), int(end, 16), int(node)))
    return {domain: sorted(ranges) for domain, ranges in made.items()}


def node_at(ranges, address):
    """The node of the leaf table; None: the map has none."""
    at = bisect.bisect(ranges, (address, float("inf"))) - 1
    return ranges[at][2] if at >= 0 and address < ranges[at][1] else None


def walks(sample, hydra_map, domains):
    """How many walks read a leaf table of the CPU's node, or of another; elsewhere: of memory that the map does not have, as that of other programs."""
    if sample["left_out"]:
        raise LabError(f"the plugin has no room for {sample['left_out']} walks: give the program fewer leaf tables")
    homes, ranges = homes_of(domains), ranges_of(hydra_map)
    made = {"near": 0, "far": 0, "elsewhere": 0, "accesses": 0, "invalidated": 0}
    for cpu in sample["cpus"]:
        if cpu["cpu"] not in homes:
            raise LabError(f"CPU {cpu['cpu']} is in no domain")
        domain, own = homes[cpu["cpu"]]
        for address, number in cpu["tables"]:
            node = node_at(ranges.get(domain, []), address)
            made["elsewhere" if node is None else "near" if node == own else "far"] += number
        for metric in ("accesses", "invalidated"):
            made[metric] += cpu[metric]
    return made
