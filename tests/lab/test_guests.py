# SPDX-License-Identifier: GPL-2.0-only
"""Self tests in a machine in the machine: what is started, and what counts as passed."""
import pathlib

import pytest

from lab.test import guests

PROGRAM = "\n### begin {name}\nTAP version 13\n1..1\nok 1 one\n\n### end {name} 0 9\n"
GOOD = ("".join(PROGRAM.format(name=name) for name in guests.TESTS) +
        "".join(f"group {group} pages 512 free 400 misplaced 0 refused 0 away 0\n" for group in range(guests.NODES)) + "### regrouped 25 violations 0 left to the host 12\n### ended 0\nvm 0\npolicy hydra\n"
        "active 1\nmoves 25\nfallbacks 0\n" + 5 * "vm 0\ntables 5 entries 99 violations 0\n" + 5 * "spread\n" + "### host's violations 0\n")
NV, NO_P, NO_F, CROWDED = guests.KINDS


def failed(kind, text):
    return {outcome.name for outcome in guests.judge(kind, text) if outcome.failed}


def test_a_machine_whose_tests_passed():
    assert not failed(NO_P, GOOD) and len(guests.judge(NO_P, GOOD)) == 10


@pytest.mark.parametrize("right, wrong, what", [
    ("ok 1 one", "not ok 1 one", "coherence: one"), ("### end oracle 0 9", "", "oracle"), ("regrouped 25", "regrouped 3", "regrouped"),
    ("### regrouped 25 violations 0", "", "page tables"), ("25 violations 0", "25 violations 2", "the machine's page tables"),
    ("active 1", "active 0", "a nested tree"), ("fallbacks 0", "fallbacks 1", "a nested tree"), ("99 violations 0", "99 violations 1", "nested page tables"),
    (2 * "vm 0\ntables 5 entries 99 violations 0\n", "", "nested page tables"), ("host's violations 0", "host's violations 1", "nested page tables"),
    ("moves 25", "moves 3", "virtual CPUs move"), ("group 3 pages 512", "group 3 pages 0", "has placed"), ("group 0", "group of", "has placed"), (4 * "spread\n", "", "on all nodes"),
    ("### ended 0", "[    9.9] WARNING: CPU: 1 PID: 7 at arch/x86/mm/hydra/fill.c:7 hydra_fill+0x1/0x2\n### ended 0", "kernel log")])
def test_what_is_wrong_is_said(right, wrong, what):
    assert right in GOOD and any(what in name for name in failed(NO_P, GOOD.replace(right, wrong, 1)))


def test_a_machine_that_sees_its_nodes_is_not_regrouped():
    assert not failed(NV, GOOD.replace("regrouped 25", "regrouped 0"))


def test_a_crowded_machine_leaves_flushes_to_the_host():
    assert not failed(CROWDED, GOOD.replace("spread\n", ""))
    assert any("left to the host" in name for name in failed(CROWDED, GOOD.replace("the host 12", "the host 0")))


@pytest.fixture
def built(monkeypatch):
    monkeypatch.setattr(guests.build, "kernel", lambda _config: pathlib.Path("/bzImage"))
    monkeypatch.setattr(guests.programs, "hydractl", lambda: pathlib.Path("/hydractl"))


def test_the_machines(built):
    scripts = {kind.name: guests.commands(kind, pathlib.Path("/initrd")) for kind in guests.KINDS}
    assert "nodeid=3" in scripts["NV"] and "nodeid" not in scripts["NO-P"] + scripts["NO-F"]
    assert "hydra_groups=pv" in scripts["NO-P"] and "--expose" in scripts["NO-P"] and "turn + 1" in scripts["NO-P"]
    assert "--expose" not in scripts["NO-F"] and "turn + 0" in scripts["NO-F"]
    assert "nopv" not in scripts["crowded"] and all("nopv" in script for name, script in scripts.items() if name != "crowded")
    assert "/ 2 * 2" in scripts["crowded"] and "/ 1 * 1" in scripts["NV"]
    assert all("-smp 4,sockets=4" in script for script in scripts.values())      # a socket in two nodes is a warning
    assert all("run -- taskset" in script and guests.vm.HELD_VMS in script for script in scripts.values())


def test_the_file_system(tmp_path, monkeypatch):
    monkeypatch.setitem(guests.TESTS, "env", "--some words")
    archive = guests.initrd(NO_F, [pathlib.Path("/usr/bin/env")], tmp_path)
    names = {str(path.relative_to(tmp_path / "root")) for path in (tmp_path / "root").rglob("*")}
    assert archive.stat().st_size and {"init", "commands", "bin/sh", "guest_selftests.sh", "tests/env", "usr/bin/timeout"} <= names
    said = (tmp_path / "root/commands").read_text()
    assert "3/0/1/2 2,3/0/1" in said and "sh /guest_selftests.sh 600 '/tests/env --some words'" in said
