# SPDX-License-Identifier: GPL-2.0-only
"""Virtual machines inside the lab's machine: Hydra's own self tests of them and, with --long, all of KVM's own tests.

QEMU's emulator has AMD's SVM with nested paging, so KVM works in the lab's machine. KVM's tests (tools/testing/selftests/kvm of the
kernel tree) run with the boot parameter hydra=linux, then with Hydra and two degrees of prefetch: what passes on stock has to pass.
"""
import shlex

from lab import paths
from lab.kernel import build
from lab.machine import programs, vm
from lab.test import guests, linux_suites, suites

POLICIES = ["hydra,prefetch=0", "hydra,prefetch=9"]
# The parameters: see suites.selftests(). Some tests have machines of a gigabyte.
MACHINE = vm.Machine(nodes=4, cpus_per_node=2, memory="4G", append=["nopku", "numa_balancing=disable"])
SECONDS = 600                # for one program

# Arguments, where the usual ones are for faster or larger machines. The emulator populates a gigabyte in some minutes.
ARGUMENTS = {
    "kvm:access_tracking_perf_test": "-b 64M",
    "kvm:demand_paging_test": "-b 64M",
    "kvm:dirty_log_page_splitting_test": "-b 16M",       # of huge pages, of which guest_linux_suites.sh reserves 16
    "kvm:dirty_log_perf_test": "-b 64M",
    # A virtual CPU reads the round, and writes it to a page; if it stands still for two rounds of 10 ms in between, the test fails.
    "kvm:dirty_log_test": "-i 4 -I 2000",
    "kvm:kvm_page_table_test": "-b 64M",
    "kvm:max_guest_memory_test": "-m 1 -s 1",
    "kvm:memslot_perf_test": "-s 512 -l 1",
}
# These count the entries of the nested tables of a machine. Under Hydra, each node has its own: so they run on one node; not on that of CPU 0 (see vm.NOT_ON_FIRST_CPU).
BOUND = ["kvm:dirty_log_page_splitting_test", "kvm:nx_huge_pages_test.sh"]
ONE_NODE = ["numactl", "--cpunodebind=1", "--"]

# Not run, and why.
NEVER = {
    "kvm:debug_regs": "QEMU 7.2 does not leave the virtual machine at an intercepted int3",
    "kvm:hardware_disable_test": "six minutes of machines that are killed while they start; no memory",
    "kvm:monitor_mwait_test": "an invalid instruction (#UD) at MONITOR, where none is expected",
    "kvm:nested_exceptions_test": "another error code than the one injected arrives in the machine inside the virtual machine",
    "kvm:rseq_test": "a hundred thousand moves from CPU to CPU: more than seven minutes",
    "kvm:svm_nested_soft_inject_test": "wants the processor's NRIPS, which QEMU 7.2 does not have",
    "kvm:system_counter_offset_test": "the clocks of the emulator's CPUs differ; no memory",
    "kvm:xcr0_cpuid_test": "QEMU 7.2 does not leave the virtual machine at XSETBV",
}


def script(installed, tests, seconds, only, skip):
    """The script for the machine: KVM's tests that match a pattern of only and none of skip, each with a limit in seconds."""
    lines = [f". {shlex.quote(str(paths.REPO / 'lab/guest/guest_linux_suites.sh'))}", f"prepare {shlex.quote(str(installed))}",
             f"python3 {shlex.quote(vm.HELD_VMS)}",
             "one machine:policy 30 cat /proc/1/hydra /proc/self/hydra",
             "one machine:npt 30 grep Y /sys/module/kvm_amd/parameters/npt"]
    for name in tests:
        if linux_suites.matches(name, only) and not linux_suites.matches(name, skip):
            bound = ONE_NODE if name in BOUND else vm.NOT_ON_FIRST_CPU
            lines.append(f"selftest {name} {seconds} {shlex.join([*bound, './' + name.partition(':')[2], *ARGUMENTS.get(name, '').split()])}")
    lines.append("one machine:invariants 30 cat /sys/kernel/mm/hydra/violations")
    return "\n".join(lines)


def kvms_own(only=""):
    """KVM's own tests with a word in the name, on stock and with each policy, as outcomes; prints the tables."""
    if (known := linux_suites.sources(["kvm"])) and not any(only in name for name in known):
        return []
    image = build.kernel("lab")
    installed, tests = linux_suites.install(["kvm"], "linux-selftests-kvm")
    if not any(only in name for name in tests):
        return []
    made, stock = [], None

    def run(name, again=()):
        patterns = list(again) or [f"*{only}*"]
        return linux_suites.run_all(image, MACHINE, name, lambda skip: script(installed, tests, SECONDS, patterns, skip), SECONDS, list(NEVER))
    for policy in POLICIES:
        found, stock = linux_suites.compared(run, policy, stock)
        title = f"KVM's own tests on stock and with {policy} for every process"
        made += [outcome.on(policy) for outcome in linux_suites.judged(found, title, ["kvm"], only)]
    return made


def names(long):
    """The programs that are known before a build, KVM's own only if the cache holds a kernel tree."""
    ours = [name for name in programs.selftest_names() if name.startswith(suites.VM)]
    return ours + ([*(kind.name for kind in guests.KINDS), *(name for name in linux_suites.sources(["kvm"]) if name not in NEVER)] if long else [])


def run(long, only, arguments):
    """The self tests with virtual machines; with long, on the debug kernel, too, self tests in a machine in the machine, and KVM's own
    tests. A dict of outcomes."""
    groups = {"self tests with virtual machines": suites.in_machine("lab", only, arguments, vms=True)}
    if long:
        groups["self tests with virtual machines [debug kernel]"] = suites.in_machine("debug", only, arguments, vms=True)
        groups["self tests in a machine in the machine"] = guests.run(only)
        groups["KVM's own tests"] = kvms_own(only)
    # A word may be in names of one group alone.
    return {title: outcomes for title, outcomes in groups.items() if outcomes or not only} if any(groups.values()) else groups
