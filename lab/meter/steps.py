# SPDX-License-Identifier: GPL-2.0-only
"""Counts what operations execute, kernel by kernel, policy by policy: the meter.

Each machine counts its virtual time in instructions (QEMU's -icount), so that a tick comes every 4 million of them and
one virtual CPU runs at a time; the plugin lab/meter/steps_plugin.c counts between the markers of workloads/steps.
"""
import dataclasses
import json
import shlex
import subprocess

from lab import paths, policies, progress
from lab.errors import LabError
from lab.kernel import build
from lab.machine import programs, vm
from lab.meter import steps_samples

# The machine's clock counts instructions, and one virtual CPU runs at a time: at a pause it is the next one's turn.
COUNTED = ("-icount", "shift=0,sleep=off")
NODE_MIB = 256               # the same on every machine: it decides how Linux caches free pages
LIMIT = 1800                 # seconds for one boot's measurements
# Without these, Linux measures for minutes how fast a clock is that counts instructions.
CLOCK = "tsc=reliable tsc_early_khz=1000000 nolapic_timer no_timer_check"
# While all CPUs wait for a file of the host, that clock jumps from tick to tick, and watchdogs would take the jumps for hangs.
UNWATCHED = "nowatchdog rcupdate.rcu_cpu_stall_suppress=1 sysctl.kernel.hung_task_timeout_secs=0"
# Devices interrupt another CPU than the measured one; no addresses are random.
QUIET = "irqaffinity=0 nokaslr norandmaps numa_balancing=disable nopku"


@dataclasses.dataclass
class Policy:
    config: str              # the kernel
    how: str                 # to run the program: see lab/meter/guest_steps.sh
    split: bool              # other threads of the process run on the other nodes
    what: str
    accesses: bool = True    # remote lines are counted, too
    used: bool = False       # the other threads have used the memory of the operation
    warm_up: int = 0         # operations ahead of the samples; 0: as steps does by itself


# In the order of one boot: "unused" comes before all policies that use Hydra.
POLICIES = {
    "off": Policy("off", "plainly", False, "Linux: Hydra configured out"),
    "off-split": Policy("off", "plainly", True, "Linux, other threads on the other nodes"),
    "unused": Policy("lab", "plainly", False, "Hydra configured in, never used", accesses=False),
    "linux": Policy("lab", "beside:linux", False, "policy linux while another process uses Hydra", accesses=False),
    "hydra": Policy("lab", "beside:hydra", False, "Hydra, all on one node, while another process is split"),
    "hydra-split": Policy("lab", "hydra", True, "Hydra, other threads on the other nodes"),
}
# Those of lab/bench/operations.py, all on one kernel.
WAYS = {**{name: name for name in policies.POLICIES}, "accessed": "hydra/accessed", "auto": "hydra/auto"}
# Filter auto tries marks for 64 flushes of a table before it decides, see HYDRA_TRY_FLUSHES.
TRIES = 72
SIDE_BY_SIDE = {f"{name}-{'together' if used else 'apart'}": Policy("lab", how, True, f"policy {how}", False, used, TRIES if used and name == "auto" else 0)
                for used in (False, True) for name, how in WAYS.items()}
EVERY = {**POLICIES, **SIDE_BY_SIDE}
NUMBERS = {name: number for number, name in enumerate(EVERY)}
CALIBRATION = ("nothing", "known")
# The rows that take longest; smaller rows show the same remote lines.
NOT_FOR_ACCESSES = ("map-unmap-4m", "mprotect-4m", "dontneed-2m", "fork-exit-64m", "exit-64m")


@dataclasses.dataclass
class Plan:
    nodes: tuple = (2, 16)
    policies: tuple = tuple(POLICIES)
    rows: tuple = ()         # empty: all but those for the papers' sweeps by size
    samples: int = 40
    access_samples: int = 8  # 0: remote lines are not counted
    functions: bool = False
    counts: bool = False     # interrupts and copies of leaf tables, too


@dataclasses.dataclass
class Row:
    name: str
    alone: bool
    shared: bool
    used: bool = False       # there is memory that other threads can use
    more: bool = False       # measured only if it is asked for by name

    def under(self, policy):
        if EVERY[policy].used and not self.used and self.name not in CALIBRATION:
            return False
        return not (self.alone if EVERY[policy].split else self.shared)


class Results:
    """What was measured, by (nodes, policy, row).

    Clocks, for the cross-check: the processor's clock by the same and by whether memory accesses were looked at.
    """

    def __init__(self, rows):
        self.rows = rows
        self.measured, self.clocks = {}, {}

    def add(self, nodes, policy, row, measured):
        """Numbers of instructions and of remote lines come from different samples of the same row."""
        key = (nodes, policy, row)
        if key not in self.measured:
            self.measured[key] = measured
            return
        known = self.measured[key]
        known.numbers.update(measured.numbers)
        known.errors.update(measured.errors)
        known.lines = measured.lines or known.lines

    def get(self, nodes, policy, row, metric):
        """A Number; steps_samples.Disagreement if there is none."""
        if (nodes, policy, row) not in self.measured:
            raise steps_samples.Disagreement("it was not measured")
        return self.measured[nodes, policy, row].get(metric)

    def nodes(self):
        return sorted({nodes for nodes, _, _ in self.measured})

    def policies(self):
        return [name for name in EVERY if any(policy == name for _, policy, _ in self.measured)]


