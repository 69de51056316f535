# SPDX-License-Identifier: GPL-2.0-only
"""What ./hydra here measures: the rows of the demo, the measurements of ./hydra bench and a command of the user, on this machine.

The measurements were written for machines of the lab's emulator. Here each gets as many nodes and CPUs of this machine as its
program can use, or a reason why it cannot run.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import sys

from lab import paths, policies, setup
from lab.bench import choice
from lab.errors import LabError
from lab.measure import demo_lines, measure
from lab.measure.values import Line

WORKLOAD = "workload"
ROUND_ROBIN_MOST = 500       # threads of the programs with turns (workloads/round_robin.h)
FOOTPRINT_MOST = 32          # threads whose stacks fit (workloads/footprint.c)
LOOP = ("--iterations", "200000")    # of the demo's loops: a real machine does so many in a second or so
DISKS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"}
# Not for a machine that others use, and why.
EMULATED = {"programs": "it makes swap and a memory cgroup for pbzip2, which is for a machine that ends afterwards. Measure a program with --workload",
            "sweeps": "as 'programs' does, it makes swap and a memory cgroup. Measure a program with --workload",
            "auto": "it counts instructions by the emulator's clock, and waits for minutes in which the emulator skips time",
            "wander": "it waits for minutes in which the emulator skips time, and its limits are of four nodes",
            "placed": "it counts instructions and page walks by the emulator",
            "migrate": "it starts a whole machine, and continues it on another host",
            "walks": "it starts a whole machine, and stops the kernel's huge pages",
            "follow": "its virtual machine needs a kernel tree, and it changes how often the kernel looks at all virtual machines",
            "nested": "its virtual machine is divided among 4 nodes, and on the machine of a user vCPUs would take all CPUs"}
PROBLEM = "needs {wanted}; this machine has {seen}"


@dataclasses.dataclass(frozen=True)
class Task:
    """What one process measures."""
    row: str
    case: str                # empty: all cases of a row of the demo
    policy: str              # the column
    step: object = None      # of a bench
    settings: tuple = ()     # of a command of the user

    def key(self):
        return [self.row, self.case, self.policy]


@dataclasses.dataclass(frozen=True)
class Unit:
    """A measurement on this machine."""
    name: str
    what: str
    kind: str                # "bench", "demo" or "workload"
    cases: tuple             # of tuples of tasks, one for each policy
    lines: tuple
    nodes: dict              # {node: its CPUs that the measurement uses}
    note: str = ""
    bench: object = None

    def tasks(self):
        return [task for case in self.cases for task in case]


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a program can use of a machine."""
    per_node: int = 0        # CPUs of each node at most; 0: all
    threads: int = 0         # in all at most; 0: any number
    least: int = 1           # CPUs of each node
    same_as: str = ""        # another measurement, of which this one is a copy for another size


SHAPES = {
    "footprint": Shape(threads=FOOTPRINT_MOST), "prefetch": Shape(per_node=1),
    "pipeline": Shape(threads=ROUND_ROBIN_MOST), "pipeline-64": Shape(same_as="pipeline"), "spinners": Shape(threads=ROUND_ROBIN_MOST),
    "sharing": Shape(threads=ROUND_ROBIN_MOST), "apps": Shape(threads=ROUND_ROBIN_MOST), "miniatures": Shape(threads=ROUND_ROBIN_MOST), "allocators": Shape(per_node=1, threads=ROUND_ROBIN_MOST),
    "mprotect": Shape(least=2), "munmap": Shape(least=2), "apache": Shape(least=2), "locality": Shape(),
}


def names():
    return [*measure.ROWS, *choice.BENCHES]


