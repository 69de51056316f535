# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the lab's machine: where the entries are that a page walk of a virtual machine reads last.

A machine with a virtual CPU on each node runs walks_inner.c. It sees the nodes, with memory on each; or it sees one node, and
memory from anywhere, and groups its CPUs (--groups). When each of its CPUs has used all data, the machine stops for a look. Prints one line
of JSON: for each node and for all pages of data, how many have both entries on the node, one, or none; and what a munmap in the
guest costs the host.

A page counts by the nested table in which its entry is, or will be: the kernel tells of tables, not of entries. The guest's page
tables are read out of QEMU's memory, from those that the virtual CPUs have loaded.

Standard library only, any Python 3.9 or later. Messages go to stderr; the exit status is 1 if the measurement could not be made.
"""
import argparse
import collections
import ctypes
import os
import pathlib
import re
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import guest_inner  # noqa: E402

NODE_MIB = 128
QUIET = 2                    # seconds in which the machine does nothing, for the exits of its clocks
READY = re.compile(r"^walks: threads (\d+) data (0x[0-9a-f]+) pages (\d+) active (-?\d+)\n", re.M)
UNMAPPED = re.compile(r"^walks: munmaps (\d+) interrupts (\d+)\n", re.M)
DOMAINS = pathlib.Path("/sys/kernel/mm/hydra/domains")
PAGE = 4096
PRESENT, HUGE_PAGE, ADDRESS = 1, 1 << 7, 0x000ffffffffff000     # of an entry
ENTRIES, LEVEL_BITS = 512, 9                                     # of a table, in the guest and nested
HUGE_LEVELS = 3                                                  # entries of higher levels map no page
LA57, LMA = 1 << 12, 1 << 10                                     # CR4: five levels; EFER: 64-bit mode
# QEMU is asked for the place of so much memory once, if it is in one piece there, as almost always. Near the holes for devices, and
# where pieces of odd sizes meet, QEMU is asked for each page.
AREA = 2 << 20
MOVE_PAGES = 279                                                 # move_pages(2)
STAT_PROCESSOR = 39                                              # the field of /proc/PID/stat


class Memory:
    """The memory of a machine in QEMU's address space, by the guest's physical addresses."""

    def __init__(self, monitor, pid):
        self.monitor, self.pid, self.areas = monitor, pid, {}
        self.libc = ctypes.CDLL(None, use_errno=True)

    def asked_place(self, start):
        """"Host virtual address for 0x... (NAME) is 0x..."; None where there is no memory."""
        found = re.search(r"\) is (0x[0-9a-f]+)", self.monitor.human(f"gpa2hva {start:#x}"))
        return int(found[1], 16) if found else None

    def area(self, start, size):
        """The place of an area; None: no memory, or several pieces."""
        if (start, size) not in self.areas:
            place = self.asked_place(start)
            if place is not None and size > PAGE and self.asked_place(start + size - PAGE) != place + size - PAGE:
                place = None
            self.areas[start, size] = place
        return self.areas[start, size]

    def place(self, address):
        for size in (AREA, PAGE):
            place = self.area(address & -size, size)
            if place is not None:
                return place + address % size
        return None

    def table(self, address):
        """The entries of the page table there; none where there is no memory."""
        place = self.place(address)
        if place is None:
            return ()
        with open(guest_inner.PROC / str(self.pid) / "mem", "rb", buffering=0) as memory:
            return struct.unpack(f"<{ENTRIES}Q", os.pread(memory.fileno(), PAGE, place))

    def node(self, address):
        """The host's node on which the page is; negative if that is unknown."""
        place = self.place(address)
        if place is None:
            return -1
        # Without a list of nodes, move_pages(2) moves nothing and tells where the page is.
        page, status = ctypes.c_void_p(place), ctypes.c_int(-1)
        if self.libc.syscall(MOVE_PAGES, self.pid, ctypes.c_ulong(1), ctypes.byref(page), None, ctypes.byref(status), 0):
            raise OSError(ctypes.get_errno(), "cannot ask for the nodes of QEMU's memory")
        return status.value


