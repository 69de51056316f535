# SPDX-License-Identifier: GPL-2.0-only
"""Injected faults: for each rule that the kernel of the configuration 'debug' can break, does a test notice?"""
import json

from rich.console import Console
from rich.table import Table

from lab import build, console, paths, programs, progress, vm
from lab.ktap import Outcome

LIMIT = 240                  # seconds for one program
# The parameters: see suites.selftests().
MACHINE = vm.Machine(nodes=4, cpus_per_node=2, memory="2G", config="debug", append=["numa_balancing=disable", "nopku"])

# By rule of mm/hydra/inject.h, the self tests that have to notice (programs, or one test of a program). Every program
# notices something: a test that cannot fail shows nothing.
CATCHERS = {
    "skip-set": ["coherence -t fork_and_copy_on_write"],
    "skip-clear": ["coherence", "oracle --policy hydra"],
    "copy-own": ["fill"],
    "forget-sharer": ["coherence"],
    "forget-huge-sharer": ["huge"],
    "spare-domain": ["coherence"],
    "take-quietly": ["huge -t hugetlb_changes"],
    "forget-visits": ["bystanders -t readers_of_gathers_that_overlap", "bystanders -t readers_of_pages_that_another_drops"],
    "forget-taken": ["bystanders -t readers_of_a_huge_page_that_another_drops", "bystanders -t writer_of_a_huge_page_that_another_drops"],
    "distrust-gathers": ["shootdown -t gathers_that_overlap_spare_other_nodes", "shootdown -t gathers_on_all_nodes_spare_each_other"],
    "skip-wait": ["bystanders -t readers_of_a_huge_page_that_moves"],
    "filter-always": ["bystanders -t readers_of_collapsed_pages"],
    "skip-generation": ["coherence"],
    "charge-spared": ["shootdown -t spared_cpu_has_nothing_to_catch_up_with"],
    "write-clean": ["coherence", "pressure -t swap --policy hydra"],
    "ignore-accessed": ["pages -t referenced"],
    "drop-accessed": ["reclaim"],
    "keep-link": ["coherence"],
    "keep-charge": ["events"],
    "skip-atomic-fill": ["fill"],
    "skip-switch": ["bystanders -t readers_while_switched"],
    "degrade-quietly": ["degrade -t every_flush_reaches_it"],
    "reclaim-quietly": ["reclaim"],
    "hoard-replicas": ["memcg -t replicas_make_room"],
    "mix-places": ["place -t nodes_apart"],
    "split-single": ["split -t one_thread_is_plain_linux_wherever_it_goes"],
    "lodge-quietly": ["degrade -t no_root_for_a_domain_that_comes_later"],
    "forget-solo": ["coherence"],
    "move-quietly": ["coherence -t mremap_tables"],
    "free-early": ["bystanders -t walkers_of_tables_that_go"],
    "admit-anyone": ["interface -t unprivileged", "permissions -t of_all_to_all"],
}
# What breaks no rule but makes what is rare frequent: these tests have to pass all the same.
HARMLESS = {"slow-flush": ["bystanders -t readers_of_a_huge_page_that_moves"]}
# Those that do not show on the debug kernel in QEMU, and the stage that tries them.
ELSEWHERE = {"skip-idle-generation": "pcid", "count-plainly": "races"}


def tries(only=""):
    """(name, rule, test) of all that is to be tried, or of what has a word in its name."""
    named = [(f"{rule}: {test}", rule, test) for rule, tests in {**CATCHERS, **HARMLESS}.items() for test in tests]
    return [entry for entry in named if only in entry[0]]


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
    """What came of one boot: results by name. What was being tried when the kernel crashed was noticed by the kernel itself."""
    results = {entry["name"]: entry for entry in seen if "name" in entry}
    begun = [entry["begin"] for entry in seen if "begin" in entry]
    if crash and begun and begun[-1] not in results:
        results[begun[-1]] = {"name": begun[-1], "by": f"the kernel: {crash}", "seconds": None, "words": []}
    return results


def outcomes(results, due, known):
    """One outcome for each try that is due, and for each rule that the kernel knows and nobody tries here."""
    made = []
    for name, rule, test in due:
        if name not in results:
            result, why = "failed", "it was not tried: the machine ended before"
        elif rule in HARMLESS:
            result, why = ("failed", results[name]["by"]) if results[name]["by"] else ("passed", "nothing is wrong")
        elif results[name]["by"]:
            result, why = "passed", results[name]["by"]
        else:
            result, why = "failed", "\n".join([f"{test} did not notice it; its last words:", *results[name]["words"]])
        made.append(Outcome(f"injected fault {name}", result, why))
    for rule in known:
        if rule in ELSEWHERE:
            made.append(Outcome(f"injected fault {rule}", "skipped", f"shows only in the stage {ELSEWHERE[rule]}"))
        elif rule not in CATCHERS and rule not in HARMLESS:
            made.append(Outcome(f"injected fault {rule}", "failed", "no test is named for it: add it to CATCHERS in lab/faults.py"))
    return made


def show(results, due):
    grid = Table(title="Injected faults", title_justify="left", title_style="bold")
    for heading in ("rule broken: test", "noticed by", "after"):
        grid.add_column(heading)
    for name, rule, _ in due:
        if name in results:
            seconds = results[name]["seconds"]
            nothing = "nothing, as it has to be" if rule in HARMLESS else "[bold red]nothing[/]"
            grid.add_row(name, results[name]["by"] or nothing, "" if seconds is None else f"{seconds:.1f} s")
    Console(highlight=False).print(grid)


def run(only=""):
    """Break every rule in turn (or what has a word in its name); a list of outcomes."""
    due = tries(only)
    if not due:
        return [Outcome("injected faults", "failed", f"no rule and no test of one is called like '{only}'")]
    image = build.kernel("debug")
    where = {path.name: str(path) for path in programs.selftests(build.tree(), everything=True)}
    left, results, known = due, {}, []
    with progress.counting("injected faults", len(due)) as bar:
        while left:
            plan = [[name, rule, command(test, where)] for name, rule, test in left]

            def watch(text):
                for entry in objects(text):
                    if "begin" in entry:
                        bar.advance(1, entry["begin"])
            result, output = vm.collect(["python3", str(paths.REPO / "lab/guest_faults.py"), str(LIMIT), json.dumps(plan)],
                                        MACHINE, vm.BOOT_LIMIT + LIMIT * len(left), watch, image)
            seen = objects(output)
            known = next((entry["rules"] for entry in seen if "rules" in entry), known)
            new = judge(seen, "it panicked" if console.PANIC.search(result.console) else "")
            results.update(new)
            left = [entry for entry in left if entry[0] not in results]
            if not new:
                progress.say(f"the machine ended without a result: {result.trouble}")
                break
    show(results, due)
    return outcomes(results, due, [] if only else known)
