# SPDX-License-Identifier: GPL-2.0-only
"""The self tests on an emulated Intel processor with PCID and VMX, and the injected fault that shows only with PCID."""
import dataclasses

from lab.errors import LabError
from lab.kernel import build
from lab.machine import programs
from lab.machine.ktap import Outcome
from lab.test import faults, suites
from lab.test.bochs import bochs

CATCHER = "coherence"
FAULTS = "injected faults [PCID]"


@dataclasses.dataclass
class Boot:
    name: str
    machine: bochs.Machine
    tests: list


BOOTS = [
    Boot("PCID, isolated tables", bochs.Machine(append=["pti=on"]),
         ["coherence", "oracle", "fill", "pages", "huge", "interface", "place", "events", "reclaim"]),
    Boot("PCID, tables not isolated", bochs.Machine(append=["pti=off"]), ["coherence", "oracle"]),
    # The tests count interrupts of CPUs that run nothing else.
    *(Boot(f"PCID, {policy}", bochs.Machine(arguments=f"--policy {policy}"), ["oracle"]) for policy in suites.OTHER_POLICIES),
    Boot("PCID, no neighbours", bochs.Machine(neighbours=False), ["shootdown", "bystanders", "filters"]),
    # Intel's half of KVM, with EPT: QEMU's processors have AMD's half.
    Boot("VMX", bochs.Machine(nodes=3, neighbours=False, parameters={"kvm_intel.ept": "Y"}),
         ["vm_fill", "vm_move", "vm_degrade", "vm_interface", "vm_copy", "vm_bystanders", "vm_dirty", "vm_age", "vm_coherence", "vm_follow",
          "vm_hypercall"]),
    # The processor itself logs which pages a guest writes. It says that its clock is 70 times faster than Bochs's: no test that sleeps.
    Boot("VMX with PML", bochs.Machine(nodes=3, neighbours=False, model="corei7_skylake_x", parameters={"kvm_intel.pml": "Y"}),
         ["vm_fill", "vm_copy", "vm_bystanders", "vm_dirty", "vm_age"]),
]


def injected(rule, where):
    """One outcome: does a test notice the broken rule?"""
    name = f"injected fault {rule}"
    by = bochs.first_failure(build.kernel("debug"), [where[CATCHER]], bochs.Machine(mib_per_node=768, broken=rule), name)
    if by:
        return Outcome(name, "passed", f"{CATCHER}: {by}")
    return Outcome(name, "failed", "no test ran" if by is None else f"nothing noticed it; tried: {CATCHER}")


def run(only=""):
    """Each boot with a word in the name; a dict from name to outcomes."""
    where = {test.name: test for test in programs.selftests(build.tree())}
    groups = {}
    for boot in [boot for boot in BOOTS if only in boot.name]:
        missing = [name for name in boot.tests if name not in where]
        if missing:
            groups[boot.name] = [Outcome(boot.name, "failed", f"no such self test: {', '.join(missing)}")]
            continue
        outcomes = bochs.run(build.kernel("lab"), [where[name] for name in boot.tests], boot.machine, boot.name)
        groups[boot.name] = [outcome.on(boot.name) for outcome in outcomes]
    if only in FAULTS:
        groups[FAULTS] = [injected(rule, where) for rule, stage in faults.ELSEWHERE.items() if stage == "pcid"]
    if not groups:
        raise LabError(f"no boot is called like '{only}'", f"There are: {', '.join([*(boot.name for boot in BOOTS), FAULTS])}.")
    return groups