class NestedTables:
    """The nested tables of a machine, from lines "domain D gfn 0xG level L node N entries E"; D is - in the tree that all CPUs share."""

    def __init__(self, lines):
        self.node, self.leaves = {}, {}
        for line in lines:
            found = guest_inner.pairs(line)
            table = found["domain"], int(found["level"]), int(found["gfn"], 16)
            entries = int(found["entries"])
            # A domain has a second tree if a CPU was in system management mode, as firmware is for moments. The map does not tell the
            # trees apart; the tables of that one have few entries.
            if entries > self.leaves.get(table, -1):
                self.node[table], self.leaves[table] = int(found["node"]), entries
        # The entries of a table that do not lead to another table are leaf entries.
        for domain, level, gfn in self.node:
            above = self.name(domain, level + 1, gfn)
            if self.leaves.get(above):
                self.leaves[above] -= 1

    @staticmethod
    def name(domain, level, gfn):
        return domain, level, gfn & -(1 << LEVEL_BITS * level)

    def leaf_node(self, domain, gfn):
        """The node of the table in which the last entry is, or will be, by which the domain's CPUs reach a page; None without a table, or in an empty one."""
        if not any((domain, level, 0) in self.node for level in (4, 5)):
            domain = "-"
        for level in range(1, HUGE_LEVELS + 1):
            table = self.name(domain, level, gfn)
            if table in self.node:
                return self.node[table] if self.leaves[table] else None
        return None


