# SPDX-License-Identifier: GPL-2.0-only
"""The machine that ./hydra here runs on: whether it can measure, its nodes, and its description.

Standard library only: ./hydra here refuses before any package is installed. Everything is read below a root directory, for
the tests.
"""
import dataclasses
import os
import pathlib
import platform
import re
import subprocess
import time

from lab import paths
from lab.errors import LabError

HYDRA = "sys/kernel/mm/hydra"
NODES = "sys/devices/system/node"
UNKNOWN = "unknown"


def cpu_list(text):
    """[0, 1, 4] from '0-1,4'."""
    cpus = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def ranges(numbers):
    """'0-1,4' from [0, 1, 4]."""
    runs = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the machine's files are, and which CPUs this process may use (None: all)."""
    root: pathlib.Path = pathlib.Path("/")
    allowed: frozenset | None = None

    def read(self, name, otherwise=""):
        try:
            return (self.root / name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return otherwise

    def node_numbers(self):
        """All nodes, also those with memory only, in order."""
        return sorted(int(path.name[4:]) for path in (self.root / NODES).glob("node[0-9]*"))

    def nodes(self):
        """{node: its CPUs that this process may use}; nodes without any are left out."""
        found = {}
        for node in self.node_numbers():
            cpus = cpu_list(self.read(f"{NODES}/node{node}/cpulist"))
            cpus = cpus if self.allowed is None else [cpu for cpu in cpus if cpu in self.allowed]
            if cpus:
                found[node] = cpus
        return found


def here():
    return Place(allowed=frozenset(os.sched_getaffinity(0)))


def refuse(place=None, user=None):
    """LabError, with what to do, if Hydra cannot be measured on this machine."""
    place = place or here()
    if not (place.root / HYDRA).is_dir():
        raise LabError(f"this machine's kernel has no Hydra: /{HYDRA} is missing ({platform.release()})",
                       "Boot a kernel with Hydra: see README.md, 'Install it on a server'. In the emulator:  ./hydra run --out results -- ./hydra here prefetch", status=2)
    if (os.geteuid() if user is None else user) != 0:
        raise LabError("./hydra here has to be run by root: it counts the interrupts of the whole machine and uses the processor's counters",
                       "Run it again with sudo, or as root.", status=2)
    supported = place.read(f"{HYDRA}/supported")
    if not supported.startswith("yes"):
        raise LabError(f"Hydra does not work on this machine: /{HYDRA}/supported says '{supported or 'nothing'}'",
                       "The administrator's guide, kernel/Documentation/admin-guide/mm/hydra.rst, explains the reasons.", status=2)
    if len(nodes := place.nodes()) < 2:
        raise LabError(f"this machine has {len(nodes)} NUMA node with CPUs that this process may use, and Hydra needs two",
                       "Look at 'numactl --hardware'. The firmware may hide nodes (node interleaving), and taskset or a cpuset may hide CPUs.", status=2)
    if place.read(f"{HYDRA}/allow") == "nobody":
        raise LabError(f"/{HYDRA}/allow says 'nobody': not even root may put a program under a policy",
                       f"Allow it while you measure:  echo cap_sys_nice >/{HYDRA}/allow", status=2)


def cpuinfo(place):
    """The lines of the first CPU in /proc/cpuinfo."""
    first = place.read("proc/cpuinfo").split("\n\n")[0]
    return dict(map(str.strip, line.split(":", 1)) for line in first.splitlines() if ":" in line)


def mib_of(place, node):
    found = re.search(r"MemTotal: +(\d+) kB", place.read(f"{NODES}/node{node}/meminfo"))
    return f"{int(found[1]) // 1024:,} MiB" if found else UNKNOWN


def governors(place):
    found = {place.read(str(path.relative_to(place.root)))
             for path in (place.root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(found)) or "none (the kernel does not set the frequency)"


def turbo(place):
    for name, on in (("sys/devices/system/cpu/cpufreq/boost", "1"), ("sys/devices/system/cpu/intel_pstate/no_turbo", "0")):
        if value := place.read(name):
            return "on" if value == on else "off"
    return UNKNOWN


def commit():
    """The commit of this repository, and whether files differ from it."""
    def git(*words):
        try:
            return subprocess.run(["git", "-c", f"safe.directory={paths.REPO}", "-C", str(paths.REPO), *words], capture_output=True, text=True, check=False).stdout.strip()
        except OSError:
            return ""
    number = git("rev-parse", "HEAD")
    return f"{number}{', with changes' if git('status', '--porcelain', '--untracked-files=no') else ''}" if number else UNKNOWN


def description(place):
    """[(heading, [(what, value)])] for the report. The machine's name and addresses are not in it."""
    cpu, nodes, setting = cpuinfo(place), place.nodes(), lambda name: place.read(name, UNKNOWN) or UNKNOWN
    guest = "hypervisor" in cpu.get("flags", "").split()
    made_by = " ".join(filter(None, (place.read("sys/class/dmi/id/sys_vendor"), place.read("sys/class/dmi/id/product_name"))))
    release = " ".join(filter(None, (setting("proc/sys/kernel/osrelease"), place.read("proc/sys/kernel/version"))))
    return [
        ("The machine", [
            ("made by", made_by or UNKNOWN),
            ("a virtual machine", "yes: its times are those of the machine below it" if guest else "no"),
            ("processor", cpu.get("model name", UNKNOWN)),
            ("vendor, family, model, stepping", ", ".join(cpu.get(key, UNKNOWN) for key in ("vendor_id", "cpu family", "model", "stepping"))),
            ("microcode", cpu.get("microcode", UNKNOWN)),
            ("nodes with CPUs", str(len(nodes))),
            *((f"node {node}", f"{len(cpus)} CPUs ({ranges(cpus)}), {mib_of(place, node)}, distances {setting(f'{NODES}/node{node}/distance')}")
              for node, cpus in nodes.items()),
            *((f"node {node}", f"no CPUs, {mib_of(place, node)}") for node in place.node_numbers() if node not in nodes),
            ("two threads per core (SMT)", {"1": "on", "0": "off"}.get(place.read("sys/devices/system/cpu/smt/active"), UNKNOWN))]),
        ("Its settings", [
            ("kernel", release),
            ("boot parameters", setting("proc/cmdline")),
            ("frequency governor", governors(place)), ("turbo", turbo(place)),
            ("transparent huge pages", setting("sys/kernel/mm/transparent_hugepage/enabled")),
            ("NUMA balancing", setting("proc/sys/kernel/numa_balancing")),
            ("page-table isolation (Meltdown)", setting("sys/devices/system/cpu/vulnerabilities/meltdown")),
            ("load before the first run", setting("proc/loadavg"))]),
        ("Hydra", [
            ("default", setting(f"{HYDRA}/default")), ("supported", setting(f"{HYDRA}/supported")), ("domains", setting(f"{HYDRA}/domains")),
            ("limit of copies per process, KiB", setting(f"{HYDRA}/replica_limit_kib")), ("violations of its rules", setting(f"{HYDRA}/violations")),
            ("commit of the lab", commit()), ("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))])]


def identity(place):
    """What has to be the same for runs of two calls to be compared."""
    return {"kernel": " ".join((place.read("proc/sys/kernel/osrelease"), place.read("proc/sys/kernel/version"))),
            "processor": cpuinfo(place).get("model name", UNKNOWN), "nodes": {str(node): ranges(cpus) for node, cpus in place.nodes().items()}}
