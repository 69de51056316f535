# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench concurrent: the lines of memory at which calls on disjoint memory meet in the kernel, by pairs of calls.

Two threads on two nodes do workloads/conflicts, one after the other. The plugin lab/meter/conflicts_plugin.c notes the lines
that both touch and at least one writes. The numbers are exact but for what the kernel does once in many calls.
"""
import bisect
import collections
import dataclasses
import itertools
import json
import shlex
import statistics
import subprocess

from lab import paths, policies, progress
from lab.errors import LabError
from lab.kernel import build
from lab.machine import programs, vm
from lab.measure import report, values
from lab.measure.limits import Check
from lab.meter import steps

NAME = "concurrent"
WHAT = "lines of memory at which calls of two threads on disjoint memory meet, for each pair of eight calls, and their names"
POLICIES = {name: "plainly" if name == "linux" else name for name in policies.POLICIES}     # how: see lab/meter/guest_steps.sh
NODES = (2, 4, 8)
SAMPLES = 20
WARMING_UP = 255             # the row of samples that do not count: see workloads/conflicts.c
KERNEL = 0xffffffff80000000  # from here on the kernel's own data, by name
LOCK = "down_write_killable"        # what takes mmap_lock in mmap(): it shows where the mm_struct is
# As a service: in a memory cgroup with a limit, of a parent.
IN_CGROUP = """\
set -e
cd /sys/fs/cgroup
[ -e cgroup.controllers ] || mount -t cgroup2 none "$PWD"
cd "$PWD"
mkdir -p services/one
echo +memory >cgroup.subtree_control
echo +memory >services/cgroup.subtree_control
echo 256M >services/one/memory.max
echo $$ >services/one/cgroup.procs
cd /
exec "$@"
"""
# Calls that, in two threads, are to take no lock of the whole address space
UNLOCKED = ("dontneed", "fault", "read")
# Room for all translated code: QEMU 7.2 may end when it throws code away that has callbacks for memory accesses.
ROOM = ("-accel", "tcg,thread=single,tb-size=2047")
# Of struct mm_struct, from mmap_lock on: what is there (6.12, the configuration lab).
MM = {-0xb8: "mm_count", -0x78: "mm_mt", -0x48: "hydra", -0x40: "pgd", -0x38: "task_size", -0x30: "hydra_settings", -0x2c: "hydra_last", -0x24: "mm_users",
      -0x20: "pcpu_cid", -0x10: "pgtables_bytes", -0x8: "map_count", -0x4: "page_table_lock", 0x0: "mmap_lock.count", 0x8: "mmap_lock.owner", 0x10: "mmap_lock",
      0x28: "mmlist", 0x38: "mm_lock_seq", 0x48: "hiwater_rss", 0x58: "total_vm", 0x70: "data_vm", 0x78: "exec_vm", 0x80: "stack_vm", 0x88: "def_flags",
      0x290: "rss_stat", 0x338: "context", 0x40c: "tlb_flush_pending", 0x410: "more", 0x488: "cpu_bitmap", 0x490: "more"}
MM_STARTS = list(MM)
MM_END = 0x4c8
# What a line is, by the function that uses it, where it has no address that is known
KINDS = (("maple tree", ("mas_", "mt_", "mtree_", "mab_", "ma_", "mte_")), ("anon_vma", ("anon_vma", "__anon_vma", "unlink_anon", "__vmf_anon")),
         ("VMA", ("vma_", "__vma", "vm_area", "lock_vma", "free_pgtables", "find_vma")),
         ("page table", ("__pte_alloc", "pmd_install", "free_pgd", "zap_p", "unmap_page_range", "unmap_vmas", "__handle_mm", "handle_mm", "change_p", "walk_p", "pte_offset")),
         ("LRU", ("lru_", "folio_batch", "folio_add_lru", "release_pages", "folios_put", "__page_cache")), ("memcg", ("page_counter", "mem_cgroup", "__mem_cgroup", "uncharge", "try_charge")),
         ("Hydra", ("hydra_", "__hydra")), ("TLB state of a CPU", ("flush_tlb", "should_flush", "switch_mm")))


@dataclasses.dataclass
class Found:
    """The conflicts of one pair of calls under one policy."""
    samples: list = dataclasses.field(default_factory=list)     # of Counters: how many lines of each name


def pairs(calls):
    """In the order of the numbers of rows."""
    return list(itertools.combinations_with_replacement(calls, 2))


class Names:
    """What lines are called, by the instructions that use them and their addresses."""

    def __init__(self, system_map):
        found = []
        for line in system_map.splitlines():
            address, kind, name = line.split()[:3]
            if int(address, 16) >= KERNEL and kind in "tTwWdDbBrR":
                found.append((int(address, 16), name))
        self.symbols = sorted(found, key=lambda entry: entry[0])
        self.starts = [address for address, _ in self.symbols]
        self.lock = None         # the address of mmap_lock

    def symbol(self, address):
        at = bisect.bisect(self.starts, address) - 1
        return self.symbols[at] if at >= 0 else (0, "?")

    def function(self, address):
        return self.symbol(address)[1].split(".")[0]

    def find_lock(self, samples):
        """From samples of two threads that both map: the least address that the function writes which takes the lock."""
        seen = [address for conflicts in samples for code, address, wrote, *_ in conflicts if wrote and self.function(code) == LOCK]
        self.lock = min(seen) if seen else None

    def field(self, address):
        """Of the mm_struct, or None."""
        if self.lock is None or not MM_STARTS[0] <= address - self.lock < MM_END:
            return None
        return "mm." + MM[MM_STARTS[bisect.bisect(MM_STARTS, address - self.lock) - 1]]

    def name(self, conflict):
        """'mm.mmap_lock.count: down_write_killable', or 'maple tree: mas_store'; the writer's function, and another one's behind it."""
        first, second = conflict[:3], conflict[3:]
        writer, other = (first, second) if first[2] else (second, first)
        here, there = self.function(writer[0]), self.function(other[0])
        what = self.field(writer[1])
        if what and (also := self.field(other[1])) != what:
            what += f", {also}"
        if not what and writer[1] >= KERNEL:
            start, symbol = self.symbol(writer[1])
            what = symbol + (f"+{writer[1] - start:#x}" if writer[1] > start else "")
        if not what:
            what = next((kind for kind, words in KINDS if here.startswith(words) or there.startswith(words)), "?")
        return f"{what}: {here}" + (f", {there}" if there != here else "")


def parse(text, names, calls):
    """{(policy, first call, second call): Found} from the plugin's samples."""
    numbers, kept, order = list(POLICIES), collections.defaultdict(list), pairs(calls)
    for line in text.splitlines():
        sample = json.loads(line)
        if sample["row"] == WARMING_UP:
            continue
        if sample["full"]:
            raise LabError("a call touches more lines than lab/meter/conflicts_plugin.c has room for")
        kept[numbers[sample["policy"]], *order[sample["row"]]].append(sample["conflicts"])
    made = {}
    for (policy, *pair), samples in kept.items():
        # Each program has an mm_struct of its own.
        names.find_lock(kept.get((policy, "mmap", "mmap"), ()))
        made[policy, *pair] = Found([collections.Counter(map(names.name, conflicts)) for conflicts in samples])
    return made


