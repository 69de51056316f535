# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the lab's machine: a virtual machine migrates from here to a file, or comes from one.

The machine has a virtual CPU for each node of the source, sees one node, asks its host where its CPUs are (hydra_groups=pv), and runs
migrate_inner.c, which writes all the time. Prints one line of JSON.

Source: the stream goes to $HYDRA_OUT/NAME. After two rounds of the log, with the speed limited so that the pages which are written
all the time are written in each round, QEMU is allowed to stop the machine. It waits once the machine has stopped
(pause-before-switchover), so that what the host does before and after can be told apart. Target: QEMU loads the stream and starts the
machine, which asks its host again.

Entries of nested tables are counted by a trace event, and KVM's ioctls by QEMU's trace: the log's ones hold slots_lock.

Standard library only, any Python 3.9 or later. Messages go to stderr; the exit status is 1 if the measurement could not be made.
"""
import argparse
import contextlib
import ctypes
import os
import pathlib
import re
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import guest_inner  # noqa: E402
import guest_walks  # noqa: E402

CPUS, MIB = 4, 256
ROUNDS = 2                   # of the log, after the first one, which sends all memory
SLOW = 1 << 20               # bytes a second meanwhile: a round takes longer than all writes of pages that are written again and again
NEVER, AT_ONCE = 5, 100000   # milliseconds of downtime that QEMU may expect: with these it goes on, or stops the machine at once
QUIET = 3                    # seconds: pools whose pages are not moved yet ask their host each second
READY = re.compile(r"^migrate: threads (\d+) groups (\d+)\n", re.M)
REPORT = re.compile(r"^migrate: data (0x[0-9a-f]+) pages (\d+) written (\d+) wrong (\d+) error (\d+) pooled (\d+) refused (\d+) away (\d+) violations (\d+)\n", re.M)
FOUND = ("start", "pages", "written", "wrong", "error", "pooled", "refused", "away", "inner_violations")
TELLS_NO_MORE = "the host does not tell any more"
TROUBLE = re.compile(r"WARNING: CPU|BUG:|Oops:")
VIOLATIONS = pathlib.Path("/sys/kernel/mm/hydra/violations")
CHANGED = pathlib.Path("/sys/kernel/tracing/events/kvmmmu/kvm_tdp_mmu_spte_changed/id")
PERF_EVENT_OPEN, TRACEPOINT = 298, 2     # of <linux/perf_event.h>
LOG_IOCTLS = (0x4010ae42, 0xc018aec0)    # KVM_GET_DIRTY_LOG, KVM_CLEAR_DIRTY_LOG


class Event:
    """How often an event of the kernel has come, on all CPUs."""

    def __init__(self, number):
        # The first version of the structure; all else is 0.
        wanted = struct.pack("<IIQ48x", TRACEPOINT, 64, number)
        libc = ctypes.CDLL(None, use_errno=True)
        self.files = []
        for cpu in range(os.cpu_count()):
            file = libc.syscall(PERF_EVENT_OPEN, wanted, -1, cpu, -1, ctypes.c_ulong(0))
            if file < 0:
                raise OSError(ctypes.get_errno(), "cannot count an event of the kernel")
            self.files.append(file)

    def count(self):
        return sum(struct.unpack("<Q", os.read(file, 8))[0] for file in self.files)

    def close(self):
        for file in self.files:
            os.close(file)


def log_ioctls(path):
    """QEMU's lines are "kvm_vm_ioctl type 0x4010ae42, arg 0x7ff..."."""
    types = re.findall(r"kvm_vm_ioctl type (0x[0-9a-f]+)", path.read_text(encoding="ascii", errors="replace"))
    return sum(int(kind, 16) in LOG_IOCTLS for kind in types)


def of_machine(pid):
    """Of the process's virtual machine. A tree has tables; without domain trees there is one."""
    values, domains = guest_inner.settings(pid)
    trees = sum(int(domain["tables"]) > 0 for domain in domains) if domains else 1
    return {"trees": trees, "tables": int(values["nested_tables"]), **{name: int(values[name]) for name in ("fallbacks", "copied", "dropped")}}


def violations(pid):
    """Those of the host's checker of nested tables, which looks at the log, too, and all that the kernel has counted before."""
    said = (guest_inner.PROC / str(pid) / "hydra_vm_check").read_text(encoding="ascii")
    if not re.search(r"^tables \d+ .*violations \d+$", said, re.M):
        raise guest_inner.Failure(f"the nested tables were not checked: {said}")
    return int(VIOLATIONS.read_text(encoding="ascii"))


def state(monitor, pid, event, log):
    """What has been done for the machine until now."""
    ram, seen = monitor.ask("query-migrate").get("ram", {}), of_machine(pid)
    return {**guest_inner.counts(monitor, "exits", "pf_taken"), "entries": event.count(), "holds": log_ioctls(log),
            "pages": ram.get("normal", 0) + ram.get("duplicate", 0), "tables": seen["tables"], "copied": seen["copied"]}


def between(before, after):
    return {name: after[name] - before[name] for name in after}


