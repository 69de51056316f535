# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests, with Hydra off and with Hydra on for every process from PID 1: what passes on stock has to pass.

The tests are the kernel tree's (tools/testing/selftests) and Debian's stress-ng. The same image is booted with the boot
parameter hydra=linux and with another policy. A short run has one policy, and one of PARTS, as a number draws (see --seed);
stock runs only the programs of which something does not pass with that policy. Programs with different results are run once
more on both. With --long, stock runs all programs, and each policy is compared with it.
"""
import dataclasses
import fnmatch
import os
import re
import shlex

from rich.console import Console

from lab import children, paths, policies, progress
from lab.kernel import build
from lab.machine import console, vm
from lab.machine.ktap import Outcome
from lab.test import differences, stages, suites

SELFTESTS = ["x86", "futex", "memfd", "proc", "exec", "clone3", "pidfd", "timers", "membarrier", "mincore", "vDSO", "mm"]
MACHINE = vm.Machine(nodes=4, cpus_per_node=2, memory="2G")
SECONDS = {"short": 150, "long": 600}     # for one program; on a quiet machine, a tenth is a long time
SLOWER = {"lab": 1, "debug": 4}           # times as long, on a kernel with checkers
BOOTS = 4                                 # at most, for one list of programs, if the machine crashes in some programs

# Programs of the mm suite that run_vmtests.sh does not run. The lab runs programs of the futex suite one by one, without the
# variations of arguments in run.sh.
MORE_OF_MM = ["hmm-tests", "droppable", "mseal_test", "seal_elf", "pkey_sighandler_tests_64", "pkey_sighandler_tests_32"]

# Not run in any selection, and why.
NEVER = {
    "x86:sysret_ss_attrs_*": "QEMU 7.2 takes a far return's access to the stack for the kernel's: stock Linux panics too",
    "x86:test_syscall_vdso_32": "far returns too",
    "x86:syscall_numbering_*": "millions of system calls that do not exist; no memory",
    "memfd:run_fuse_test.sh": "needs FUSE",
    "vDSO:vdso_test_chacha": "arithmetic without end under the emulator",
    "timers:nanosleep": "clocks, no memory",
    "timers:nsleep-lat": "clocks, no memory",
    "timers:raw_skew": "clocks, no memory",
    "timers:set-timer-lat": "clocks, no memory",
    "timers:rtcpie": "clocks, no memory",
    "mm:test_hmm.sh_*": "wants its driver as a module; hmm-tests is run without it",
    "futex:functional/futex_requeue": "waits that end after 30 ms: fails one time in four on stock, on a busy emulator",
    "mm:ksm_tests_-N_-m_1": "fails one time in three on stock: two scans are not always enough",
    "mm:test_vmalloc.sh_*": "the kernel's own memory, by a module",
    "mm:va_high_addr_switch.sh": "run_vmtests.sh gives it the huge pages it wants on arm64 only",
}

# Not run on one of the kernels, and why. Lockdep stops after its first report.
NEVER_ON = {"debug": {
    "mm:hmm-tests": "hmm_vma_walk_hole() faults under hugetlb's VMA lock: lockdep says so on stock Linux too, if the huge page is "
                    "the first mapping of its gigabyte, which under Hydra it is",
}}

# Run in the long selection only, and why.
LONG_ONLY = {
    "exec:binfmt_script.py": "12 s of Python",
    "pidfd:pidfd_test": "more than 40 s",
    "pidfd:pidfd_poll_test": "more than 40 s",
    "timers:*": "clocks, half a minute each",
    "mm:pkey_sighandler_tests_*": "smashes its own stack once in 50 runs: an ending thread writes to a frame that is gone",
    "mm:hugetlb_fault_after_madv": "more than 30 s: a race tried again and again",
    "mm:uffd-unit-tests": "more than 30 s",
    "mm:uffd-stress_*": "20 s to more than 30 s each; the stressor userfaultfd is there",
    "mm:compaction_test": "takes most of the machine's memory",
    "mm:charge_reserved_hugetlb.sh*": "some minutes: it sleeps between its many steps",
    "mm:virtual_address_range": "fails on stock",
    "mm:ksm_tests_-[HP]*": "several seconds each; the others are there",
    "mm:khugepaged*": "a thousand lines of waiting for khugepaged",
    "mm:transhuge-stress*": "20 s by the clock",
    "mm:split_huge_page_test": "more than 30 s",
    "mm:migration": "more than 30 s",
}

# stress-ng: operations of each worker (about a second or two), and whether the stressor is in the short selection. Other
# stressors are variations, or seldom touch page tables.
WORKERS = 4
STRESSORS = {
    "stress-vm": {
        "bad-altstack": (60, False), "bigheap": (1000, False), "brk": (20000, True), "dev-shm": (3, False), "env": (30, False),
        "madvise": (1, True), "malloc": (3000, False), "mlock": (1, False), "mmap": (1, False), "mmapaddr": (1000, False),
        "mmapfixed": (8, False), "mmapfork": (1, False), "mmaphuge": (10, False), "mmapmany": (4000, False),
        "mprotect": (3000, True), "mremap": (2, True), "msync": (2000, False), "msyncmany": (8, False), "munmap": (5000, True),
        "pagemove": (8, False), "pageswap": (2000, True), "physpage": (600, False), "shm": (6, False), "shm-sysv": (16, True),
        "stack": (2, False), "stackmmap": (40, False), "tmpfs": (1, False), "userfaultfd": (500, True), "vm": (1, False),
        "vm-addr": (4, False), "vm-rw": (8, True), "vm-segv": (10, False), "vm-splice": (3000, False),
    },
    "stress-memory": {
        "context": (30, False), "full": (500, False), "mcontend": (8, False), "membarrier": (10, False), "memfd": (1, False),
        "mincore": (50, False), "numa": (1, False), "remap": (2, False), "resources": (4, False), "rmap": (60, False),
        "tlb-shootdown": (20, True), "zero": (300, False),
    },
    "stress-scheduler": {
        "affinity": (400, False), "clone": (1, True), "close": (800, False), "cyclic": (500, False), "daemon": (20, False),
        "dnotify": (100, False), "eventfd": (800, False), "exec": (16, True), "exit-group": (3, False), "fault": (400, False),
        "fifo": (8000, False), "fork": (30, True), "forkheavy": (100, False), "futex": (3000, False), "hrtimers": (100, False),
        "inotify": (2, False), "kill": (2000, False), "mq": (10000, False), "msg": (50000, False), "mutex": (8000, False),
        "nanosleep": (100, False), "netlink-task": (10000, False), "nice": (30, False),
        "poll": (500, False), "pthread": (100, True), "race-sched": (20, False), "resched": (5000, False),
        "schedpolicy": (4000, False), "sem": (4000, False), "sem-sysv": (4000, False), "session": (30, False),
        "sleep": (1000, False), "softlockup": (1000, False), "spawn": (20, False), "switch": (1500, True), "tee": (100, False),
        "vfork": (150, False), "vforkmany": (300, False), "wait": (1, False), "yield": (10000, False), "zombie": (20, False),
    },
}
# Stressors of the same classes in no selection: mlockmany, oom-pipe, watchdog (run the machine out of memory), swap (wants a
# swap file, which an overlay cannot have), fanotify, netlink-proc (not in the lab's kernel), loadavg (threads count without
# a lock, and now and then fail for that reason).

# A short run has one of these lists of patterns of names.
PARTS = [["mm:[a-l]*"], ["mm:[!a-l]*"], [f"{suite}:*" for suite in SELFTESTS if suite != "mm"], [f"{suite}:*" for suite in STRESSORS]]

# Under policy auto: looks so often and such prices that the kernel splits programs which run for a second.
SOON = "(cd /sys/kernel/mm/hydra/auto && echo 10 >look_ms && for price in fill root change more look flush; do echo 1 >price_$price; done)\n"
DECISIONS = "one machine:decisions 30 cat /sys/kernel/mm/hydra/auto/stats\n"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
AS_NOBODY = ["exec", "spawn", "madvise"]  # not for root, or destroys memory as root
EXTRA = {"vm": ["--vm-bytes", "16m"], "exec": ["--exec-max", "4"]}


def install(targets, label):
    """Build tests of the kernel's in directories of tools/testing/selftests, outside of the tree; returns (the directory, the
    names, each with its target before it)."""
    tree = build.tree()
    objects = paths.cache_dir("programs", f"{label}-{tree.name}")
    installed = objects / "install"
    log = paths.cache_dir("logs") / f"{label}.log"
    # Some 6.12.y use KSFT_SKIP in a program without including the definition; the value is kselftest's.
    steps = [["make", "-C", tree, f"O={objects}", f"-j{build.cpus()}", "headers"],
             ["make", "-C", tree / "tools/testing/selftests", f"O={objects}", f"-j{build.cpus()}", "install",
              f"TARGETS={' '.join(targets)}", "FORCE_TARGETS=1", "USERCFLAGS=-DKSFT_SKIP=4", f"KSFT_INSTALL_PATH={installed}"]]
    with paths.locked(f"programs-{label}"), progress.counting("building Linux's own tests") as bar:
        for number, step in enumerate(steps):
            children.logged("building Linux's own tests", ["nice", "-n", "5", *step], log,
                            lambda line: bar.advance(1, line.split(":")[0].strip()), append=number > 0)
    return installed, (installed / "kselftest-list.txt").read_text(encoding="utf-8").split()


def build_selftests():
    """Build the tests of SELFTESTS; returns (the directory, the names)."""
    installed, names = install(SELFTESTS, "linux-selftests")
    more = [f"mm:{name}" for name in MORE_OF_MM if (installed / "mm" / name).exists()]
    more += [f"futex:functional/{name}" for name in sorted(os.listdir(installed / "futex/functional")) if name != "run.sh"]
    return installed, [name for name in names if not name.startswith(("mm:", "futex:"))] + more


def sources(targets):
    """The kernel's tests by the files in directories of the kernel tree. Empty if the cache holds no kernel tree yet."""
    trees = [path / "tools/testing/selftests" for path in (paths.cache() / "trees").glob("*")]
    tree = max((path for path in trees if path.exists()), key=lambda path: path.stat().st_mtime, default=None)
    if tree is None:
        return []
    return [f"{suite}:{path.stem if path.suffix == '.c' else path.name}" for suite in targets for path in sorted((tree / suite).rglob("*"))
            if path.suffix in (".c", ".sh", ".py")]


