# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the lab's machine: where the entries are that a page walk of a virtual machine reads last.

A machine with a virtual CPU on each node runs walks_inner.c. It sees the nodes, with memory on each; or it sees one node, and
memory from anywhere, and groups its CPUs (--groups). When each of its CPUs has used all data, it is stopped. Its memory and the
CPUs' page-table roots say in which of the guest's tables the leaf entry of each page is, and /proc/PID/hydra_vm_map in which nested table that of
the page's address. Prints one line of JSON: for each node and for all pages of data, how many have both on the node, one, or none.

Standard library only, any Python 3.9 or later. Messages go to stderr; the exit status is 1 if the measurement could not be made.
"""
import argparse
import ctypes
import json
import mmap
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import tempfile
import time

NODE_MIB = 128
PATIENCE = 240               # seconds for the machine to boot and set up its data
READY = re.compile(r"^walks: threads (\d+) data 0x([0-9a-f]+) pages (\d+) active (-?\d+)", re.M)
PRESENT, HUGE, ADDRESS = 1, 1 << 7, 0x000ffffffffff000
LA57 = 1 << 12
PAGE = 4096
MOVE_PAGES = 279             # the number of the system call


class Failure(Exception):
    """A measurement that could not be made."""


class Monitor:
    """QEMU's machine protocol."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        for _ in range(600):
            try:
                self.socket.connect(str(path))
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise Failure("QEMU does not answer")
        self.file = self.socket.makefile("rw", encoding="utf-8")
        self.file.readline()
        self.ask("qmp_capabilities")

    def ask(self, name, **arguments):
        self.file.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.file.flush()
        for line in self.file:
            said = json.loads(line)
            if "error" in said:
                raise Failure(f"{name}: {said['error'].get('desc')}")
            if "return" in said:
                return said["return"]
        raise Failure(f"QEMU has ended during {name}")

    def registers(self):
        return self.ask("human-monitor-command", **{"command-line": "info registers -a"})


