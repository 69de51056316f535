# SPDX-License-Identifier: GPL-2.0-only
"""Injected faults: for each rule that the kernel of the configuration 'debug' can break, does a test notice?"""
import json

from rich.console import Console
from rich.table import Table

from lab import build, console, paths, programs, progress, vm
from lab.ktap import Outcome

LIMIT = 240                  # seconds for one program
MACHINE = vm.Machine(nodes=4, cpus_per_node=2, memory="2G", config="debug", append=["numa_balancing=disable"])

# By rule of mm/hydra/inject.h, the self tests that may notice (programs, or one test of a program).
CATCHERS = {
    "skip-set": ["coherence -t fork_and_copy_on_write"],
    "skip-clear": ["coherence"],
    "forget-sharer": ["coherence"],
    "forget-huge-sharer": ["huge"],
    "spare-domain": ["coherence"],
    "skip-note": ["coherence"],
    "drop-notes": ["shootdown -t readers_of_gathers_that_overlap"],
    "filter-always": ["shootdown -t readers_of_collapsed_pages"],
    "skip-generation": ["coherence"],
    "charge-spared": ["shootdown -t spared_cpu_has_nothing_to_catch_up_with"],
    "write-clean": ["coherence"],
    "ignore-accessed": ["pages -t referenced"],
    "drop-accessed": ["reclaim"],
    "keep-link": ["coherence"],
    "keep-charge": ["events"],
    "skip-atomic-fill": ["fill"],
    "skip-switch": ["shootdown -t readers_while_switched"],
    "degrade-quietly": ["degrade"],
    "reclaim-quietly": ["reclaim"],
}
# It shows only where translations outlive a switch of the address space: on processors with PCID.
ELSEWHERE = {"skip-idle-generation": "needs PCID: ./hydra test --long runs it on an emulator that has it"}


def command(test, where):
    """The command that runs a test named in CATCHERS."""
    program, *arguments = test.split()
    return [where[program], *arguments]


def objects(text):
    """The JSON objects among the lines of a guest's output."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found


def judge(seen, crash):
    """What came of one boot: results by rule. The rule at which the machine ended was noticed by the kernel itself."""
    results = {entry["rule"]: entry for entry in seen if "rule" in entry}
    begun = [entry["begin"] for entry in seen if "begin" in entry]
    if begun and begun[-1] not in results:
        results[begun[-1]] = {"rule": begun[-1], "by": f"the kernel: {crash}" if crash else None, "seconds": None,
                              "words": []}
    return results


def outcomes(results, known):
    """One outcome for each rule that the kernel knows."""
    made = []
    for rule in known:
        name = f"injected fault {rule}"
        if rule in ELSEWHERE:
            made.append(Outcome(name, "skipped", ELSEWHERE[rule]))
        elif rule not in CATCHERS:
            made.append(Outcome(name, "failed", "no test is named for it: add it to CATCHERS in lab/faults.py"))
        elif rule not in results:
            made.append(Outcome(name, "failed", "it was not tried: the machine ended before"))
        elif results[rule]["by"]:
            made.append(Outcome(name, "passed", results[rule]["by"]))
        else:
            made.append(Outcome(name, "failed", f"nothing noticed it; tried: {', '.join(CATCHERS[rule])}"))
    return made


def show(results, known):
    grid = Table(title="Injected faults", title_justify="left", title_style="bold")
    for heading in ("rule broken", "noticed by", "after"):
        grid.add_column(heading)
    for rule in known:
        if rule in results:
            seconds = results[rule]["seconds"]
            grid.add_row(rule, results[rule]["by"] or "[bold red]nothing[/]", "" if seconds is None else f"{seconds:.1f} s")
    Console(highlight=False).print(grid)


def run(only=""):
    """Break every rule in turn (or those whose name contains a word); a list of outcomes."""
    image = build.kernel("debug")
    where = {path.name: str(path) for path in programs.selftests(build.tree(), everything=True)}
    left = [rule for rule in CATCHERS if only in rule]
    results, known = {}, []
    with progress.counting("injected faults", len(left)) as bar:
        while left:
            plan = [[rule, [command(test, where) for test in CATCHERS[rule]]] for rule in left]

            def watch(text):
                for entry in objects(text):
                    if "begin" in entry:
                        bar.advance(1, entry["begin"])
            result, output = vm.collect(["python3", str(paths.REPO / "lab/guest_faults.py"), str(LIMIT), json.dumps(plan)],
                                        MACHINE, vm.BOOT_LIMIT + LIMIT * 2 * len(left), watch, image)
            seen = objects(output)
            known = next((entry["rules"] for entry in seen if "rules" in entry), known)
            log = console.trouble(result.console)
            results.update(judge(seen, log[0][0] if log else result.trouble.partition("\n")[0]))
            if not any("begin" in entry for entry in seen):
                return [Outcome("injected faults", "failed", result.trouble or "the machine tried none")]
            left = [rule for rule in left if rule not in results]
    show(results, known)
    return outcomes(results, [rule for rule in [*known, *(set(CATCHERS) - set(known))] if only in rule])
