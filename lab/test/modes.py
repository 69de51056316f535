# SPDX-License-Identifier: GPL-2.0-only
"""The modes of the kernel and the kinds of machines, with the self tests for each."""
import dataclasses

from lab.errors import LabError
from lab.kernel import build
from lab.machine import programs
from lab.machine.ktap import Outcome
from lab.machine.vm import Machine
from lab.test import stages, suites


@dataclasses.dataclass
class Mode:
    name: str
    machine: Machine
    tests: list
    long: bool = False       # only with --long
    words: dict = dataclasses.field(default_factory=dict)        # the arguments of single programs
    sleeping: bool = False   # always without the variants whose threads never sleep; other modes only without --long


EVERYTHING = ["interface", "split", "fill", "coherence", "pages", "huge", "shootdown", "bystanders", "filters", "scopes", "eager", "place",
              "events", "reclaim", "memcg", "count", "oracle"]

MODES = [
    Mode("4 levels, isolated tables, THP always", Machine(append=["no5lvl pti=on transparent_hugepage=always"]),
         ["fill", "coherence", "huge"]),
    # Other programs move pages to every node with CPUs, or need tables there.
    Mode("a node without memory, one without CPUs", Machine(nodes=5, memoryless=(3,), cpuless=(1,)), ["coherence", "oracle"]),
    Mode("Hydra for all from the start", Machine(append=["hydra=hydra"]), ["coherence", "shootdown"]),
    # Linux makes address spaces before it has workqueues, and each of them gets the settings.
    Mode("auto for all from the start", Machine(append=["hydra=auto"]), ["coherence", "auto"]),
    # The last two nodes share a domain that uses the canonical tree; each core is a last-level cache. And as on a server, the kernel's
    # code is patched when the first program comes under Hydra, and back a minute after the last has gone.
    Mode("more nodes than domains", Machine(append=["hydra_max_domains=3 hydra_llc_cpus=1"], ready=False), ["servers", "coherence", "oracle", "scopes"]),
    # Two CPUs are offline at boot, and come while programs run.
    Mode("cores of two threads, CPUs that come late", Machine(nodes=2, cpus_per_node=4, threads=2, append=["maxcpus=6"]), ["scopes"]),
    # One node: groups of CPUs take the place of nodes. Without the oracle, which waits until it has seen replicas reclaimed: those
    # from the pools of groups are not. Short runs of it, which do not wait, are in guests.py.
    Mode("groups of CPUs", Machine(nodes=1, cpus_per_node=8, append=["hydra_groups=0,4/1,5/2,6/3,7"]), ["groups", "coherence"]),
    # The debug kernel takes the latencies between CPUs from here, as an emulator has none: even CPUs are near each other, and odd ones.
    Mode("groups that were measured", Machine(nodes=1, cpus_per_node=4, config="debug", append=[
        "hydra_groups=measure hydra_latency=0,125,50,125,125,0,125,62,52,125,0,125,125,60,125,0"]), ["groups"],
         words={"groups": "-t bad_input_changes_nothing -t cpus_move_as_measured"}),
    Mode("pages of a gigabyte", Machine(nodes=2, memory="6G", append=["hugepagesz=1G hugepages=1"]), ["huge"]),
    Mode("5 levels, isolated tables", Machine(append=["pti=on"]), EVERYTHING, long=True),
    Mode("4 levels, tables not isolated, no THP", Machine(append=["no5lvl pti=off transparent_hugepage=never"]),
         EVERYTHING, long=True),
    Mode("two nodes", Machine(nodes=2), EVERYTHING, long=True),
    Mode("eight nodes of one CPU", Machine(nodes=8, cpus_per_node=1), ["coherence", "oracle", "reclaim"], long=True),
    Mode("sixteen nodes, 32 CPUs", Machine(nodes=16, memory="4G"), ["coherence", "oracle"], long=True),
    # Sixteen threads that never sleep take hours in these programs.
    Mode("huge pages on sixteen nodes", Machine(nodes=16, memory="4G"), ["huge"], long=True, sleeping=True),
]


def limit(machine):
    """Seconds for one program: more CPUs than the usual machine has share the same real ones."""
    usual = suites.MACHINE.nodes * suites.MACHINE.cpus_per_node
    return suites.SELFTEST_LIMIT * max(1, machine.nodes * machine.cpus_per_node // usual)


def chosen(long=False, only="", seed=0):
    """The modes with a word in the name; in a short run without a word those that the number seed draws."""
    named = [mode for mode in MODES if (long or not mode.long) and only in mode.name]
    return named if long or only else stages.share("modes", named, seed)


def run(long=False, only="", seed=0):
    """Each chosen mode in one boot; a dict from mode to outcomes."""
    where = {test.name: test for test in programs.selftests(build.tree())}
    groups = {}
    for mode in chosen(long, only, seed):
        missing = [name for name in mode.tests if name not in where]
        if missing:
            groups[mode.name] = [Outcome(f"mode {mode.name}", "failed", f"no such self test: {', '.join(missing)}")]
        else:
            groups[mode.name] = suites.selftests([where[name] for name in mode.tests], mode.machine, mode.name,
                                                 seconds=limit(mode.machine),
                                                 words={**(suites.SLEEPING if mode.sleeping or not long else {}), **mode.words})
    if not groups:
        raise LabError(f"no mode is called like '{only}'", "Those that take long are run with --long only.")
    return groups