def known_rows():
    """All rows that workloads/steps has."""
    command = [str(programs.workloads() / "steps"), "--list"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [Row(**entry) for entry in listed]


def chosen_rows(plan, rows):
    unknown = set(plan.rows) - {row.name for row in rows}
    if unknown:
        raise LabError(f"there is no row called {', '.join(sorted(unknown))}",
                       "These are there: " + ", ".join(row.name for row in rows if row.name not in CALIBRATION), status=2)
    return [row for row in rows if (row.name in plan.rows if plan.rows else not row.more) or row.name in CALIBRATION]


def guest_steps(plan, config, nodes, rows):
    """The words that tell lab/meter/guest_steps.sh what to do in one boot of a configuration, and how many rows that are."""
    elsewhere = ",".join(str(2 * node + 1) for node in range(1, nodes))
    steps, count = [], 0
    chosen = [name for name in plan.policies if EVERY[name].config == config and (nodes > 1 or not EVERY[name].split)]
    for accesses in (False, True):
        for name in chosen:
            policy = EVERY[name]
            here = [row.name for row in rows if row.under(name) and not (accesses and row.name in NOT_FOR_ACCESSES)]
            if accesses and not (plan.access_samples and policy.accesses and nodes > 1):
                continue
            words = [policy.how, "--policy", str(NUMBERS[name]), "--rows", ",".join(here),
                     "--samples", str(plan.access_samples if accesses else plan.samples)]
            if policy.warm_up:
                words += ["--warm-up", str(policy.warm_up)]
            if policy.split or accesses:
                words += ["--others", "threads" if policy.split else "processes", "--cpus", elsewhere]
            words += [word for word, given in (("--accesses", accesses), ("--counts", plan.counts), ("--use", policy.used)) if given]
            steps.append(" ".join(words))
            count += len(here)
    return steps, count


def machine(nodes, plugin, symbols, functions):
    options = f"{plugin},symbols={symbols},out=DIRECTORY/samples"
    return vm.Machine(nodes=nodes, cpus_per_node=2, memory=f"{NODE_MIB * nodes}M", append=[CLOCK, UNWATCHED, QUIET],
                      ready=False, emulator=(*COUNTED, "-plugin", options + (",functions=on" if functions else "")))


def boot(plan, config, nodes, rows, results, bar):
    """Measure the policies of a configuration on one machine."""
    steps, _ = guest_steps(plan, config, nodes, rows)
    image = build.kernel(config)
    try:
        found = steps_samples.symbols((image.parent / "System.map").read_text(encoding="ascii"))
    except steps_samples.Disagreement as error:
        raise LabError(str(error)) from error
    symbols = paths.cache_dir("programs", "steps-symbols") / f"{image.parent.name}.symbols"
    paths.write_whole(symbols, steps_samples.symbol_lines(found))
    command = ["sh", str(paths.REPO / "lab/meter/guest_steps.sh"), "1", "0,2" if nodes > 1 else "0",
               str(programs.workloads() / "steps"), str(programs.hydractl()), *steps]

    def watch(text):
        for _ in range(text.count('{"policy"')):
            bar.advance(1, f"{nodes} nodes, {config}")
    result, output = vm.collect(command, machine(nodes, programs.steps_plugin(), symbols, plan.functions), LIMIT, watch, image)
    if result.status or result.trouble:
        said = "\n    ".join(line for line in output.splitlines() if not line.startswith("{"))
        raise LabError(f"measuring on {nodes} nodes ({config}: {shlex.join(steps)}) failed.\n    {said}\n  {result.trouble}".rstrip(),
                       f"The machine's console: {result.directory / 'console.log'}", result.status or 1)
    take(results, nodes, result.directory / "samples", output, ["(user)", *(name for _, _, name in found)])


def take(results, nodes, samples, output, names):
    """Add what one boot measured: the plugin's samples, and the processor's clock as the program printed it."""
    groups = steps_samples.parse(samples.read_text(encoding="ascii"))
    policies = list(EVERY)
    for (policy, row, accesses), group in groups.items():
        results.add(nodes, policies[policy], results.rows[row].name, steps_samples.measured(group, accesses, names))
    for line in output.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            key = (entry["policy"], entry["row"], bool(entry["accesses"]))
            where = (nodes, policies[key[0]], results.rows[key[1]].name)
            results.clocks[*where, key[2]] = steps_samples.clock_overheads(groups[key], entry["time"])
            if "copies" in entry:
                results.add(*where, steps_samples.counted(entry))


def measure(plan):
    """All that a plan asks for, in one boot for each machine and kernel."""
    every = known_rows()
    rows, results = chosen_rows(plan, every), Results(every)
    boots = [(nodes, config) for nodes in plan.nodes for config in ("off", "lab")
             if guest_steps(plan, config, nodes, rows)[0]]
    for config in dict.fromkeys(config for _, config in boots):
        build.kernel(config)
    with progress.counting("counting instructions", sum(guest_steps(plan, config, nodes, rows)[1] for nodes, config in boots)) as bar:
        for nodes, config in boots:
            progress.say(f"booting {nodes} nodes of 2 CPUs, configuration {config}")
            boot(plan, config, nodes, rows, results, bar)
    return results
