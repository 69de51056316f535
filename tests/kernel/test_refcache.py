# SPDX-License-Identifier: GPL-2.0-only
"""lib/refcache: the cases of KUnit that go step by step, in a program on the host; and with each rule broken, a case has to notice.

Injected faults of Hydra are tried by programs in a machine that runs. KUnit runs when the machine boots, so the faults are here.
"""
import re
import shutil
import subprocess

import pytest

from lab import paths

OURS = paths.REPO / "kernel/lib/refcache"
HOST = paths.REPO / "tests/kernel/refcache_host.h"
ELSEWHERE = ("pairs.h", "threads-kunit.h")          # needs a kernel

# What is broken: (the lines, what stands in their place, a case that notices)
FAULTS = {
    "no dirty bit": ("			new |= REFCACHE_DIRTY;", "			;", "refcache_test_dirty"),
    "delta of zero skipped": ("		if (cache->entry[i].ref)", "		if (cache->entry[i].ref && cache->entry[i].delta)", "refcache_test_moved"),
    "count below zero forgotten": ("else if (new < REFCACHE_ONE)", "else if (new >= 0 && new < REFCACHE_ONE)", "refcache_test_below_zero"),
    "count below zero stays": ("		if (old < REFCACHE_ONE)", "		if (old >= 0 && old < REFCACHE_ONE)", "refcache_test_waits_below_zero"),
    "dying bit ignored": ("|| !refcache_cut_weak(ref))", "|| (refcache_cut_weak(ref), false))", "refcache_test_revive"),
    "dying bit not set": ("				atomic_long_or(REFCACHE_DYING, &ref->weak->word);", "				;", "refcache_test_revive"),
    "dirty bit not cleared": ("			atomic64_andnot(REFCACHE_DIRTY, &ref->word);", "", "refcache_test_figure"),
    "delta lost for another object": ("		if (entry->ref)\n			refcache_evict(entry);", "		entry->delta = 0;", "refcache_test_conflict"),
    "put asks for no epoch": ("	if (entry->delta < 0)", "	if (false)", "refcache_test_wanted"),
    "dead CPU keeps deltas": ("	refcache_evict_all(per_cpu_ptr(&refcache_cpus, cpu));", "", "refcache_test_offline"),
    "global count written in vain": ("		if (new == old)\n			break;", "		if (new == old)\n			new |= REFCACHE_DIRTY;", "refcache_test_figure"),
    "flush before the epoch begins": ("	struct llist_node *waiting = refcache_begin_epoch();\n\n	refcache_flush_cpus();\n	refcache_review(waiting);",
                                      "	refcache_flush_cpus();\n	refcache_review(refcache_begin_epoch());", "refcache_test_epoch"),
    "no flush": ("	refcache_flush_cpus();\n", "", "refcache_test_epoch"),
    "epoch takes back what it asks for": ("	smp_store_mb(refcache_wanted, false);\n	refcache_epoch();", "	refcache_epoch();\n	smp_store_mb(refcache_wanted, false);", "refcache_test_epoch"),
    "waits for ever": ("		if (old < REFCACHE_ONE)", "		if (true)", "refcache_test_figure"),
}


def run(directory, change=None):
    """Compile the library and its cases, with one change, and run them: (whether all passed, {case: passed})."""
    text = (OURS / "refcache.c").read_text(encoding="utf-8")
    if change:
        assert text.count(change[0]) == 1, change[0]
        text = text.replace(*change)
    (directory / "refcache.c").write_text(text, encoding="utf-8")
    shutil.copyfile(OURS / "steps-kunit.h", directory / "steps-kunit.h")
    for name in ELSEWHERE:
        (directory / name).write_text("", encoding="utf-8")
    header = (paths.REPO / "kernel/include/linux/refcache.h").read_text(encoding="utf-8")
    for name in set(re.findall(r"#include <([\w/-]+\.h)>", text + header + (OURS / "steps-kunit.h").read_text(encoding="utf-8"))):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text('#pragma once\n#include "refcache_host.h"\n', encoding="utf-8")
    (directory / "linux/refcache.h").write_text(header, encoding="utf-8")
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-Wno-unused", f"-I{directory}", f"-I{HOST.parent}", "-fsanitize=address,undefined",
                    "-DCONFIG_REFCACHE_KUNIT_TEST", "-o", directory / "cases", directory / "refcache.c"], check=True)
    done = subprocess.run([directory / "cases"], env={"ASAN_OPTIONS": "detect_leaks=0"}, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    return not done.returncode, {name: word == "ok" for word, name in re.findall(r"^(ok|not ok) (\w+)$", done.stdout, re.M)}


def test_each_case_passes(tmp_path):
    passed, cases = run(tmp_path)
    assert passed and len(cases) > 8 and all(cases.values())


@pytest.mark.parametrize("fault", FAULTS)
def test_each_injected_fault_is_noticed(tmp_path, fault):
    *change, catcher = FAULTS[fault]
    _, cases = run(tmp_path, change)
    assert not cases.get(catcher, True)
