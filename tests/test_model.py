# SPDX-License-Identifier: GPL-2.0-only
"""The model of the mechanism, searched by Spin: nothing is wrong with it, and whatever breaks it is found out.

See model/README.md. With HYDRA_LONG=1 in the environment the largest scenario is searched, too.
"""
import os
import re
import shutil
import subprocess

import pytest

from lab import paths, setup

MODEL = paths.REPO / "tests/model"

# By scenario, a number of states that a search to the end does not stay below.
STATES = {"bulk": 500_000, "change": 4_000_000, "collapse": 7_000_000, "flush": 8_000_000, "gather": 4_000_000,
          "gone": 3_500, "munmap": 5_900_000, "munmap_quiet": 2_100_000, "pending": 1_500, "promote": 900_000,
          "reclaim": 1_900_000, "return": 8_900_000, "split": 3_000_000}
LONG = set()
NOW = [name for name in STATES if name not in LONG or os.environ.get("HYDRA_LONG") == "1"]

# What not every scenario has need of, with one that does.
NEEDED_ELSEWHERE = {
    "locked = false;": "collapse",                 # the table has gone while its lock was waited for
    "ptl = false": "collapse",
    ":: !h": "return",                             # a flush of an address space that is not split
    ":: ht[0].table[dom] -> hydra_link(dom, 0)": "munmap",      # a table that goes, which one domain has for itself
}


def source(scenario):
    """A scenario with what it includes, in one text: Spin names the wrong file for what is included."""
    text = (MODEL / f"{scenario}.pml").read_text(encoding="utf-8")
    return re.sub(r'^#include "(\w+)\.pml"$', lambda found: source(found[1]), text, flags=re.M)


def variants(scenario):
    """What the scenario's first comment says must be rejected, each with the invariants that do not hold then."""
    found = re.findall(r"^ \*   (BROKEN_\w+) +(\d+(?: or \d+)*)$", source(scenario), re.M)
    return [(scenario, name, invariants.split(" or ")) for name, invariants in found]


VARIANTS = [variant for scenario in STATES for variant in variants(scenario)]


def search(directory, scenario, variant, optimise):
    """Have Spin make a program that searches a scenario, and run it, to the first error. Returns what it printed."""
    missing = [name for name in ("spin", "gcc") if not shutil.which(name)]
    assert not missing, "not installed: " + " ".join(setup.install_command(missing))
    (directory / "model.pml").write_text(source(scenario), encoding="utf-8")
    for command in (["spin", *(f"-D{name}" for name in variant), "-a", "model.pml"],
                    ["gcc", "-w", optimise, "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=2000", "-o", "pan", "pan.c"]):
        subprocess.run(command, cwd=directory, check=True)
    return pan(directory, "-m10000", "-w24")


def pan(directory, *arguments):
    return subprocess.run(["./pan", *arguments], cwd=directory, text=True, capture_output=True, check=False).stdout


def unreached(scenario, directory, output):
    """Lines of the scenario's processes that are never executed, in none of the places a line is included in."""
    run = re.findall(r"\brun (\w+)\(", source(scenario).partition("\ninit\n")[2])

    def by_process(listing, pattern):
        return {(process, *found.groups()) for process, text in re.findall(r"proctype (\w+)\n((?:\t.*\n)*)", listing)
                if process in run for found in re.finditer(pattern, text)}

    missed = by_process(output, r"state (\d+), ")
    known = by_process(pan(directory, "-d"), r"state +(\d+) .* model\.pml:(\d+) =>")
    reached = {line for process, state, line in known if (process, state) not in missed}
    lines = source(scenario).splitlines()
    return {lines[int(line) - 1].strip() for _, _, line in known if line not in reached}


@pytest.mark.parametrize("scenario", NOW)
def test_nothing_is_wrong(scenario, tmp_path):
    output = search(tmp_path, scenario, [], "-O1")
    assert "errors: 0\n" in output, output
    assert not re.search("max search depth too small|out of memory|not completed|truncated", output), output
    assert int(re.search(r"(\d+) states, stored", output)[1]) >= STATES[scenario]
    elsewhere = {line for line, other in NEEDED_ELSEWHERE.items() if other != scenario}
    assert unreached(scenario, tmp_path, output) <= elsewhere


@pytest.mark.parametrize("scenario, variant, invariants", VARIANTS, ids=["-".join(each[:2]) for each in VARIANTS])
def test_what_is_broken_is_found_out(scenario, variant, invariants, tmp_path):
    output = search(tmp_path, scenario, [variant], "-O0")
    violated = re.search(r"assertion violated \((\d+)&&", output)
    assert violated and violated[1] in invariants, output


def test_every_variant_is_tried():
    used = re.findall(r"^#ifn?def (BROKEN_\w+)$", "".join(map(source, STATES)), re.M)
    assert set(used) == {variant for _, variant, _ in VARIANTS}
