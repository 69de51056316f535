# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the lab's machine, as a part of guest_walks.py and guest_migrate.py: QEMU with KVM, and a program in the machine in it.

Standard library only, any Python 3.9 or later.
"""
import contextlib
import json
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time

TIMEOUT = 600                # seconds for the machine to boot and set up its data
IF = 1 << 9                  # of the flags: interrupts are on
TRIES = 3                    # machines, if the emulator fails: see Spoilt
PROC = pathlib.Path("/proc")


class Failure(Exception):
    """A measurement that could not be made."""


class Spoilt(Failure):
    """The emulator has failed.

    It ran a breakpoint that the inner kernel had removed (stale_breakpoint() in lab/machine/console.py). Or a virtual CPU took an interrupt at
    the first instruction of an interrupt's handler, where interrupts are off: QEMU 7.2 has then delivered one interrupt again and again, on
    the small stack of the entry from user mode, until that overflowed.
    """


def taken_while_off(said):
    """Whether a kernel tells of an interrupt of a handler's first instruction: the flags there have no IF."""
    found = re.search(r" asm_sysvec_\w+\+\S+\n\S* *\S+ RIP: 0010:asm_sysvec_\w+\+0x0/\S+\n.*\n.*EFLAGS: ([0-9a-f]+)", said.replace("\r", ""))
    return bool(found) and not int(found[1], 16) & IF


def failed(said, what):
    """The error after a machine has said this."""
    return (Spoilt if "Oops: int3:" in said or taken_while_off(said) else Failure)(what)


class Monitor:
    """QEMU's machine protocol."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT)
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

    def human(self, line):
        """What QEMU's older monitor says to a line."""
        return self.ask("human-monitor-command", **{"command-line": line})


def pairs(line):
    words = line.split()
    return dict(zip(words[::2], words[1::2]))


def cpus_of(text):
    """Of a list as the kernel writes it: "0-3,8"."""
    cpus = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def node_cpus(node):
    return cpus_of(pathlib.Path(f"/sys/devices/system/node/node{node}/cpulist").read_text(encoding="ascii"))


def pin(monitor, nodes):
    """The virtual CPUs to the host's nodes, in order, as many to each; not to CPU 0, as in lab/machine/vm.py."""
    cpus = monitor.ask("query-cpus-fast")
    for cpu in cpus:
        os.sched_setaffinity(cpu["thread-id"], node_cpus(cpu["cpu-index"] * nodes // len(cpus)) - {0})


def answer(machine, words):
    """What the inner program says that matches, and all of the console up to it."""
    said, end = "", time.monotonic() + TIMEOUT
    while time.monotonic() < end and machine.poll() is None:
        if select.select([machine.stdout], [], [], 1)[0]:
            said += os.read(machine.stdout.fileno(), 65536).decode(errors="replace").replace("\r", "")
            if found := words.search(said):
                return found, said
    raise failed(said, "the inner machine did not come to its end:\n" + said[-2000:])


def numbers(found):
    """Those of a line which the inner program says."""
    return [int(number, 0) for number in found.groups()]


def enter(machine):
    """A line on the machine's console."""
    machine.stdin.write(b"\n")
    machine.stdin.flush()


def counts(monitor, *names):
    """KVM's statistics of these names, each of all virtual CPUs together."""
    said = monitor.ask("query-stats", target="vcpu", providers=[{"provider": "kvm", "names": list(names)}])
    return {name: sum(stat["value"] for vcpu in said for stat in vcpu["stats"] if stat["name"] == name) for name in names}


def qemu(options, directory, cpus, mib, parameters):
    """The command for a machine that is stopped at first."""
    return ["qemu-system-x86_64", "-accel", "kvm", "-cpu", options.processor, "-smp", f"{cpus},sockets={cpus}", "-m", f"{mib}M",
            "-display", "none", "-no-reboot", "-monitor", "none", "-serial", "stdio", "-S", "-qmp", f"unix:{directory}/monitor,server=on,wait=off",
            "-kernel", options.image, "-initrd", options.initrd, "-append", f"{options.parameters} nopku numa_balancing=disable {parameters}"]


@contextlib.contextmanager
def started(command, directory, nodes, expose):
    """A machine with its virtual CPUs on so many nodes, still stopped, and its monitor. Expose: its kernel may ask where they are. Pages of QEMU's are small."""
    pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never", encoding="ascii")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as machine:
        try:
            monitor = Monitor(directory / "monitor")
            pin(monitor, nodes)
            if expose:
                (PROC / str(machine.pid) / "hydra_vm").write_text("expose=on", encoding="ascii")
            yield machine, monitor
        finally:
            machine.kill()


def settings(pid):
    """Settings and counters of the process's virtual machine, by name, and the lines of its domains."""
    lines = [line.split(" ", 1) for line in (PROC / str(pid) / "hydra_vm").read_text(encoding="ascii").splitlines()]
    return dict(lines), [pairs(f"domain {rest}") for name, rest in lines if name == "domain"]


def add_arguments(options):
    for name in ("image", "initrd", "processor", "parameters"):
        options.add_argument(f"--{name}", required=True)


def run(measure, options):
    """Print what is measured in a machine, or in another one if the emulator fails; returns the exit status."""
    for left in reversed(range(TRIES)):
        with tempfile.TemporaryDirectory(prefix="inner-", dir="/dev/shm") as directory:
            try:
                print(json.dumps(measure(options, pathlib.Path(directory))))
                return 0
            except (Failure, OSError, KeyError, ValueError, struct.error) as error:
                print(f"{pathlib.Path(sys.argv[0]).name}: {type(error).__name__}: {error}", file=sys.stderr)
                if not left or not isinstance(error, Spoilt):
                    return 1