def used(shape, nodes):
    """({node: CPUs that a program gets}, why it cannot run or '')."""
    fewest = min(map(len, nodes.values()))
    if fewest < shape.least:
        return {}, PROBLEM.format(wanted=f"{shape.least} CPUs on each node", seen=f"a node with {fewest}")
    most = min(filter(None, (shape.per_node, shape.threads // len(nodes) if shape.threads else 0)), default=max(map(len, nodes.values())))
    if shape.threads and len(nodes) > shape.threads:
        return {}, PROBLEM.format(wanted=f"at most {shape.threads} threads, one on each node", seen=f"{len(nodes)} nodes")
    return {node: list(cpus)[:most] for node, cpus in nodes.items()}, ""


def lacking(packages, programs):
    """Why packages or programs are not there; empty if they are."""
    missing = setup.missing_packages(packages) if packages else []
    missing += [package for package, program in programs.items() if not shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")]
    return f"needs the Debian packages {' '.join(missing)}:  apt install {' '.join(missing)}" if missing else ""


def file_system(directory, mounts="/proc/self/mountinfo"):
    """The kind of file system that a directory is on."""
    best, kind = "", "unknown"
    for line in pathlib.Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        place = before.split()[4].replace("\\040", " ")
        inside = place == "/" or str(directory) == place or str(directory).startswith(f"{place}/")
        if inside and len(place) >= len(best):
            best, kind = place, after.split()[0]
    return kind


def why_no_disk(bench):
    if not bench.disk:
        return ""
    kind = file_system(paths.cache_dir())
    return "" if kind in DISKS else f"needs a directory on a disk, and {paths.cache()} is on '{kind}': set HYDRA_CACHE to a directory on a disk"


def word(column):
    """A column as --policies names it: 'node, entry' is node-entry."""
    return column.replace(", ", "-")


def columns_of(bench):
    """{column: the policy that its programs run under}."""
    return {step.policy: step.settings[step.settings.index("--policy") + 1] for step in bench.steps}


def chosen_columns(columns, wanted):
    """Those of a measurement's columns that --policies names, by the column's name or else by its policy; Linux is always among them."""
    found = {column for column in columns if column == "linux"}
    for name in wanted:
        exact = {column for column in columns if word(column) == name}
        found |= exact or {column for column, policy in columns.items() if policy == name}
    return [column for column in columns if column in found]


def policies_of(text):
    """The names in --policies, each known to some measurement; all policies without --policies."""
    if text is None:
        return None
    wanted = list(dict.fromkeys(policies.in_list(text)))
    every = list(dict.fromkeys([*policies.POLICIES, *(word(column) for one in choice.BENCHES.values() for column in columns_of(one))]))
    for name in (name for name in wanted if "," in name):
        policies.words(name)
    if unknown := [name for name in wanted if name not in every and "," not in name]:
        raise LabError(f"--policies {text}: there is no policy '{unknown[0]}'", f"There are {', '.join(every)}.", status=2)
    return wanted


def with_options(wanted, arguments):
    """The policies with the settings that options name, for --workload."""
    made = [policies.with_options(policy, arguments) for policy in wanted or policies.POLICIES]
    if made == list(wanted or policies.POLICIES):
        return wanted
    if arguments.workload is None:
        raise LabError("--domains, --replication, --prefetch and --filter are for --workload only", status=2)
    for policy in made:
        policies.words(policy)
    return made


def bench_unit(one, nodes, wanted):
    """The unit of a bench, or the reason why there is none."""
    shape, one = SHAPES.get(one.name), one.real or one
    if one.counted:
        return None, "its counts are taken by a plugin of the emulator, which a real machine does not have"
    if shape is None:
        return None, EMULATED.get(one.name, "how many CPUs of a machine its programs can use is not known")
    if shape.same_as:
        return None, f"it is '{shape.same_as}' on a larger machine of the emulator; '{shape.same_as}' uses all CPUs here"
    found, why = used(shape, nodes)
    why = why or lacking(one.packages, {}) or why_no_disk(one)
    if why:
        return None, why
    if one.on and len(found) in one.sizes:
        one = one.on(len(found))
    chosen = chosen_columns(columns_of(one), wanted) if wanted else list(one.columns())
    if set(chosen) <= {"linux"}:
        return None, f"it has none of these policies; it has {', '.join(map(word, columns_of(one)))}"
    fewest = min(map(len, found.values()))
    steps = [step for step in one.steps if step.policy in chosen and threads_of(step) <= fewest]
    if not steps:
        return None, PROBLEM.format(wanted="more CPUs on each node", seen=f"a node with {fewest}")
    cases = {}
    for step in steps:
        cases.setdefault(step.case, []).append(Task(one.name, step.case, step.policy, step))
    dropped = sorted({step.case for step in one.steps} - set(cases))
    note = f"Not on this machine, whose smallest node has {fewest} CPUs: {', '.join(dropped)}." if dropped else ""
    return Unit(one.name, one.what, "bench", tuple(map(tuple, cases.values())), tuple(one.lines), found, f"{size_note(one.machine, found)} {note}".strip(), one), ""


def threads_of(step):
    """How many CPUs of each node a step needs."""
    return int(step.command[step.command.index("--per-node") + 1]) if "--per-node" in step.command else 1


def size_note(machine, nodes):
    sizes = sorted({len(cpus) for cpus in nodes.values()})
    return (f"Here it uses {len(nodes)} nodes of {' or '.join(map(str, sizes))} CPUs. It was written for {machine.cpus_per_node} CPUs on each node: "
            "where a title has a number of CPUs, it is that of such a machine.")


def demo_unit(row, nodes, wanted):
    found, why = used(SHAPES[row], nodes)
    if row == "apache":
        why = why or lacking((), {"apache2-bin": "apache2", "wrk": "wrk"})
    columns = chosen_columns({policy: policy for policy in policies.POLICIES}, wanted) if wanted else list(policies.POLICIES)
    if not why and set(columns) <= {"linux"}:
        why = f"it has none of these policies; it has {', '.join(policies.POLICIES)}"
    if why:
        return None, why
    machine, what = measure.ROWS[row]
    lines = tuple(line for line in demo_lines.lines(len(found), len(found)) if line.row == row)
    return Unit(row, what, "demo", (tuple(Task(row, "", policy) for policy in columns),), lines, found, size_note(machine, found)), ""


# metric: (unit, title, which column wins)
WORKLOAD_METRICS = {"seconds": ("s", "time", "fewest"), "cpu_seconds": ("s", "time of all CPUs, user and system", "fewest"),
                    "machine_tlb_interrupts": ("interrupts", "interrupts for TLB shootdowns, of the whole machine while it runs", "fewest")}


def workload_unit(command, nodes, wanted):
    if not command.strip():
        raise LabError("--workload: no command given", "Write it in quotes, e.g.  --workload 'stress-ng --mmap 4 --mmap-ops 1000'", status=2)
    columns = [policy for policy in policies.POLICIES if not wanted or policy in ("linux", *wanted)] + [policy for policy in wanted or () if "," in policy]
    if wanted and not set(wanted) & set(columns):
        raise LabError(f"--policies: a command cannot run under {' or '.join(wanted)}, which are columns of measurements", f"It can under {', '.join(policies.POLICIES)}.",
                       status=2)
    tasks = tuple(Task(WORKLOAD, command, policy, settings=policies.words(policy)) for policy in columns)
    lines = tuple(Line(WORKLOAD, command, metric, title, "", better) for metric, (_, title, better) in WORKLOAD_METRICS.items())
    return Unit(WORKLOAD, command, "workload", (tasks,), lines, nodes, "A first run, which reads the files, is not counted.")


def units(chosen, command, nodes, wanted):
    """(the units that can run, {name: why it cannot})."""
    made, skipped = [], {}
    for name in chosen:
        unit, why = demo_unit(name, nodes, wanted) if name in measure.ROWS else bench_unit(choice.BENCHES[name], nodes, wanted)
        if unit:
            made.append(unit)
        else:
            skipped[name] = why
    return made + ([workload_unit(command, nodes, wanted)] if command is not None else []), skipped


def plan(made, runs):
    """(run, unit, task) in their order: in every second run the policies of each case go backwards, so that none is always the first."""
    return [(run, unit, task) for run in range(1, runs + 1) for unit in made for case in unit.cases for task in (case if run % 2 else case[::-1])]


def command_of(unit, task, tools, counted):
    """The words that measure a task. tools: {program: its path}; counted: what goes before a program whose events are counted."""
    script = {"bench": "lab/guest/guest_programs.py", "demo": "lab/guest/guest_measure.py", "workload": "lab/here/guest_timed.py"}[unit.kind]
    python = [sys.executable, "-I", str(paths.REPO / script)]
    if unit.kind == "workload":
        return [*python, tools["hydractl"], "run", *task.settings, "--", *counted, "/bin/sh", "-c", unit.what]
    if unit.kind == "demo":
        programs = [tools[name] for name in ("hydractl", "shootdown", "locality")]
        return private([*counted, *python, "--policies", task.policy, "--runs", "1", *LOOP, "--programs", *programs, "--rows", task.row])
    # The programs use the CPUs that they may run on: so taskset gives a measurement fewer than the machine has.
    cpus = ",".join(str(cpu) for cpus in unit.nodes.values() for cpu in cpus)
    words = ["taskset", "-c", cpus, *same_addresses(unit.bench.machine), *counted, *task.step.command]
    step = {"doing": f"{task.case}, {task.policy}", "settings": task.step.settings, "command": words}
    programs = [tools[name] for name in ("hydractl", *unit.bench.programs)]
    return private([*python, "--programs", *programs, "--plan", json.dumps([step])])


def same_addresses(machine):
    """For one process, what norandmaps is for a machine of the lab."""
    return ["setarch", "-R"] if "norandmaps" in machine.append else []


def private(command):
    """The command with a /dev/shm of its own: what the lab's programs leave there is gone with them, however they end."""
    return ["unshare", "--mount", "--", "/bin/sh", "-c", 'mount -t tmpfs -o mode=1777 hydra /dev/shm && exec "$@"', "sh", *command]


def title_of(line):
    """A line's title without what it says of an emulator."""
    return re.sub(r"an emulator's |, Linux = 1", "", line.title)
