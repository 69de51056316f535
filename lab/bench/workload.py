# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench --workload 'CMD': a program of the user's under each policy, in one boot."""
import json

from lab import paths, progress
from lab.bench import choice
from lab.errors import LabError
from lab.kernel import build
from lab.machine import programs, vm
from lab.measure import measure
from lab.measure.values import FIELDS, Line

ROW = "workload"
# metric: (unit, what the table calls it, what it means, which column wins)
METRICS = {
    "machine_tlb_interrupts": ("interrupts", "interrupts for TLB shootdowns", "Of the whole machine, while the program ran: the line TLB of /proc/interrupts.", "fewest"),
    "nr_tlb_remote_flush": ("flushes", "flushes that asked other CPUs", "nr_tlb_remote_flush of /proc/vmstat, of the whole machine.", ""),
    "nr_tlb_remote_flush_received": ("flushes", "flushes done for other CPUs", "nr_tlb_remote_flush_received of /proc/vmstat, of the whole machine.", ""),
    "nr_tlb_local_flush_all": ("flushes", "flushes of a CPU's own TLB, whole", "nr_tlb_local_flush_all of /proc/vmstat, of the whole machine.", ""),
    "nr_tlb_local_flush_one": ("flushes", "flushes of a CPU's own TLB, single pages", "nr_tlb_local_flush_one of /proc/vmstat, of the whole machine.", ""),
    "pagetable_kib": ("KiB", "page tables at the peak, KiB", "Of the program's processes, copies included: VmPTE of /proc/PID/status, looked at every 0.05 s.", "fewest"),
    "peak_replica_kib": ("KiB", "copies of page tables at the peak, KiB", "Of the program's processes, by Hydra.", ""),
    "cpus_interrupted": ("interrupts", "interrupts that the program's flushes sent", "Counted by Hydra, and by Linux while hydractl stat runs.", ""),
    "cpus_interrupted_across": ("interrupts", "of these, interrupts of another node's CPUs", "Counted as the line before.", ""),
    "cpus_spared": ("interrupts", "interrupts that Linux would have sent besides", "Counted by Hydra.", ""),
    "flushes": ("flushes", "flushes of the program", "Counted as the interrupts of these flushes.", ""),
    "fills": ("fills", "page faults that filled a node's tables", "Counted by Hydra.", ""),
    "prefetched": ("entries", "entries prefetched by fills", "Counted by Hydra.", ""),
    "propagated": ("entries", "entries written to copies", "Counted by Hydra.", ""),
    "fallbacks": ("times", "copies refused for want of memory", "Counted by Hydra.", ""),
    "reclaimed": ("tables", "copies of tables reclaimed", "Counted by Hydra.", ""),
    "split": ("processes", "processes with threads on several nodes", "Only these are Hydra's business.", ""),
    "seconds": ("s", "an emulator's time, Linux = 1", "hydractl traces the program meanwhile, under each policy alike.", ""),
}
OFTEN_ZERO = ("prefetched", "fallbacks", "reclaimed")     # shown if a column has any


def plan(columns, runs):
    """(run, column) in the order of the machine: run 0 is not counted, and every second run is backwards."""
    order = list(columns)
    return [(0, order[0]), *((run, column) for run in range(1, runs + 1) for column in (order if run % 2 else order[::-1]))]


def machine_of(arguments):
    machine = vm.Machine(choice.nodes(arguments) or 4, arguments.cpus_per_node or 2, arguments.memory or "2G")
    machine.check()
    return machine


def entries_of(command, planned, said, runs):
    """The values, from what the machine printed."""
    made = []
    for seen in said:
        run, column = planned[seen["step"]]
        more = {"run": run} if runs > 1 else {}
        made += [dict(zip(FIELDS, (ROW, command, column, metric, seen["said"][metric], unit)), **more)
                 for metric, (unit, *_) in METRICS.items() if metric in seen["said"]]
    return made


def lines(command, entries):
    """Lines of the table; of those that are mostly zero, the ones that are not."""
    some = {entry["metric"] for entry in entries if entry["value"]}
    return [Line(ROW, command, metric, title, words, better, drawn=metric in ("seconds", "cpus_spared"))
            for metric, (_, title, words, better) in METRICS.items() if metric in some or metric not in OFTEN_ZERO]


def run(arguments):
    """Boot once, run the program under each policy; returns the values."""
    settings, runs, machine = choice.settings(arguments), choice.runs(arguments) or 1, machine_of(arguments)
    command = arguments.workload
    if not command.strip():
        raise LabError("--workload: no command given", "Write it in quotes, e.g.  --workload 'stress-ng --mmap 4 --mmap-ops 100'", status=2)
    paths.try_output(arguments.json, arguments.csv, arguments.png)
    planned = plan(settings, runs)
    image = build.kernel()
    steps = [{"doing": f"{column}, {f'run {run}' if run else 'not counted: the first reading of files'}", "settings": settings[column],
              **({} if run else {"warm": True})} for run, column in planned]
    words = ["/usr/bin/python3", "-I", str(paths.REPO / "lab/guest/guest_workload.py"), "--hydractl", str(programs.hydractl()),
             "--command", command, "--plan", json.dumps(steps)]
    with progress.counting("measuring", len(steps)) as bar:
        progress.say(f"booting {machine} for {command}")
        said = measure.run_guest(words, machine, bar, image, arguments.timeout or vm.RUN_LIMIT, f"'{command}'")
    return entries_of(command, planned, said, runs)
