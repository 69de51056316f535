# SPDX-License-Identifier: GPL-2.0-only
"""The stages of ./hydra test, in order, for --help and for the runner."""
import dataclasses

SEEDS = 1000                 # the number that draws is below
# A short run takes a part of some stages. So many short runs with numbers that follow each other have the whole stage.
SHARES = {"machine": 2, "packages": 2, "modes": 4, "suites": 4, "debug": 8, "injected": 16}


def share(stage, entries, seed):
    """The entries that a short run takes, drawn by the number seed."""
    return list(entries)[seed % SHARES[stage]::SHARES[stage]]


@dataclasses.dataclass
class Stage:
    what: str
    config: str = ""         # the kernel of the stage
    only: str = ""           # what --only picks from; empty: --only is refused
    long: bool = False       # only with --long


STAGES = {
    "host": Stage("the lab, the tool's parsing, the model (no virtual machine)", only="tests"),
    "machine": Stage("the lab with real virtual machines. A short run has every second file of tests", "lab", only="tests"),
    "off": Stage("Linux's files with hooks in them, compiled with Hydra configured out"),
    "packages": Stage("Debian's configurations: our files compiled with them (in a short run with one of this release); the package of hydractl, installed and removed"),
    "server": Stage("the packages on a Debian 12 and a Debian 13 of their own: apt, boot with GRUB, services, self tests, purge; builds the kernels cloud-amd64", only="releases", long=True),
    "series": Stage("what ./hydra series changes in Linux, compiled (not linked) after each patch, with Hydra off and on", long=True),
    "selftests": Stage("KUnit and the kernel self tests. A short run leaves out what its stage debug runs whole", "lab", only="programs"),
    "steps": Stage("what operations execute, counted: the limits of Hydra's cost", "lab", only="rows", long=True),
    "modes": Stage("self tests with 4 and 5 levels, isolated tables, huge pages, odd machines. A short run has every fourth mode", "lab", only="modes"),
    "suites": Stage("Linux's own tests and stress-ng, on stock and with a policy for every process. A short run has one policy, and a half of mm's tests, the other half, those of the other directories, or stress-ng", "lab", only="programs"),
    "vm": Stage("self tests with virtual machines; with --long also on the debug kernel, self tests in a machine in the machine, and KVM's own tests on stock and under Hydra", "lab", only="programs"),
    "debug": Stage("self tests on the debug kernel: KASAN, lockdep, page-table checks. A short run has every eighth program", "debug", only="programs"),
    "injected": Stage("injected faults: rules broken one by one on the debug kernel; does a test notice? A short run breaks every sixteenth rule", "debug", only="rules"),
    "races": Stage("self tests on a kernel that looks for data races (KCSAN)", "kcsan", long=True),
    "oracle": Stage("a million operations of the stale-translation oracle, and some under each other policy", "lab", only="runs", long=True),
    "suites-debug": Stage("Linux's own tests on the debug kernel", "debug", only="programs", long=True),
    "load": Stage("an hour under policy auto on the debug kernel, which looks as often as in ten: nothing leaks, no process is split and returns all the time", "debug", long=True),
    "pcid": Stage("self tests and an injected fault on an emulated Intel processor with PCID and VMX (Bochs)", "debug", only="boots", long=True),
}


def name(word):
    """The stage that a word of the command line names; "faults" is the old name of one."""
    return "injected" if word == "faults" else word


def described():
    return "\n".join(f"  {name:13} {stage.what}{' (only with --long)' if stage.long else ''}" for name, stage in STAGES.items())
