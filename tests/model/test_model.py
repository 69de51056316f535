# SPDX-License-Identifier: GPL-2.0-only
"""The model of the mechanism, searched by Spin: no violation in the model, and a violation in each broken variant.

See README.md. A search of the same text finds the same again: the cache keeps what each search printed.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

from lab import paths, setup

MODEL = paths.REPO / "tests/model"

# By scenario, the least number of states of a complete search.
STATES = {
    "aged_marks_become_void": 3_100_000,
    "change_before_gather_flushes": 1_500,
    "collapse_while_domains_fault": 7_000_000,
    "domain_gets_tree_while_cpus_come": 1_200_000,
    "domains_join_eagerly": 2_300_000,
    "domains_leave_while_table_collapses": 1_800_000,
    "fault_links_new_table": 5_700_000,
    "flushes_take_marks": 6_900_000,
    "flushes_while_cpu_comes_and_goes": 8_000_000,
    "fork_and_mprotect_while_domains_fault": 900_000,
    "gather_finds_entry_cleared": 4_900,
    "gathers_have_places": 14_600_000,
    "gathers_overlap": 4_000_000,
    "scope_changes_while_cpus_come": 7_800_000,
    "mremap_moves_table": 640_000,
    "munmap_frees_without_rcu": 2_100_000,
    "munmap_while_other_node_reads": 5_900_000,
    "nested_flush_spares_vcpus": 3_100_000,
    "nested_tree_goes_while_vcpus_come": 2_500_000,
    "process_splits_while_cpus_come": 15_300_000,
    "reclaim_drops_replica": 2_200_000,
    "refcache": 6_600_000,
    "table_moves": 3_600_000,
    "trees_go_in_parts": 15_100_000,
    "trees_taken_down_while_cpus_run": 15_800_000,
    "two_cpus_change_entry_while_domains_fault": 4_000_000,
}

# Lines that only some scenarios execute, with such a scenario.
NEEDED_ELSEWHERE = {
    # The table was freed during a wait for the lock.
    "locked = false;": "collapse_while_domains_fault",
    "ptl = false": "collapse_while_domains_fault",
    # A flush of an address space before the split.
    ":: !h": "trees_taken_down_while_cpus_run",
    # A table that one domain alone uses is freed.
    ":: ht[0].table[dom] -> hydra_link(dom, 0)": "munmap_while_other_node_reads",
}

# What a search prints that found an error, and one that did not look everywhere
VIOLATED = re.compile(r"assertion violated \((\d+)&&")
INCOMPLETE = re.compile("max search depth too small|out of memory|not completed|truncated")


def source(scenario):
    """A scenario with all included files, in one text: Spin names the wrong file for included lines."""
    text = (MODEL / f"{scenario}.pml").read_text(encoding="utf-8")
    return re.sub(r'^#include "(\w+)\.pml"$', lambda found: source(found[1]), text, flags=re.M)


def variants(scenario):
    """The broken variants in the scenario's first comment, each with the violated invariants."""
    found = re.findall(r"^ \*   (BROKEN_\w+) +(\d+(?: or \d+)*)$", source(scenario), re.M)
    return [(scenario, name, invariants.split(" or ")) for name, invariants in found]


VARIANTS = [variant for scenario in STATES for variant in variants(scenario)]


@functools.cache
def spin():
    """The program and the version."""
    missing = [name for name in ("spin", "gcc") if not shutil.which(name)]
    assert not missing, "not installed: " + " ".join(setup.install_command(missing))
    return subprocess.run(["spin", "-V"], text=True, capture_output=True, check=True).stdout


def search(directory, scenario, variant, optimise, slots):
    """Let Spin make a program that searches a scenario, and run the program to the first error. Returns what the program
    prints: the search, and the list of its states.

    The program is run once, so compilation must not take longer than it saves. slots is the logarithm to 2.
    """
    text, how = source(scenario), [*(f"-D{name}" for name in variant), optimise, f"-w{slots}"]
    name = hashlib.sha256(json.dumps([spin(), text, how]).encode()).hexdigest()
    kept = paths.cache_dir("model") / name[:32]
    if kept.exists():
        kept.touch()
        return json.loads(kept.read_text(encoding="utf-8"))
    (directory / "model.pml").write_text(text, encoding="utf-8")
    for command in (["spin", *(word for word in how if word.startswith("-D")), "-a", "model.pml"],
                    ["gcc", "-w", optimise, "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=2000", "-o", "pan", "pan.c"]):
        subprocess.run(command, cwd=directory, check=True)
    printed = [pan(directory, "-m10000", f"-w{slots}"), "" if variant else pan(directory, "-d")]
    if VIOLATED.search(printed[0]) or ("errors: 0\n" in printed[0] and not INCOMPLETE.search(printed[0])):
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(printed), encoding="utf-8")
        part.rename(kept)
    return printed