def node_cpus(node):
    cpus = set()
    for part in pathlib.Path(f"/sys/devices/system/node/node{node}/cpulist").read_text(encoding="ascii").strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def command(options, directory):
    """QEMU with a CPU and memory on each of the host's nodes, stopped at first."""
    groups = f"hydra_groups={options.groups}" if options.groups else ""
    words = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", options.processor, "-smp", str(options.nodes), "-m", f"{options.nodes * NODE_MIB}M",
             "-display", "none", "-no-reboot", "-monitor", "none", "-serial", "stdio", "-S", "-qmp", f"unix:{directory}/monitor,server=on,wait=off",
             "-kernel", options.image, "-initrd", options.initrd,
             "-append", f"{options.parameters} nopku numa_balancing=disable {groups} -- {options.what} {options.inner} {'rotate' if options.rotate else 'stay'}"]
    for node in range(0 if options.groups else options.nodes):
        words += ["-object", f"memory-backend-ram,id=m{node},size={NODE_MIB}M,host-nodes={node},policy=bind", "-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    return words


def pin(monitor):
    """Each virtual CPU to the node of its number; not to CPU 0, as in lab/machine/nested.py."""
    for cpu in monitor.ask("query-cpus-fast"):
        os.sched_setaffinity(cpu["thread-id"], node_cpus(cpu["cpu-index"]) - {0})


def await_ready(machine):
    """What the inner program says when all is set up."""
    said, end = "", time.monotonic() + PATIENCE
    while time.monotonic() < end and machine.poll() is None:
        if select.select([machine.stdout], [], [], 1)[0]:
            said += os.read(machine.stdout.fileno(), 65536).decode(errors="replace").replace("\r", "")
            if found := READY.search(said):
                return [int(number, base) for number, base in zip(found.groups(), (10, 16, 10, 10))]
    raise Failure("the inner machine did not come to its end:\n" + said[-2000:])


def leaf(memory, root, levels, address):
    """(the address of the guest's leaf table, that of the page) for a virtual address."""
    table = root & ADDRESS
    for level in range(levels, 0, -1):
        place = table + (address >> 12 + 9 * (level - 1)) % 512 * 8
        entry = int.from_bytes(memory[place:place + 8], "little")
        if not entry & PRESENT or (level > 1 and entry & HUGE):
            raise Failure(f"no small page at {address:#x}, level {level}: {entry:#x}")
        if level == 1:
            return table, entry & ADDRESS
        table = entry & ADDRESS
    return None


def nested_leaves(pid):
    """{(domain or None, number of 2 MiB): node} of the nested leaf tables."""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/hydra_vm_map").read_text(encoding="ascii").splitlines():
        if match := re.match(r"domain (\S+) gfn (0x\w+) level 1 node (\d+) ", line):
            found[None if match[1] == "-" else int(match[1]), int(match[2], 16) // 512] = int(match[3])
    return found


def roots(monitor):
    """(page-table root, levels) of each CPU."""
    return [(int(cr3, 16), 5 if int(cr4, 16) & LA57 else 4) for cr3, cr4 in re.findall(r"CR3=(\w+) CR4=(\w+)", monitor.registers())]


def host_nodes(monitor, pid, pages):
    """The host's node of each of the machine's pages; negative: it has none yet."""
    said = monitor.ask("human-monitor-command", **{"command-line": "gpa2hva 0"})
    start = int(re.search(r"is (0x\w+)", said)[1], 16)
    addresses = (ctypes.c_void_p * pages)(*range(start, start + pages * PAGE, PAGE))
    nodes = (ctypes.c_int * pages)()
    if ctypes.CDLL(None, use_errno=True).syscall(MOVE_PAGES, pid, ctypes.c_ulong(pages), addresses, None, nodes, 0):
        raise Failure(f"move_pages: {os.strerror(ctypes.get_errno())}")
    return nodes


def count(memory, root, start, pages, domain, node, nested, nodes):
    """Of all pages, how many have the guest's leaf entry and the nested one on a node: both, the first alone, the second alone, none."""
    counts = {"ll": 0, "lr": 0, "rl": 0, "rr": 0}
    for page in range(pages):
        table, data = leaf(memory, *root, start + 4096 * page)
        where = nested.get((domain, data >> 21))
        if where is None:
            raise Failure(f"no nested table for the guest's address {data:#x}, domain {domain}")
        counts["lr"[nodes[table // PAGE] != node] + "lr"[where != node]] += 1
    return counts


def measure(options, directory):
    pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never", encoding="ascii")
    with subprocess.Popen(command(options, directory), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as machine:
        try:
            monitor = Monitor(directory / "monitor")
            pin(monitor)
            if options.groups == "pv":
                pathlib.Path(f"/proc/{machine.pid}/hydra_vm").write_text("expose=on", encoding="ascii")
            monitor.ask("cont")
            threads, start, used, inner = await_ready(machine)
            monitor.ask("stop")
            if threads != options.nodes:
                raise Failure(f"{threads} threads on {options.nodes} nodes")
            dump = directory / "memory"
            monitor.ask("pmemsave", val=0, size=options.nodes * NODE_MIB << 20, filename=str(dump))
            settings = dict(line.split(" ", 1) for line in pathlib.Path(f"/proc/{machine.pid}/hydra_vm").read_text(encoding="ascii").splitlines())
            pages = options.nodes * NODE_MIB * 256
            nodes = host_nodes(monitor, machine.pid, pages) if options.groups else [page // (NODE_MIB * 256) for page in range(pages)]
            active, nested = int(settings["active"]), nested_leaves(machine.pid)
            with open(dump, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
                walks = [count(memory, root, start, used, node if active else None, node, nested, nodes) for node, root in enumerate(roots(monitor))]
            return {"nodes": options.nodes, "pages": used, "inner": inner, "active": active, "walks": walks}
        finally:
            machine.kill()


def arguments(words=None):
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--what", choices=("uniform", "one"), required=True)
    options.add_argument("--inner", choices=("linux", "hydra"), required=True, help="the policy of the guest's program")
    options.add_argument("--nodes", type=int, required=True)
    options.add_argument("--groups", help="the machine sees one node, and has this boot parameter hydra_groups=")
    options.add_argument("--rotate", action="store_true", help="after boot, each CPU goes to the next group")
    for name in ("image", "initrd", "processor", "parameters"):
        options.add_argument(f"--{name}", required=True)
    return options.parse_args(words)


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="walks-", dir="/dev/shm") as directory:
        try:
            print(json.dumps(measure(options, pathlib.Path(directory))))
        except (Failure, OSError, KeyError) as error:
            print(f"guest_walks.py: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
