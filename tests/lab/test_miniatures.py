# SPDX-License-Identifier: GPL-2.0-only
"""The papers' programs, small: the results are right for any number of threads, and a wrong one is noticed. (No machine boots.)"""
import json
import shutil
import subprocess

import pytest

from lab import paths
from lab.bench import miniatures
from lab.machine import programs

NAMES = tuple(miniatures.PROGRAMS)
SIZES = ((), ("--mib", "5", "--operations", "1000"), ("--per-node", "0", "--mib", "3", "--operations", "777"), ("--block-kib", "4", "--mib", "2"))


@pytest.fixture(scope="session")
def built():
    return programs.workloads() / "miniatures"


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_right(built, name, words):
    done = run(built, name, *words)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    mib = int(words[words.index("--mib") + 1]) if "--mib" in words else 64
    assert said["miniature"] == name and said["mib"] == mib and sum(said["pages_on"]) == mib * 256
    assert mib * 256 <= said["load"]["faults"] <= mib * 256 + 64 and (said["maps"] > 0) == (name in miniatures.MAPPING)


@pytest.mark.parametrize("words, status, said", [
    (["--mib", "0", "gups"], 64, "not a number from 1 on"), (["gpus"], 64, "choose one of gups btree"), ([], 64, "choose one of"),
    (["gups", "--run-on", "60"], 2, "nodes only"), (["gups", "--data-node", "60"], 2, "nodes only"), (["gups", "--block-kib", "3"], 64, "from 4 on")])
def test_wrong_words(built, words, status, said):
    done = run(built, *words)
    assert (done.returncode, done.stdout) == (status, "") and said in done.stderr


@pytest.fixture(scope="session")
def copied(tmp_path_factory):
    """A copy of the sources that may be spoilt, built once."""
    home = tmp_path_factory.mktemp("spoilt")
    shutil.copytree(paths.REPO / "workloads", home / "workloads")
    for name in ("tools", "kernel"):
        (home / name).symlink_to(paths.REPO / name)
    make(home)
    return home


def make(home):
    subprocess.run(["make", "-C", home / "workloads", f"O={home}/out", f"{home}/out/miniatures"], check=True, capture_output=True)


# A mistake in each program, and what it says then.
SPOILT = {
    "gups": ("add(&miniature_size.data[gups_place(op)], op)", "add(&miniature_size.data[gups_place(op) ^ 1], op)", "the updates"),
    "btree": ("level[i][at + 1] <= key", "level[i][at + 1] < key", "the places of the keys"),
    "hashjoin": ("rows()[at].key != key + 1)", "rows()[at].key == key)", "the joined rows"),
    "xsbench": ("miniature_size.data[middle] <= energy", "miniature_size.data[middle] < energy", "the cross sections"),
    "canneal": ("__atomic_store_n(&second->place, of_second,", "__atomic_store_n(&second->place, of_first,", "the places"),
    "pagerank": ("sum += *old_rank(*link_of(vertex, number))", "sum += *old_rank(*link_of(vertex, 0))", "a rank"),
    "wordcount": ("for (size_t i = 0; i < block->used; i++)", "for (size_t i = 1; i < block->used; i++)", "the counted words"),
    "dedup": ("digest = mix(digest ^ word[i])", "digest = mix(digest ^ (uintptr_t)&word[i])", "the different chunks"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_makes_a_mistake_says_so(copied, name):
    source = copied / "workloads/miniature_programs.c"
    text = source.read_text(encoding="utf-8")
    right, wrong, told = SPOILT[name]
    assert text.count(right) == 1
    try:
        source.write_text(text.replace(right, wrong), encoding="utf-8")
        make(copied)
        done = run(copied / "out/miniatures", name, "--mib", "2", "--operations", "2000")
    finally:
        source.write_text(text, encoding="utf-8")
    assert (done.returncode, done.stdout) == (1, "") and told in done.stderr