def names():
    """The programs that are known before a build, with the stressors; empty if the cache holds no kernel tree yet."""
    files = sources(SELFTESTS)
    return files and files + [f"{suite}:{stressor}" for suite, stressors in STRESSORS.items() for stressor in stressors]


def is_variant(word, name):
    """Whether a word names one way to run or to compile a program: ldt_gdt_64 of x86:ldt_gdt, mm:ksm_tests_-N of mm:ksm_tests."""
    program = name.rpartition(":")[2]
    return word.startswith((f"{name}_", f"{program}_"))


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def stress_command(stressor, operations, seconds):
    """A stress-ng that ends after a number of operations, or after a fifth of the program's limit: in some stressors (sem),
    workers wait for workers that have ended, until stress-ng's alarm."""
    nobody = NOBODY if stressor in AS_NOBODY else []
    return [*nobody, "stress-ng", f"--{stressor}", str(WORKERS), f"--{stressor}-ops", str(operations), "--verify", "--oomable",
            "--no-rand-seed", "--timeout", str(seconds // 5), "--temp-path", ".", *EXTRA.get(stressor, [])]


def script(installed, selftests, selection, seconds, only, skip):
    """The script for the machine: programs that match a pattern of only and none of skip, each with a limit in seconds."""
    def wanted(name):
        return matches(name, only) and not matches(name, skip)
    lines = [f". {shlex.quote(str(paths.REPO / 'lab/guest/guest_linux_suites.sh'))}", f"prepare {shlex.quote(str(installed))}",
             "one machine:policy 30 cat /proc/1/hydra /proc/self/hydra"]
    lines += [f"selftest {name} {seconds} ./{name.partition(':')[2]}" for name in selftests if wanted(name)]
    lines.append(f"VMTESTS_ONLY={shlex.quote(' '.join(only))} VMTESTS_SKIP={shlex.quote(' '.join(skip))} VMTESTS_LIMIT={seconds} "
                 f"vmtests {'-a -d' if selection == 'long' else ''}".rstrip())
    lines.append("cd $HERE/disk/tmp")
    for suite, stressors in STRESSORS.items():
        for stressor, (operations, short) in stressors.items():
            name = f"{suite}:{stressor}"
            if wanted(name) and (short or selection == "long"):
                lines.append(f"one {name} {seconds} {shlex.join(stress_command(stressor, operations, seconds))}")
    lines.append("one machine:invariants 30 cat /sys/kernel/mm/hydra/violations")
    return "\n".join(lines)


def said(output, program):
    """The output of a program that ended."""
    found = re.search(rf"^### begin {program}\n(.*?)^### end {program} ", output, re.M | re.S)
    return found[1] if found else ""


def machine_cases(policy, output, log):
    """The checks of every boot: all processes have the policy, no invariant is violated, the kernel does not complain.

    Policy: a name, or a name and settings other than the policy's, as in the boot parameter.
    """
    def case(name, right, why):
        return {name: {name: Outcome(name, "passed") if right else Outcome(name, "failed", why)}}
    policies = said(output, "machine:policy")
    words = policy.split(",")
    active = [*(word.replace("=", " ") for word in words[1:] or [f"policy={policy}"]), f"active {int(policy != 'linux')}"]
    lines = policies.splitlines()
    trouble = console.report(log)
    violations = said(output, "machine:invariants").split("#")[0].strip()
    return {**case("machine:policy", all(lines.count(line) == 2 for line in active), f"not both of {active} for PID 1: {policies}"),
            **case("machine:invariants", violations == "0", f"violations: {violations or 'not told'}"),
            **case("machine:kernel log", not trouble, trouble)}


def boot(image, machine, policy, text, seconds, bar):
    """One boot; returns (the run, whether the boot came to the end)."""
    machine = dataclasses.replace(machine, append=[*machine.append, f"hydra={policy}"])
    text = f"{SOON}{text}\n{DECISIONS}" if policy == "auto" else text
    result, shown = vm.collect(["bash", "-c", text], machine, vm.BOOT_LIMIT + 60 * seconds, suites.Watcher(bar), image)
    run = differences.read(shown, seconds)
    ended = "### end machine:invariants " in shown
    if decisions := said(shown, "machine:decisions"):
        progress.say(f"policy auto decided: {', '.join(decisions.split('#')[0].splitlines())}")
    run.update(machine_cases(policy, shown, result.console) if ended else
               {"machine:kernel log": {"machine:kernel log": Outcome("machine:kernel log", "failed", result.trouble)}})
    return run, ended


def run_all(image, machine, policy, write, seconds, skip):
    """One run of programs, each with a limit in seconds: after a crash, another boot continues behind the program that crashed
    the machine. Write: makes the script, without the programs that match a pattern."""
    run, skip = {}, list(skip)
    with progress.counting(f"Linux's own tests, hydra={policy}") as bar:
        for _ in range(BOOTS):
            found, ended = boot(image, machine, policy, write(skip), seconds, bar)
            run = merged(run, found)
            skip += [name for name in found if not name.startswith(differences.STRICT)]
            if ended:
                break
    return run


def merged(run, found):
    """Two boots' results; a failed check of one boot stays failed."""
    bad = {name: cases for name, cases in run.items()
           if name.startswith(differences.STRICT) and any(case.failed for case in cases.values())}
    return {**run, **found, **bad}


def verdicts(image=None, config="lab", long=False, only=("*",), policy="hydra", stock=None):
    """The verdicts on a policy and the run on stock. Stock: see compared()."""
    image = image or build.kernel(config)
    machine = dataclasses.replace(MACHINE, config=config)
    selection = "long" if long else "short"
    built = build_selftests()
    seconds = SECONDS[selection] * SLOWER[config]

    def run(name, again=()):
        left_out = [] if again else [*NEVER, *NEVER_ON.get(config, ()), *(() if long else LONG_ONLY)]
        return run_all(image, machine, name, lambda skip: script(*built, selection, seconds, list(again or only), skip), seconds, left_out)
    return compared(run, policy, stock, short=not long)


def compared(run, policy, stock=None, short=False):
    """Run everything twice, what differs twice more; returns the verdicts and the run on stock.

    Run: a function of the policy, and of the programs to run once more. Stock: an earlier run with hydra=linux, to be compared with.
    Short: stock runs only the programs of which something does not pass with the policy.
    """
    if short:
        ours = run(policy)
        unclear = differences.unclear(ours)
        stock = run("linux", unclear) if unclear else {}
    else:
        stock = stock or run("linux")
        ours = run(policy)
    found = differences.compare(stock, ours)
    if suspects := differences.suspects(found):
        progress.say(f"run once more on both, because of differences: {' '.join(suspects)}")
        found = differences.compare(stock, ours, [run(name, suspects) for name in ("linux", policy)])
    return found, stock


def drawn(seed):
    """(the policy, the patterns of names) of a short run."""
    return policies.OF_HYDRA[seed // len(PARTS) % len(policies.OF_HYDRA)], *stages.share("suites", PARTS, seed)


def outcomes(config="lab", long=False, only="", seed=0):
    """The comparisons as outcomes for the test summary, of the programs with a word in the name; prints the tables.

    Seed: draws the policy of a short run and, without a word, the part.
    """
    made, stock = [], None
    policy, patterns = drawn(seed)
    if long or only:
        patterns = [f"*{only}*"]
    part = [suite for suite in (*SELFTESTS, *STRESSORS) if long or only or any(pattern.startswith(f"{suite}:") for pattern in patterns)]
    selection = "all" if long else "short selection, on stock only what does not pass"
    for policy in policies.OF_HYDRA if long else [policy]:
        found, stock = verdicts(config=config, long=long, only=patterns, policy=policy, stock=stock)
        title = f"Linux's own tests on stock and with policy {policy} for every process ({selection}, {config})"
        left_out = {} if long else LONG_ONLY
        chosen = [suite for suite in part if f"{suite}:*" not in left_out]
        made += [outcome.on(policy) for outcome in judged(found, title, chosen, only)]
    return made


def judged(found, title, chosen, only):
    """The comparison of one policy with stock, in the chosen suites, as outcomes; prints the table."""
    Console(highlight=False, soft_wrap=True, emoji=False).print(differences.table(found, title))
    if all(entry.suite == differences.STRICT for entry in found):
        return [*differences.outcomes(found), Outcome("Linux's tests", "failed", f"no program ran: no name contains '{only}'")]
    ran = {entry.suite for entry in found if entry.stock == "passed" or (entry.stock, entry.hydra) == ("absent", "passed")}
    idle = [suite for suite in chosen if suite not in ran and not only]
    return [*differences.outcomes(found),
            *(Outcome(f"Linux's {suite}", "failed", "nothing of it passed: it was not tested") for suite in idle)]