def usual(found):
    """{name: lines} of what is there in more than half of the samples."""
    every = dict.fromkeys(name for sample in found.samples for name in sample)
    made = {name: statistics.median_low(sample[name] for sample in found.samples) for name in every}
    return {name: number for name, number in made.items() if number}


def entries_of(found):
    """As of any measurement: for each pair how many lines, and how many of each name."""
    made = []
    for (policy, *pair), one in found.items():
        lines = usual(one)
        for metric, value in (("lines", sum(lines.values())), ("lines_mean", statistics.fmean(sample.total() for sample in one.samples)), *sorted(lines.items())):
            made.append(dict(zip(values.FIELDS, (NAME, " and ".join(pair), policy, metric, value, "lines"))))
    return made


def check(found, calls):
    """What shows that the instrument works."""
    for policy in dict.fromkeys(key[0] for key in found):
        alone = sum(sum(usual(one).values()) for key, one in found.items() if key[0] == policy and "nothing" in key)
        yield Check(NAME, f"{policy}: a thread that does nothing meets no other", f"{alone} lines", alone == 0)
        lock = [name for name in usual(found[policy, "mmap", "mmap"]) if "mm.mmap_lock.count" in name]
        yield Check(NAME, f"{policy}: two threads that call mmap meet at mmap_lock", ", ".join(lock) or "they do not", bool(lock))
        meet = [" and ".join(pair) for pair in itertools.combinations_with_replacement([call for call in UNLOCKED if call in calls], 2)
                if any("mmap_lock" in name for name in usual(found[(policy, *pair)]))]
        yield Check(NAME, f"{policy}: two threads that drop pages, fault or read do not meet at mmap_lock", ", ".join(meet) or "they do not", not meet)
        missing = [" and ".join(pair) for pair in pairs(calls) if len(found[(policy, *pair)].samples if (policy, *pair) in found else ()) < SAMPLES]
        yield Check(NAME, f"{policy}: {SAMPLES} samples of each pair", f"fewer of {', '.join(missing)}" if missing else "so many", not missing)


