# SPDX-License-Identifier: GPL-2.0-only
"""The test suites, each giving a list of outcomes: host tests, KUnit, self tests, the kernel's own complaints."""
import dataclasses
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

from lab import children, paths, policies, progress
from lab.kernel import build
from lab.machine import console, ktap, programs, vm
from lab.machine.ktap import Outcome
from lab.test.stages import share

SELFTEST_LIMIT = 400         # seconds for one program
DEBUG_LIMIT = 1800           # on a kernel with checkers
NO_TEST_COLLECTED = 5        # pytest's exit status
SLOWEST = {"lab": 10, "debug": 2}    # operations of the oracle per second
# The oracle's long runs: a million operations in all, most on a machine where each emulated CPU has a real CPU, and some on
# the kernel with checkers, where the oracle lets allocations fail.
LONG_ORACLE = [(vm.Machine(nodes=2, cpus_per_node=1, memory="2G"), 920_000, "two nodes of one CPU"),
               (vm.Machine(nodes=4, cpus_per_node=2, memory="2G"), 80_000, "four nodes of two CPUs"),
               (vm.Machine(nodes=4, cpus_per_node=2, memory="2G", config="debug"), 5_000, "the debug kernel")]
# With each other policy, so many operations on the second of these machines
OTHER_POLICIES = ["hydra,filter=entry", "hydra,filter=accessed", "hydra,filter=auto", "hydra,domains=llc", *(name for name in policies.OF_HYDRA if name != "hydra")]
OTHER_OPERATIONS = 20_000
MACHINES = 4                 # for one stage, if the emulator spoils the others
VM = "vm_"                   # begins the names of self tests with virtual machines, which have a stage of their own
# The variants whose threads never sleep take six times as long as the other variants. Their purpose is to find a missing
# flush, on the usual machine, with the lab's kernel; runs with another purpose skip these variants.
SLEEPING = {"coherence": "-V whole_tables_running", "pages": "-V whole_tables_running", "huge": "-V running"}
# On the lab's kernel a short run leaves out the filters, the policy and the CPUs that the variants beside them contain: "mixed" of
# count has busy and idle CPUs on each node.
SHORT = {"filters": "-V entry -V accessed", "scopes": "-V radixvm", "count": "-V busy -V idle"}
# The debug kernel finds wrong uses of memory and of locks: one of the filters takes all paths of the others.
ONE_FILTER = {**SLEEPING, "filters": "-V table -V entry -V accessed"}
# The programs that take longest: each in another part of the stage debug, in an order in which all parts take about as long.
LONGEST = ["rehome", "count", "scopes", "bystanders", "filters", "oracle", "forget", "auto"]
# The files with tests that boot machines, of which a short run has every second.
MACHINE_TESTS = ["tests/lab/test_machine.py", "tests/hydractl/test_hydractl_machine.py", "tests/lab/test_nested_machine.py", "tests/lab/test_here_machine.py"]
MARK = re.compile(r"^### (begin|end) (\S+)(?: (\d+))?(?: (\d+))?$", re.M)
SEED = re.compile(r"^# repeat with .*?--seed (\d+)", re.M)
STEP = re.compile(MARK.pattern + r"|^# ((\d+) of (\d+) operations)|^1\.\.(\d+)|^#  RUN +(\S+)", re.M)
MACHINE = vm.Machine(nodes=4, cpus_per_node=2, memory="2G")


def pytest(which, title, only="", files=("tests",)):
    """The tests in files and directories, chosen by a marker expression and by a word in the name."""
    results = paths.cache_dir("logs") / f"pytest-{title.split()[0]}.xml"
    results.unlink(missing_ok=True)
    progress.say(f"{title} (pytest)")
    # Machines take turns; other tests need one CPU each, but those of one file may share something.
    workers = ["-n", str(os.cpu_count()), "--dist", "loadfile"] if which == "not machine" else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}", *workers, "-m", which,
               *(["-k", only] if only else []), *(str(paths.REPO / name) for name in files)]
    environment = dict(os.environ, PYTHONPATH=str(paths.REPO))
    with children.leashed(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment) as child:
        status = child.wait()
    outcomes = junit(results.read_text(encoding="utf-8"), title) if results.exists() else []
    if status == NO_TEST_COLLECTED and only:
        files = ", ".join(path.stem for path in sorted((paths.REPO / "tests").rglob("test_*.py")))
        outcomes.append(Outcome(f"{title}: pytest", "failed", f"no test has '{only}' in its name, its file's or its directory's: {files}"))
    elif status and not any(outcome.failed for outcome in outcomes):
        outcomes.append(Outcome(f"{title}: pytest", "failed", f"it ended with status {status}"))
    return outcomes


