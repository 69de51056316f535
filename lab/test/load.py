# SPDX-License-Identifier: GPL-2.0-only
"""An hour under policy auto for every process, which looks every 100 ms: as many looks as in ten hours. The debug kernel looks at
each address space that ends, and a program that lives for the whole hour changes what it does every 20 s."""
import collections
import dataclasses
import re
import shlex

from lab import paths, progress
from lab.kernel import build
from lab.machine import console, programs, vm
from lab.machine.ktap import Outcome
from lab.test import linux_suites, suites

MINUTES = 60
SECONDS = 100                             # of a short program: it is to end after a fifth
LOOK_MS, USUAL_MS = 100, 1000             # spans of time of the policy count looks: an hour of looks takes so much less
DECISIONS_MOST = 18 * MINUTES // 60 * USUAL_MS // LOOK_MS      # of one process: 18 in an hour
GROWTH_KIB = 4096                         # of page tables, from the begin to the end
MARK = re.compile(r"^### (before|after) (.*)$", re.M)
ENDED = re.compile(r"^### ended (\S+) (\d+) after (\d+) s$", re.M)
DECISION = re.compile(r"^hydra_auto: mm=(\d+) from=(\w+) to=(\w+) why=([\w-]+)", re.M)
SPLIT = "split"
TOO_LATE = 3                              # stress-ng: it could not do all in its time


def commands():
    return [f"{name}={shlex.join(linux_suites.stress_command(name, operations, SECONDS))}"
            for each in linux_suites.STRESSORS.values() for name, (operations, short) in each.items() if short]


def counters(text):
    """{"before": {name: number}, "after": …}"""
    return {when: {words[i].rstrip(":"): int(words[i + 1]) for i in range(0, len(words) - 1, 2)} for when, line in MARK.findall(text) for words in [line.split()]}


def judge(text, log):
    """Outcomes of what the machine printed, and of the kernel's log."""
    seen, ended, decisions = counters(text), ENDED.findall(text), DECISION.findall(text)
    phases = re.search(r"^### phases (\d+)$", text, re.M)
    by_process = collections.Counter(mm for mm, before, to, _ in decisions if SPLIT in (before, to))
    last = {mm: to for mm, _, to, _ in decisions}
    failed = sorted({name for name, status, _ in ended if int(status) not in (0, TOO_LATE)})
    before, after = seen.get("before", {}), seen.get("after", {})
    most = max(by_process.values(), default=0)
    trouble = console.report(log)

    def verdict(name, right, why):
        return Outcome(f"load: {name}", "passed" if right else "failed", "" if right else str(why))
    progress.say(f"{len(ended)} programs; {len(decisions)} decisions, the most of one process {most}; before: {before}; after: {after}")
    return [verdict("it came to its end", phases and phases[1] == "0" and after, text[-2000:]),
            verdict("programs work", len(ended) > MINUTES and not failed, failed or f"only {len(ended)} ran"),
            verdict("no rule is broken at an exit", after.get("violations") == 0, after),
            verdict("it splits and returns", sum(to == SPLIT for _, _, to, _ in decisions) > MINUTES and sum(before == SPLIT for _, before, *_ in decisions), len(decisions)),
            verdict(f"at most {DECISIONS_MOST} decisions of a process", most <= DECISIONS_MOST, by_process.most_common(3)),
            verdict("no copy of a table is left", after.get("total_kib") == 0, f"{after}, {len(last)} processes"),
            verdict("page tables are as at the begin", abs(after.get("PageTables", 1 << 30) - before.get("PageTables", 0)) <= GROWTH_KIB, f"{before}, {after}"),
            verdict("kernel log", not trouble, trouble)]


def run():
    image = build.kernel("debug")
    machine = dataclasses.replace(suites.MACHINE, config="debug", append=["hydra=auto"])
    with progress.counting("an hour under auto", MINUTES * 60) as bar:
        gone = 0

        def watch(text):
            nonlocal gone
            for name, _, seconds in ENDED.findall(text):
                bar.advance(int(seconds) - gone, name)
                gone = int(seconds)
        result, text = vm.collect_once(["bash", str(paths.REPO / "lab/guest/guest_load.sh"), str(MINUTES), str(programs.workloads() / "phases"), *commands()],
                                       machine, vm.BOOT_LIMIT + (MINUTES + 20) * 60, watch, image)
    return judge(text, result.console)
