# SPDX-License-Identifier: GPL-2.0-only
"""The processor's own counters of page walks and of remote memory, by the names that the perf tool knows.

A processor has some of these events and lacks the others. ./hydra here counts those that perf lists and can count, and names the
others in the report.
"""
import dataclasses
import re
import shutil
import subprocess


@dataclasses.dataclass(frozen=True)
class Event:
    name: str
    vendor: str              # "any": an event that Linux maps to the processor's own
    meaning: str


FOR_LOADS, FOR_STORES = "page walks for loads that ended with a translation", "page walks for stores that ended with a translation"
ALL_LOADS = "all loads of the program, not only those of page walks"
ALL_FILLS = "all fills of the data cache, not only those of page walks"
# The meanings follow the lists of events in Linux's tools/perf. No event tells walks that read the memory of another node
# from walks that read their own: the loads and fills of remote memory are those of the whole program.
EVENTS = (
    Event("dtlb_load_misses.walk_completed", "Intel", FOR_LOADS),
    Event("dtlb_store_misses.walk_completed", "Intel", FOR_STORES),
    Event("dtlb_load_misses.walk_active", "Intel, from Skylake", "cycles in which a page walk for a load is under way"),
    Event("dtlb_load_misses.walk_duration", "Intel, up to Broadwell", "cycles in which a page walk for a load is under way"),
    Event("page_walker_loads.dtlb_l3", "Intel Haswell and Broadwell", "reads of page-table entries by page walks, from the L3 cache"),
    Event("page_walker_loads.dtlb_memory", "Intel Haswell and Broadwell", "reads of page-table entries by page walks, from memory of any node"),
    Event("mem_load_l3_miss_retired.local_dram", "Intel servers, from Skylake", f"loads from memory of the CPU's own node; {ALL_LOADS}"),
    Event("mem_load_l3_miss_retired.remote_dram", "Intel servers, from Skylake", f"loads from memory of another node; {ALL_LOADS}"),
    Event("mem_load_uops_l3_miss_retired.local_dram", "Intel servers, Haswell and Broadwell", f"loads from memory of the CPU's own node; {ALL_LOADS}"),
    Event("mem_load_uops_l3_miss_retired.remote_dram", "Intel servers, Haswell and Broadwell", f"loads from memory of another node; {ALL_LOADS}"),
    Event("ls_l1_d_tlb_miss.tlb_reload_4k_l2_miss", "AMD", "translations of pages of 4 KiB that both TLBs lack: a page walk for each"),
    Event("ls_l1_d_tlb_miss.all_l2_miss", "AMD, from Zen 4", "translations of pages of all sizes that both TLBs lack: a page walk for each"),
    Event("ls_tablewalker.dside", "AMD, up to Zen 3", "page walks for data"),
    Event("ls_refills_from_sys.ls_mabresp_lcl_dram", "AMD Zen 2", f"fills from memory of the CPU's own node; {ALL_FILLS}"),
    Event("ls_refills_from_sys.ls_mabresp_rmt_dram", "AMD Zen 2", f"fills from memory of another node; {ALL_FILLS}"),
    Event("ls_any_fills_from_sys.mem_io_local", "AMD Zen 3", f"fills from memory of the CPU's own node; {ALL_FILLS}"),
    Event("ls_any_fills_from_sys.mem_io_remote", "AMD Zen 3", f"fills from memory of another node; {ALL_FILLS}"),
    Event("ls_any_fills_from_sys.dram_io_near", "AMD, from Zen 4", f"fills from memory of the CPU's own node; {ALL_FILLS}"),
    Event("ls_any_fills_from_sys.dram_io_far", "AMD, from Zen 4", f"fills from memory of another node; {ALL_FILLS}"),
    Event("dTLB-load-misses", "any", "loads whose translation the TLB lacks, as Linux maps it to the processor"),
    Event("node-loads", "any", "loads from memory, as Linux maps it to the processor"),
    Event("node-load-misses", "any", "loads from memory of another node, as Linux maps it to the processor"),
)
MEANINGS = {event.name: event.meaning for event in EVENTS}
METRIC = "perf."             # the beginning of the metric of an event
NEARLY_ALWAYS = 99.0         # percent of the time that an event was counted; below, perf has estimated the number


def tool():
    """The path of perf, or None."""
    return shutil.which("perf")


def parse(text):
    """{event: (number, estimated)} of what perf stat -x, wrote; of several processors' units the sum. An event that was not counted is left out."""
    found = {}
    for line in text.splitlines():
        fields = line.split(",")
        if line.startswith("#") or len(fields) < 5 or not re.fullmatch(r"\d+(\.\d+)?", fields[0]):
            continue
        # An event of one of several kinds of cores is called cpu_core/NAME/.
        name = re.sub(r"^cpu_\w+/(.*)/$", r"\1", fields[2]).removesuffix(":u")
        number, estimated = found.get(name, (0, False))
        found[name] = (number + int(float(fields[0])), estimated or float(fields[4] or 100) < NEARLY_ALWAYS)
    return found


def run(words):
    return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def listed(text):
    """The events that perf list names."""
    return [event.name for event in EVENTS if re.search(rf"(?<![\w.-]){re.escape(event.name)}(?![\w.-])", text)]


def known(perf, run_words=run):
    """(the events that perf can count on this machine, why there are none at all or '')."""
    if not perf:
        return (), "perf is not installed. Install it and measure again:  apt install linux-perf"
    there = []
    for name in listed(run_words([perf, "list", "--no-desc"]).stdout):
        done = run_words([perf, "stat", "-x", ",", "-e", name, "--", "true"])
        if done.returncode == 0 and name in parse(done.stderr):
            there.append(name)
    return tuple(there), "" if there else "perf finds none of these events on this processor. In many virtual machines there are none."


def words(perf, events, file):
    """What goes before a command so that its events are counted into a file."""
    return [perf, "stat", "-x", ",", "-o", str(file), "-e", ",".join(events), "--"] if perf and events else []