def pan(directory, *arguments):
    return subprocess.run(["./pan", *arguments], cwd=directory, text=True, capture_output=True, check=False).stdout


def unreached(scenario, output, states):
    """Lines of the scenario's processes that no place of inclusion executes."""
    run = re.findall(r"\brun (\w+)\(", source(scenario).partition("\ninit\n")[2])

    def by_process(listing, pattern):
        return {(process, *found.groups()) for process, text in re.findall(r"proctype (\w+)\n((?:\t.*\n)*)", listing)
                if process in run for found in re.finditer(pattern, text)}

    missed = by_process(output, r"state (\d+), ")
    known = by_process(states, r"state +(\d+) .* model\.pml:(\d+) =>")
    reached = {line for process, state, line in known if (process, state) not in missed}
    lines = source(scenario).splitlines()
    return {lines[int(line) - 1].strip() for _, _, line in known if line not in reached}


@pytest.fixture(scope="module")
def searches(request, tmp_path_factory):
    """The searches of all chosen tests, by (scenario, variant): one on each CPU, before the tests."""
    pool = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    begun = {}
    for item in request.session.items:
        if "searches" in getattr(item, "fixturenames", ()):
            chosen = item.callspec.params["scenario"], item.callspec.params.get("variant")
            directory = tmp_path_factory.mktemp(chosen[0][:20])
            how = ([chosen[1]], "-O0", 20) if chosen[1] else ([], "-Og", 24)
            begun[chosen] = pool.submit(search, directory, chosen[0], *how)
    yield begun
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("scenario", STATES)
def test_nothing_is_wrong(scenario, searches):
    output, states = searches[scenario, None].result()
    assert "errors: 0\n" in output, output
    assert not INCOMPLETE.search(output), output
    assert int(re.search(r"(\d+) states, stored", output)[1]) >= STATES[scenario]
    elsewhere = {line for line, other in NEEDED_ELSEWHERE.items() if other != scenario}
    assert unreached(scenario, output, states) <= elsewhere


@pytest.mark.parametrize("scenario, variant, invariants", VARIANTS, ids=["-".join(each[:2]) for each in VARIANTS])
def test_what_is_broken_is_found_out(scenario, variant, invariants, searches):
    output, _ = searches[scenario, variant].result()
    violated = VIOLATED.search(output)
    assert violated and violated[1] in invariants, output


def test_every_variant_is_tried():
    used = re.findall(r"^#ifn?def (BROKEN_\w+)$", "".join(map(source, STATES)), re.M)
    assert set(used) == {variant for _, variant, _ in VARIANTS}


OURS = "kernel/arch/x86/mm/hydra"
ROWS = re.findall(r"^\| (.*?) \| (.*?) \|$", (MODEL / "README.md").read_text(encoding="utf-8").partition("\n|---|---|\n")[2], re.M)
# "`file.c`: `function()` and `other()`", up to the next file
NAMED = re.compile(r"`([\w/]+\.[ch])`:((?:(?!`[\w/]+\.[ch]`).)*)")


def test_the_table_of_names_is_found():
    assert len(ROWS) > 5 and sum(bool(NAMED.search(kernel)) for _, kernel in ROWS) > 5


@pytest.mark.parametrize("row", [kernel for _, kernel in ROWS if NAMED.search(kernel)])
def test_the_table_of_names_knows_the_file_of_each_function(row):
    for name, rest in NAMED.findall(row):
        path = paths.REPO / ("kernel" if "/" in name else OURS) / name
        if not path.exists() and "/" in name:
            continue                         # a file of Linux
        text = path.read_text(encoding="utf-8")
        for function in re.findall(r"`(_*hydra\w+)\(\)`", rest):
            assert re.search(rf"\b{function}\([^;]*?\)\n\{{", text), f"{function}() is not in {name}"