class Walks:
    """The pages of a domain's CPUs, by where the last entries of their walks are: the guest's first, the nested one behind it."""

    def __init__(self, memory, nested, domain, node, wanted):
        self.memory, self.nested, self.domain, self.node, self.wanted = memory, nested, domain, node, wanted
        self.vcpus, self.pages = 0, collections.Counter()

    def count_pages(self, guest, gfn, end):
        """Frames that one entry of the guest maps, by nested leaf tables."""
        while gfn < end:
            upto = min(end, (gfn // ENTRIES + 1) * ENTRIES)
            host = self.nested.leaf_node(self.domain, gfn)
            self.pages["unmapped" if host is None else guest + "rl"[host == self.node]] += upto - gfn
            gfn = upto

    def count_table(self, table, level, start=0, entries=ENTRIES):
        """A table of the guest (level 1: of small pages) whose first entry is for the virtual address start."""
        size, guest = PAGE << LEVEL_BITS * (level - 1), None
        for number, entry in enumerate(self.memory.table(table)[:entries]):
            first, end = max(start + number * size, self.wanted.start), min(start + (number + 1) * size, self.wanted.stop)
            if not entry & PRESENT or first >= end:
                continue
            if level > HUGE_LEVELS or (level > 1 and not entry & HUGE_PAGE):
                self.count_table(entry & ADDRESS, level - 1, start + number * size)
                continue
            guest = guest or "rl"[self.memory.node(table) == self.node]
            gfn = (entry & ADDRESS & -size) // PAGE
            self.count_pages(guest, gfn + first % size // PAGE, gfn + (first % size + end - first) // PAGE)

    def count(self, registers):
        """What a CPU of the domain reaches, from the page table that it has loaded. The upper half of the first table is for the guest's kernel."""
        self.vcpus += 1
        if registers["EFER"] & LMA:
            self.count_table(registers["CR3"] & ADDRESS, 5 if registers["CR4"] & LA57 else 4, entries=ENTRIES // 2)


def domain_lines(pid, name):
    """The lines of the domains in a file of the process's only virtual machine."""
    lines = (guest_inner.PROC / str(pid) / name).read_text(encoding="ascii").splitlines()
    if sum(line.startswith("vm ") for line in lines) != 1:
        raise guest_inner.Failure(f"{name}: not one virtual machine")
    return [line for line in lines if line.startswith("domain ")]


def last_cpu(pid, thread):
    """The host's CPU on which a thread ran last. The second field, the name, may be any bytes."""
    text = (guest_inner.PROC / str(pid) / "task" / str(thread) / "stat").read_bytes()
    return int(text.rpartition(b")")[2].split()[STAT_PROCESSOR - 3])


def registers_of(said):
    """Those of each virtual CPU, by its number, from "CPU#3", a newline, and lines of NAME=VALUE."""
    parts = re.split(r"CPU#(\d+)", said)
    return {int(number): {name: int(value, 16) for name, value in re.findall(r"\b(EFER|CR3|CR4)=([0-9a-f]+)", text)}
            for number, text in zip(parts[1::2], parts[2::2])}


def look(monitor, pid, wanted):
    """The walks of each domain with CPUs, for the range of virtual addresses; the machine stands still meanwhile."""
    # Where the CPUs ran last: before anything wakes them
    vcpus = {vcpu["cpu-index"]: last_cpu(pid, vcpu["thread-id"]) for vcpu in monitor.ask("query-cpus-fast")}
    monitor.ask("stop")
    registers = registers_of(monitor.human("info registers -a"))
    memory, nested = Memory(monitor, pid), NestedTables(domain_lines(pid, "hydra_vm_map"))
    # A domain without memory has its tables on another node.
    nodes = {found["domain"]: int(found["node"]) for found in map(guest_inner.pairs, domain_lines(pid, "hydra_vm_tables"))}
    walks = []
    for line in DOMAINS.read_text(encoding="ascii").splitlines():
        found = guest_inner.pairs(f"domain {line}")
        cpus = guest_inner.cpus_of(found.get("cpus", ""))
        walks.append(Walks(memory, nested, found["domain"], nodes.get(found["domain"]), wanted))
        for vcpu in [vcpu for vcpu, cpu in vcpus.items() if cpu in cpus]:
            walks[-1].count(registers[vcpu])
    monitor.ask("cont")
    if not monitor.ask("query-status")["running"]:
        raise guest_inner.Failure("the machine stays stopped")
    return [walk for walk in walks if walk.vcpus]


def command(options, directory):
    """QEMU with a CPU and memory on each of the host's nodes."""
    groups = f"hydra_groups={options.groups}" if options.groups else ""
    words = guest_inner.qemu(options, directory, options.nodes, options.nodes * NODE_MIB,
                             f"{groups} -- {options.what} {options.inner} {'rotate' if options.rotate else 'stay'}")
    for node in range(0 if options.groups else options.nodes):
        words += ["-object", f"memory-backend-ram,id=m{node},size={NODE_MIB}M,host-nodes={node},policy=bind", "-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    return words


def munmaps(machine, monitor):
    """For each munmap in the guest: CPUs interrupted there, and exits of all virtual CPUs, without those of as long a time in which the guest does nothing."""
    quiet = guest_inner.counts(monitor, "exits")["exits"]
    time.sleep(QUIET)
    before, begun = guest_inner.counts(monitor, "exits")["exits"], time.monotonic()
    guest_inner.enter(machine)
    calls, interrupts = guest_inner.numbers(guest_inner.answer(machine, UNMAPPED)[0])
    left = guest_inner.counts(monitor, "exits")["exits"] - before - (before - quiet) * (time.monotonic() - begun) / QUIET
    return {"interrupts_per_munmap": interrupts / calls, "exits_per_munmap": max(left, 0) / calls}


def seen(walks, nodes, pages):
    """For each node's CPU, its pages by the first letters of where the guest's entry is and where the nested one."""
    found = [(walk.node, walk.vcpus, sum(walk.pages.values()), walk.pages["unmapped"]) for walk in walks]
    if found != [(node, 1, pages, 0) for node in range(nodes)]:
        raise guest_inner.Failure(f"not a CPU on each of {nodes} nodes with all {pages} pages mapped: (node, CPUs, pages, unmapped) are {found}")
    return [{places: walk.pages[places] for places in ("ll", "lr", "rl", "rr")} for walk in walks]


def measure(options, directory):
    with guest_inner.started(command(options, directory), directory, options.nodes, options.groups == "pv") as (machine, monitor):
        monitor.ask("cont")
        threads, start, used, inner = guest_inner.numbers(guest_inner.answer(machine, READY)[0])
        if threads != options.nodes:
            raise guest_inner.Failure(f"{threads} threads on {options.nodes} nodes")
        active = int(guest_inner.settings(machine.pid)[0]["active"])
        walks = look(monitor, machine.pid, range(start, start + used * PAGE))
        return {"nodes": options.nodes, "pages": used, "inner": inner, "active": active, "walks": seen(walks, options.nodes, used), **munmaps(machine, monitor)}


def arguments(words=None):
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--what", choices=("uniform", "one"), required=True)
    options.add_argument("--inner", choices=("linux", "hydra"), required=True, help="the policy of the guest's program")
    options.add_argument("--nodes", type=int, required=True)
    options.add_argument("--groups", help="the machine sees one node, and has this boot parameter hydra_groups=")
    options.add_argument("--rotate", action="store_true", help="after boot, each CPU goes to the next group")
    guest_inner.add_arguments(options)
    return options.parse_args(words)


if __name__ == "__main__":
    sys.exit(guest_inner.run(measure, arguments()))