def show(found, calls):
    out = report.printer()
    out.width = max(out.width, 150)
    shown = [call for call in calls if call != "nothing"]
    for policy in dict.fromkeys(key[0] for key in found):
        table = report.titled(f"lines at which two threads meet on disjoint memory, {policy}")
        table.add_column("")
        for call in shown:
            table.add_column(call, justify="right")
        for second in shown:
            row = [str(sum(usual(found[policy, first, second]).values())) if (policy, first, second) in found else "" for first in shown]
            table.add_row(second, *row)
        out.print(table)
        by_name = collections.defaultdict(list)
        for (of, *pair), one in found.items():
            if of == policy:
                for name, number in usual(one).items():
                    by_name[name].append(f"{'/'.join(dict.fromkeys(pair))}" + (f" {number}" if number > 1 else ""))
        for name, where in sorted(by_name.items(), key=lambda entry: -len(entry[1])):
            out.print(f"  {report.escape(name)}: {', '.join(where)}", highlight=False)
        out.print()


def calls_of_program(*options):
    done = subprocess.run([str(programs.workloads() / "conflicts"), "--list", *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(nodes, name=NAME, ways=tuple(POLICIES.values()), options=(), samples=SAMPLES):
    """{(policy, first call, second call): Found}, of one boot. Ways: to run the program, in the order of POLICIES; options of it."""
    calls = calls_of_program(*options)
    image = build.kernel("lab")
    cpus = ",".join(str(2 * node + 1) for node in range(nodes))
    words = [" ".join((how, *options, f"--policy {number} --samples {samples} --cpus {cpus}")) for number, how in enumerate(ways)]
    command = ["sh", "-c", IN_CGROUP, "sh", "sh", str(paths.REPO / "lab/meter/guest_steps.sh"), "1", "0,2", str(programs.workloads() / "conflicts"), str(programs.hydractl()), *words]
    machine = vm.Machine(nodes=nodes, cpus_per_node=2, memory=f"{steps.NODE_MIB * nodes}M", append=[steps.CLOCK, steps.UNWATCHED, steps.QUIET],
                         ready=False, emulator=(*steps.COUNTED, *ROOM, "-plugin", f"{programs.conflicts_plugin()},out=DIRECTORY/samples"))
    with progress.counting("finding lines", len(words) * len(pairs(calls))) as bar:
        progress.say(f"booting {nodes} nodes of 2 CPUs for {name}")

        def watch(text):
            for _ in range(text.count('{"policy"')):
                bar.advance(1)
        result, output = vm.collect(command, machine, steps.LIMIT, watch, image)
    if result.status or result.trouble:
        said = "\n    ".join(line for line in output.splitlines() if not line.startswith("{"))
        raise LabError(f"measuring failed ({shlex.join(words)}).\n    {said}\n  {result.trouble}".rstrip(),
                       f"The machine's console: {result.directory / 'console.log'}", result.status or 1)
    names = Names((image.parent / "System.map").read_text(encoding="ascii"))
    return parse((result.directory / "samples").read_text(encoding="ascii"), names, calls)


def bench(arguments):
    nodes = arguments.nodes or [2]
    if len(nodes) > 1 or nodes[0] not in NODES:
        raise LabError(f"--nodes {' '.join(map(str, nodes))}: '{NAME}' can have {', '.join(map(str, NODES[:-1]))} or {NODES[-1]} nodes", status=2)
    paths.try_output(arguments.json, arguments.csv)
    found, calls = measure(nodes[0]), calls_of_program()
    show(found, calls)
    entries = entries_of(found)
    if arguments.json:
        values.write_json(arguments.json, entries)
    if arguments.csv:
        values.write_csv(arguments.csv, entries)
    return 1 if report.verdicts(list(check(found, calls))) else 0


def listing():
    return f"{NAME:10} 2 nodes x 2 CPUs: {WHAT}; --nodes 2, 4 or 8"
