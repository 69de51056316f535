# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the lab's machine: where the entries are that a page walk of a virtual machine reads last.

A machine with a virtual CPU on each node runs walks_inner.c. It sees the nodes, with memory on each; or it sees one node, and
memory from anywhere, and groups its CPUs (--groups). When each of its CPUs has used all data, hydractl walks looks at it. Prints one line
of JSON: for each node and for all pages of data, how many have both entries on the node, one, or none; and what a munmap in the
guest costs the host.

Standard library only, any Python 3.9 or later. Messages go to stderr; the exit status is 1 if the measurement could not be made.
"""
import argparse
import json
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
QUIET = 2                    # seconds in which the machine does nothing, for the exits of its clocks
READY = re.compile(r"^walks: threads (\d+) data (0x[0-9a-f]+) pages (\d+) active (-?\d+)\n", re.M)
UNMAPPED = re.compile(r"^walks: munmaps (\d+) interrupts (\d+)\n", re.M)
PAGE = 4096


class Failure(Exception):
    """A measurement that could not be made."""


class Monitor:
    """QEMU's machine protocol."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
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


def node_cpus(node):
    cpus = set()
    for part in pathlib.Path(f"/sys/devices/system/node/node{node}/cpulist").read_text(encoding="ascii").strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def command(options, directory):
    """QEMU with a CPU and memory on each of the host's nodes, stopped at first."""
    groups = f"hydra_groups={options.groups}" if options.groups else ""
    monitors = [word for name in ("monitor", "second") for word in ("-qmp", f"unix:{directory}/{name},server=on,wait=off")]
    words = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", options.processor, "-smp", f"{options.nodes},sockets={options.nodes}", "-m", f"{options.nodes * NODE_MIB}M",
             "-display", "none", "-no-reboot", "-monitor", "none", "-serial", "stdio", "-S", *monitors,
             "-kernel", options.image, "-initrd", options.initrd,
             "-append", f"{options.parameters} nopku numa_balancing=disable {groups} -- {options.what} {options.inner} {'rotate' if options.rotate else 'stay'}"]
    for node in range(0 if options.groups else options.nodes):
        words += ["-object", f"memory-backend-ram,id=m{node},size={NODE_MIB}M,host-nodes={node},policy=bind", "-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    return words


def pin(monitor):
    """Each virtual CPU to the node of its number; not to CPU 0, as in lab/machine/vm.py."""
    for cpu in monitor.ask("query-cpus-fast"):
        os.sched_setaffinity(cpu["thread-id"], node_cpus(cpu["cpu-index"]) - {0})


def await_words(machine, words):
    """The numbers of a line which the inner program says."""
    said, end = "", time.monotonic() + PATIENCE
    while time.monotonic() < end and machine.poll() is None:
        if select.select([machine.stdout], [], [], 1)[0]:
            said += os.read(machine.stdout.fileno(), 65536).decode(errors="replace").replace("\r", "")
            if found := words.search(said):
                return [int(number, 0) for number in found.groups()]
    raise Failure("the inner machine did not come to its end:\n" + said[-2000:])


def exits(monitor):
    """How often the machine's CPUs have left the guest."""
    said = monitor.ask("query-stats", target="vcpu", providers=[{"provider": "kvm", "names": ["exits"]}])
    return sum(stat["value"] for vcpu in said for stat in vcpu["stats"])


def munmaps(machine, monitor):
    """For each munmap in the guest: CPUs interrupted there, and exits of all virtual CPUs, without those of as long a time in which the guest does nothing."""
    quiet = exits(monitor)
    time.sleep(QUIET)
    before, begun = exits(monitor), time.monotonic()
    machine.stdin.write(b"\n")
    machine.stdin.flush()
    calls, interrupts = await_words(machine, UNMAPPED)
    left = exits(monitor) - before - (before - quiet) * (time.monotonic() - begun) / QUIET
    return {"interrupts_per_munmap": interrupts / calls, "exits_per_munmap": max(left, 0) / calls}


def seen(said, nodes, pages):
    """What hydractl walks --json says of each node's CPU, by the first letters of where the guest's entry is and where the nested one."""
    domains = json.loads(said)["per_domain"]
    if [(domain["node"], domain["vcpus"], domain["pages"], domain["unmapped"]) for domain in domains] != [(node, 1, pages, 0) for node in range(nodes)]:
        raise Failure(f"not a CPU on each of {nodes} nodes with all {pages} pages mapped: {domains}")
    return [{guest[0] + host[0]: domain[f"{guest}_{host}"] for guest in ("local", "remote") for host in ("local", "remote")} for domain in domains]


def measure(options, directory):
    pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never", encoding="ascii")
    with subprocess.Popen(command(options, directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as machine:
        try:
            monitor = Monitor(directory / "monitor")
            pin(monitor)
            if options.groups == "pv":
                pathlib.Path(f"/proc/{machine.pid}/hydra_vm").write_text("expose=on", encoding="ascii")
            monitor.ask("cont")
            threads, start, used, inner = await_words(machine, READY)
            if threads != options.nodes:
                raise Failure(f"{threads} threads on {options.nodes} nodes")
            settings = dict(line.split(" ", 1) for line in pathlib.Path(f"/proc/{machine.pid}/hydra_vm").read_text(encoding="ascii").splitlines())
            said = subprocess.run(["hydractl", "walks", "--json", "--stop", f"--monitor={directory}/second", f"--range={start:x}-{start + used * PAGE:x}", str(machine.pid)],
                                  stdout=subprocess.PIPE, timeout=PATIENCE, check=False)
            if said.returncode:
                raise Failure(f"hydractl walks: exit status {said.returncode}")
            if not monitor.ask("query-status")["running"]:
                raise Failure("hydractl walks left the machine stopped")
            return {"nodes": options.nodes, "pages": used, "inner": inner, "active": int(settings["active"]), "walks": seen(said.stdout, options.nodes, used), **munmaps(machine, monitor)}
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
        except (Failure, OSError, KeyError, subprocess.TimeoutExpired) as error:
            print(f"guest_walks.py: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