def junit(text, suite):
    """Outcomes from pytest's XML. A report that breaks off is a failure: pytest itself failed."""
    outcomes = []
    try:
        cases = list(xml.etree.ElementTree.fromstring(text).iter("testcase"))
    except xml.etree.ElementTree.ParseError as error:
        return [Outcome(f"{suite}: pytest", "failed", f"its report is not whole ({error}); its output above says why")]
    for case in cases:
        name = f"{suite}: {case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        skipped = [child for child in case if child.tag == "skipped"]
        if bad:
            outcomes.append(Outcome(name, "failed", bad[0].get("message", "")))
        else:
            outcomes.append(Outcome(name, "skipped", skipped[0].get("message", "")) if skipped else Outcome(name, "passed"))
    return outcomes


def split_programs(output, names, seconds=SELFTEST_LIMIT):
    """Outcomes of self test programs from the marked output of guest_selftests.sh."""
    outcomes, marks = [], list(MARK.finditer(output.replace("\r", "")))
    text = output.replace("\r", "")
    ended = {}
    for begin, end in zip(marks, marks[1:]):
        if begin[1] == "begin" and end[1] == "end" and begin[2] == end[2]:
            ended[begin[2]] = (text[begin.end():end.start()], int(end[3]))
    begun = {mark[2] for mark in marks if mark[1] == "begin"}
    for name in names:
        if name not in ended:
            outcomes.append(Outcome(name, "failed", "it did not end" if name in begun else "it did not run"))
        else:
            outcomes += program(name, *ended[name], seconds)
    return outcomes


def times(output):
    """How long each program took, the longest first."""
    took = {mark[2]: int(mark[4]) for mark in MARK.finditer(output.replace("\r", "")) if mark[4]}
    return ", ".join(f"{name} {took[name]}" for name in sorted(took, key=took.get, reverse=True))


def program(name, output, status, seconds=SELFTEST_LIMIT):
    """Outcomes of one self test program: the results, and the exit status if no result explains the status."""
    outcomes = ktap.parse(output, name)
    words = "\n".join(output.strip().splitlines()[-6:])
    if status == 4:                       # kselftest: the whole program was skipped
        return outcomes or [Outcome(name, "skipped", words)]
    if status == 124:
        outcomes.append(Outcome(name, "failed", f"it did not end within {seconds} s; its last words:\n{words}"))
    elif status and not any(outcome.failed for outcome in outcomes):
        outcomes.append(Outcome(name, "failed", f"exit status {status}; its last words:\n{words}"))
    elif not status and not outcomes:
        outcomes.append(Outcome(name, "failed", "it reported no result"))
    if outcomes and (seeds := dict.fromkeys(SEED.findall(output))):
        outcomes[0].seeds = f"{name} {', '.join(seeds)}"
    return outcomes


def machine_tests(only="", long=False, seed=0):
    """The tests that boot machines: in a short run those in the files that the number seed draws."""
    return pytest("machine", "machine tests", only, MACHINE_TESTS if long or only else share("machine", MACHINE_TESTS, seed))


def drawn_for_debug(names, seed):
    """The programs among names that a short run has on the debug kernel, of those without virtual machines."""
    slow = [name for name in LONGEST if name in names]
    return share("debug", slow + [name for name in names if name not in slow and not name.startswith(VM)], seed)


def left_to_debug(seed):
    """The programs that the debug kernel runs in a short run, with all variants: the lab's kernel need not run them."""
    return [name for name in drawn_for_debug(programs.selftest_names(everything=True), seed) if name not in ONE_FILTER]


def in_machine(config, only="", arguments="", words=None, vms=False, chosen=lambda name: True):
    """KUnit and the self tests in one boot; or only the self tests with a word (only) in the name, with arguments.

    Words: the arguments of single programs, by name, if all programs run. Vms: the self tests with virtual machines, without KUnit.
    Chosen: whether to run a program, by its name.
    """
    tests = [test for test in programs.selftests(build.tree(), everything=config == "debug")
             if only in test.name and (test.name.startswith(VM) == vms or (only and not vms)) and chosen(test.name)]
    if not tests:
        return []
    want_kunit = not (only or vms)
    machine = dataclasses.replace(MACHINE, config=config, append=["kunit.enable=1"] if want_kunit else [])
    label, seconds = ("", SELFTEST_LIMIT) if config == "lab" else (config, DEBUG_LIMIT)
    return selftests(tests, machine, label, want_kunit=want_kunit, seconds=seconds, arguments=arguments,
                     words={} if only else words)


def lab(only="", arguments="", long=False, without=()):
    """KUnit and the self tests on the lab's kernel. A short run leaves out some variants, and the programs named in without."""
    if long or only:
        return in_machine("lab", only, arguments)
    return in_machine("lab", arguments=arguments, words=SHORT, chosen=lambda name: name not in without)


def debug(only="", arguments="", long=False, seed=0):
    """KUnit and the self tests on the debug kernel. A short run has the programs that the number seed draws, and of the slowest a part."""
    if long or only:
        return in_machine("debug", only, arguments)
    drawn = drawn_for_debug(programs.selftest_names(everything=True), seed)
    return in_machine("debug", arguments=arguments, words=ONE_FILTER, chosen=lambda name: name in drawn)


