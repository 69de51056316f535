# SPDX-License-Identifier: GPL-2.0-only
"""The builds of programs: each has the sources in its name, of no other clone."""
import os
import shutil
import subprocess

import pytest

from lab import paths
from lab.errors import LabError
from lab.machine import programs


@pytest.fixture
def clones(tmp_path, cache):
    """Two copies of what hydractl is made of."""
    made = []
    for name in ("a", "b"):
        for source in programs.SOURCES["hydractl"]:
            target = tmp_path / name / source
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (paths.REPO / source).is_dir() else shutil.copy)(paths.REPO / source, target)
        made.append(tmp_path / name)
    return made


def test_each_clone_runs_its_own_programs(clones, monkeypatch):
    built = []

    def build_in(clone):
        monkeypatch.setattr(programs, "content_key", lambda name, more=(), key=programs_key: key(name, more, clone))
        built.append(programs.build("hydractl", lambda out: ["sh", "-c", f"cp {clone}/tools/hydractl/main.c {out}"]))
        return (built[-1] / "main.c").read_text()
    programs_key = programs.content_key
    (clones[1] / "tools/hydractl/main.c").write_text("changed\n")
    # A date says nothing: the changed file is the older one.
    os.utime(clones[1] / "tools/hydractl/main.c", (1, 1))
    assert "changed" == build_in(clones[1]).strip()
    assert "command_run" in build_in(clones[0])
    assert "changed" == build_in(clones[1]).strip() and built[2] == built[0] != built[1]


@pytest.mark.parametrize("file, matters", [
    ("tools/hydractl/json.h", True), ("tools/hydractl/Makefile", True), (programs.INTERFACE, True), ("README.md", False)])
def test_what_goes_into_the_name_of_a_build(clones, file, matters):
    (clones[1] / file).write_text("changed\n")
    first, second = (programs.content_key("hydractl", repository=clone) for clone in clones)
    assert (first != second) == matters


def test_a_build_that_fails_is_told_and_leaves_nothing(cache):
    with pytest.raises(LabError, match="main.c: error: no"):
        programs.build("hydractl", lambda out: ["sh", "-c", f"touch {out}/hydractl; echo main.c: error: no; exit 2"])
    assert not list((cache / "programs").glob("hydractl-*"))


def test_sources_that_change_while_they_are_built_are_built_again(cache, monkeypatch):
    keys = iter(["0" * 16, "1" * 16, *["2" * 16] * 9])
    monkeypatch.setattr(programs, "content_key", lambda *_: next(keys))
    assert programs.build("hydractl", lambda out: ["touch", str(out / "hydractl")]).name == "hydractl-" + "2" * 16


def test_builds_that_no_machine_can_still_use_go(cache, monkeypatch):
    home = paths.cache_dir("programs")
    for number in range(programs.KEEP + 3):
        (home / f"hydractl-{number:016x}").mkdir()
        os.utime(home / f"hydractl-{number:016x}", (number, number))
    os.utime(home / f"hydractl-{0:016x}")
    programs.remove_old(home, "hydractl")
    left = sorted(int(path.name.split("-")[1], 16) for path in home.iterdir())
    assert left == [0, *range(programs.KEEP + 3)[-(programs.KEEP - 1):]]


def test_the_names_of_the_self_tests_are_known_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(programs, "build", lambda *_: pytest.fail("it builds"))
    assert {"fill", "coherence", "oracle"} <= set(programs.selftest_names()) < set(programs.selftest_names(everything=True))


def test_a_workload_without_a_function_is_not_linked(tmp_path):
    """With --no-warnings, binutils 2.40 links it all the same, and the program calls address 0."""
    for name in ("workloads", "tools/hydractl", programs.SELFTESTS, "kernel/include/uapi/linux"):
        shutil.copytree(paths.REPO / name, tmp_path / name)
    (tmp_path / "workloads/tlb_line.c").write_text("typedef int nothing;\n")
    done = subprocess.run(["make", "-s", "-C", tmp_path / "workloads", f"O={tmp_path}/out", f"{tmp_path}/out/steps"], capture_output=True, text=True, check=False)
    assert done.returncode and "undefined reference to `tlb_interrupts'" in done.stderr