def until(monitor, right, what):
    """Wait for QEMU's migration; returns what it says."""
    end = time.monotonic() + guest_inner.TIMEOUT
    while time.monotonic() < end:
        said = monitor.ask("query-migrate")
        if said.get("status") in ("failed", "cancelled"):
            raise guest_inner.Failure(f"the migration has {said['status']}: {said.get('error-desc')}")
        if right(said):
            return said
        time.sleep(0.05)
    raise guest_inner.Failure(f"no {what} within {guest_inner.TIMEOUT} s: {said}")


def rounds(said):
    return said.get("ram", {}).get("dirty-sync-count", 0)


def report(machine, console):
    """What the program in the machine says of itself."""
    guest_inner.enter(machine)
    found, said = guest_inner.answer(machine, REPORT)
    console.append(said)
    return dict(zip(FOUND, guest_inner.numbers(found)))


def in_order(console):
    said = "".join(console)
    if TROUBLE.search(said):
        raise guest_inner.failed(said, f"the kernel of the machine complains:\n{said[-4000:]}")
    return TELLS_NO_MORE in said


def command(options, directory, *more):
    return [*guest_inner.qemu(options, directory, CPUS, MIB, "hydra_groups=pv"), "-vga", "none", "-nic", "none", *more]


def leave(options, directory):
    """The source."""
    log, stream = directory / "log", pathlib.Path(os.environ["HYDRA_OUT"]) / options.stream
    words, console = command(options, directory, "-trace", "kvm_vm_ioctl", "-D", str(log)), []
    with contextlib.closing(Event(int(CHANGED.read_text(encoding="ascii")))) as event, \
            guest_inner.started(words, directory, options.nodes, True) as (machine, monitor):
        def now():
            return state(monitor, machine.pid, event, log)
        monitor.ask("cont")
        found, said = guest_inner.answer(machine, READY)
        console.append(said)
        threads, groups = guest_inner.numbers(found)
        if (threads, groups) != (CPUS, options.nodes):
            raise guest_inner.Failure(f"{threads} threads, {groups} groups, with {CPUS} CPUs on {options.nodes} nodes:\n{said[-2000:]}")
        seen = {**report(machine, console), **of_machine(machine.pid)}
        monitor.ask("migrate-set-capabilities", capabilities=[{"capability": "pause-before-switchover", "state": True}])
        monitor.ask("migrate-set-parameters", **{"downtime-limit": NEVER})
        before = now()
        monitor.ask("migrate", uri=f"exec:cat >'{stream}'")
        first = rounds(until(monitor, lambda said: rounds(said) > 1, "second round of the log"))
        monitor.ask("migrate-set-parameters", **{"max-bandwidth": SLOW})
        until(monitor, lambda said: rounds(said) >= first + ROUNDS, "further rounds of the log")
        monitor.ask("migrate-set-parameters", **{"downtime-limit": AT_ONCE})
        said = until(monitor, lambda said: said["status"] == "pre-switchover", "machine that has stopped")
        stopped, broken = now(), violations(machine.pid)
        monitor.ask("migrate-continue", state="pre-switchover")
        until(monitor, lambda said: said["status"] == "completed", "end of the migration")
        after = now()
        in_order(console)
        last = of_machine(machine.pid)
        return {**seen, **{name: last[name] for name in ("trees", "fallbacks", "dropped")}, "rounds": rounds(said), "running": between(before, stopped),
                "stopped": between(stopped, after), "violations": max(broken, violations(machine.pid)), "stream": stream.stat().st_size}


def arrive(options, directory):
    """The target."""
    words, console = command(options, directory, "-incoming", f"exec:cat '{options.stream}'"), []
    with guest_inner.started(words, directory, options.nodes, options.expose) as (machine, monitor):
        until(monitor, lambda said: said.get("status") == "completed", "machine that has come")
        monitor.ask("cont")
        asked = guest_inner.counts(monitor, "hypercalls")["hypercalls"]
        seen = report(machine, console)
        told_no_more = in_order(console)
        calls = guest_inner.counts(monitor, "hypercalls")["hypercalls"]
        time.sleep(QUIET)
        later = guest_inner.counts(monitor, "hypercalls")["hypercalls"] - calls
        walks = guest_walks.look(monitor, machine.pid, range(seen["start"], seen["start"] + seen["pages"] * guest_walks.PAGE))
        return {**seen, **of_machine(machine.pid), "told_no_more": int(told_no_more), "hypercalls": calls - asked, "hypercalls_later": later,
                "vcpus": [walk.vcpus for walk in walks], "places": [dict(walk.pages) for walk in walks], "violations": violations(machine.pid)}


def measure(options, directory):
    return (leave if options.what == "source" else arrive)(options, directory)


def arguments(words=None):
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--what", choices=("source", "target"), required=True)
    options.add_argument("--stream", required=True, help="the name of the file in $HYDRA_OUT, or its place")
    options.add_argument("--nodes", type=int, required=True, help="of the host")
    options.add_argument("--expose", action="store_true", help="the target's host tells where the CPUs are, too")
    guest_inner.add_arguments(options)
    return options.parse_args(words)


if __name__ == "__main__":
    sys.exit(guest_inner.run(measure, arguments()))