def oracle_runs():
    """(policy, machine, operations, name) of each part of the long oracle."""
    return [*(("hydra", *run) for run in LONG_ORACLE), *((policy, MACHINE, OTHER_OPERATIONS, policy) for policy in OTHER_POLICIES),
            ("hydra,filter=auto --wander", MACHINE, OTHER_OPERATIONS, "round the nodes")]


def long_oracle(only=""):
    """A million operations, for rare interleavings; takes hours. Only the parts with a word in their name."""
    tests = [test for test in programs.selftests(build.tree()) if test.name == "oracle"]
    outcomes = []
    for policy, machine, operations, name in oracle_runs():
        if only in name:
            outcomes += selftests(tests, machine, f"{name}, {operations} operations", seconds=operations // SLOWEST[machine.config],
                                  arguments=f"--policy {policy} --operations {operations}")
    return outcomes


def selftests(tests, machine, label, want_kunit=False, seconds=SELFTEST_LIMIT, arguments="", words=None,
              broken="none", judge_log=lambda log: []):
    """Self tests in one boot of a machine, each with a limit in seconds and the words of arguments.

    Words: further words for single programs, by name, each beginning with a dash. Broken: the rule that the kernel breaks
    meanwhile. Judge_log: a function that makes more outcomes from the kernel's log.
    """
    image = build.kernel(machine.config)
    # NUMA balancing is off from boot: to switch it, Linux patches code with breakpoints, and QEMU sometimes executes one
    # that Linux has already removed. nopku: Linux writes PKRU when it delivers a signal, and QEMU then empties the TLB,
    # which would hide stale entries from a test that catches SIGSEGV.
    machine = dataclasses.replace(machine, append=[*machine.append, "numa_balancing=disable", "nopku"])
    held = vm.HELD_VMS if any(test.name.startswith(VM) for test in tests) else ""
    command = ["env", f"ARGUMENTS={arguments}", f"BROKEN={broken}", f"HELD={held}", "sh", str(paths.REPO / "lab/guest/guest_selftests.sh"), str(seconds)]

    def run(left, watch):
        programs_run = [f"{test} {words[test.name]}" if words and test.name in words else str(test) for test in left]
        return vm.collect_once([*command, *programs_run], machine, vm.BOOT_LIMIT + (seconds + 10) * len(left), watch, image)
    with progress.counting(f"self tests ({label or machine.config})", len(tests) + 1) as bar:
        result, text, log = all_to_their_end(run, tests, Watcher(bar))
    if took := times(text):
        progress.say(f"seconds ({label or machine.config}): {took}")
    outcomes = []
    if want_kunit:
        outcomes = ktap.kunit(result.console) or [Outcome("KUnit", "failed", "no unit test ran in the kernel")]
    outcomes += split_programs(text, [test.name for test in tests], seconds)
    for name, lines in console.trouble(log):
        outcomes.append(Outcome(f"kernel log: {name}", "failed", "\n".join(lines)))
    if result.trouble and not console.trouble(log):
        outcomes.append(Outcome("the machine", "failed", result.trouble))
    outcomes += judge_log(log)
    return [outcome.on(label) for outcome in outcomes] if label else outcomes


def all_to_their_end(run, tests, watch):
    """Run programs in a machine, and in further ones those which an error of the emulator kept from their end.

    Run: a function of the programs to run and of a function that takes the output. Returns the last result, the output of
    all programs, and what the kernels said before the emulator's error.
    """
    text = log = ""
    for more in reversed(range(MACHINES)):
        result, said = run(tests, watch)
        why = console.spoilt(result.console)
        if not (more and why):
            return result, text + said, log + result.console
        progress.say(f"another machine: {why}")
        if console.stale_breakpoint(result.console):      # what came before it stands
            text, log = text + said, log + console.before_breakpoint(result.console)
            ended = {mark[2] for mark in MARK.finditer(said.replace("\r", "")) if mark[1] == "end"}
            tests = [test for test in tests if test.name not in ended]


class Watcher:
    """Moves a bar with each program, and inside a program with each test or with the printed number of operations."""

    def __init__(self, bar):
        self.bar, self.part, self.tests, self.begun = bar, 0, 0, 0

    def __call__(self, text):
        for step in STEP.finditer(text):
            if step[1] == "begin":
                self.advance(1, step[2])
                self.part = self.tests = self.begun = 0
            elif step[5]:
                self.advance(int(step[6]) / int(step[7]), step[5])
            elif step[8]:
                self.tests = int(step[8])
            elif step[9]:
                self.advance(max(self.part, self.begun / max(self.tests, self.begun + 1)), step[9])
                self.begun += 1

    def advance(self, part, note):
        self.bar.advance(part - self.part, note)
        self.part = part
