# SPDX-License-Identifier: GPL-2.0-only
"""The machine with PCID: the description, the build, the verdicts. (No machine boots.)"""
import pathlib
import re
import subprocess

import pytest

from lab import paths
from lab.errors import LabError
from lab.machine import initramfs, ktap
from lab.test import pcid
from lab.test.bochs import bochs, bochs_build

REGISTERS = """\
01231838774i[CPU0  ] | CR3=0x0000000000a7e003
01231838774i[CPU0  ] | loads of CR3 that kept the TLB: 366
01231838774i[CPU0  ] | CR4=0x001706f0: PCID
01231838774i[CPU1  ] | loads of CR3 that kept the TLB: 30
01231838774i[CPU1  ] | CR4=0x001706f0: PCID
"""
GOOD = "\n### begin fill\nTAP version 13\n1..1\nok 1 basic\n\n### end fill 0\n"
BAD = GOOD.replace("ok 1 basic", "not ok 1 basic").replace("end fill 0", "end fill 1")


def test_the_machine_is_described():
    text = bochs.bochsrc(bochs.Machine(nodes=4, cpus_per_node=2, mib_per_node=128))
    assert "megs: 512\n" in text and "count=1:8:1," in text and "path=cd.iso," in text


def test_what_the_machine_runs():
    assert bochs.script(["/a/fill"], bochs.Machine(neighbours=False)) == \
        f"export BROKEN=none ARGUMENTS=''\nsh /selftests {bochs.PROGRAM_LIMIT} /a/fill\n"
    text = bochs.script(["/a/fill", "/b c/race"], bochs.Machine(broken="skip-set", arguments="--policy abis"))
    assert text.startswith("export BROKEN=skip-set ARGUMENTS='--policy abis'\nsh /neighbours sh /selftests ") and "'/b c/race'" in text


@pytest.mark.parametrize("log, good", [
    (REGISTERS, True), (REGISTERS.replace("kept the TLB: 30", "kept the TLB: 0"), False), ("", False),
    (REGISTERS.replace("[CPU1  ] | CR4=0x001706f0", "[CPU1  ] | CR4=0x001506f0"), False),
    ("\n".join(REGISTERS.splitlines()[:3]), False)])
def test_pcid_must_have_been_in_use_on_every_cpu(log, good):
    assert bochs.kept(log, 2).failed is not good


@pytest.mark.parametrize("output, console, ended, expected", [
    (GOOD, "[ 9.0] reboot: Power down\n", "", ["passed", "passed"]),
    (BAD, "[ 9.0] reboot: Power down\n", "", ["passed", "failed"]),
    (GOOD, "[ 9.0] WARNING: CPU: 1 PID: 1 at a.c:1\n[ 9.1] reboot: Power down\n", "", ["passed", "passed", "failed"]),
    (GOOD, "[ 9.0] fine\n", "", ["passed", "failed"]),
    (GOOD, "[ 9.0] reboot: Power down\n", "the time limit of 5 s was reached", ["passed", "failed"])])
def test_outcomes_of_a_run(tmp_path, output, console, ended, expected):
    (tmp_path / "output.log").write_text(output)
    (tmp_path / "console.log").write_text(console)
    (tmp_path / "bochs.log").write_text(REGISTERS)
    found = bochs.outcomes([pathlib.Path("/a/fill")], bochs.Machine(nodes=2, cpus_per_node=1), tmp_path, ended)
    assert [outcome.result for outcome in found] == expected


class Child:
    """A machine that never ends."""

    def poll(self):
        return None


def test_waiting_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(bochs.time, "sleep", lambda _: None)
    assert "time limit" in bochs.wait(Child(), tmp_path, 0.05, lambda _: None)
    (tmp_path / "output.log").write_text(BAD)
    assert "waited for" in bochs.wait(Child(), tmp_path, 60, lambda _: None, bochs.FAILED)
    (tmp_path / "console.log").write_text("[ 1.0] Kernel panic - not syncing: test\n")
    monkeypatch.setattr(bochs, "PANIC_GRACE", 0.05)
    assert "panicked" in bochs.wait(Child(), tmp_path, 60, lambda _: None)


def test_output_is_handed_on_once(tmp_path, monkeypatch):
    said = []

    def more(_):
        with open(tmp_path / "output.log", "a", encoding="utf-8") as output:
            output.write("a\n")
    monkeypatch.setattr(bochs.time, "sleep", more)
    bochs.wait(Child(), tmp_path, 60, said.append, re.compile("a\na\na\n"))
    assert "".join(said) == "a\na\na\n"


@pytest.mark.parametrize("output, console, expected", [
    ("", "", None), (GOOD, "", ""), (BAD, "", "basic"),
    (GOOD, "[ 1.0] BUG: KASAN: use-after-free in f\n", "the kernel: memory error")])
def test_the_first_failure(tmp_path, monkeypatch, output, console, expected):
    (tmp_path / "output.log").write_text(output)
    (tmp_path / "console.log").write_text(console)
    monkeypatch.setattr(bochs, "boot", lambda *_: (tmp_path, ""))
    assert bochs.first_failure("image", [], bochs.Machine(), "title") == expected


@pytest.mark.parametrize("by, result", [(None, "failed"), ("", "failed"), ("munmap", "passed")])
def test_a_fault_must_be_noticed_by_a_test_that_ran(monkeypatch, by, result):
    monkeypatch.setattr(pcid.build, "kernel", lambda _: "image")
    monkeypatch.setattr(pcid.bochs, "first_failure", lambda *_: by)
    assert pcid.injected("skip-set", {pcid.CATCHER: "/a/coherence"}).result == result


def test_a_kernel_that_takes_no_tables_is_refused(tmp_path):
    (tmp_path / "config").write_text("# CONFIG_ACPI_TABLE_UPGRADE is not set\n")
    with pytest.raises(LabError, match="ACPI_TABLE_UPGRADE"):
        bochs.check_image(tmp_path / "bzImage")
    (tmp_path / "config").write_text("CONFIG_ACPI_TABLE_UPGRADE=y\n")
    bochs.check_image(tmp_path / "bzImage")


def test_programs_come_with_their_libraries(tmp_path):
    root = tmp_path / "root"
    shell = initramfs.program("sh")
    initramfs.lay(root, [shell])
    initramfs.put(root, paths.REPO / "lab/test/bochs/guest_init.sh", "/init")
    initramfs.pack(root, tmp_path / "initrd")
    with open(tmp_path / "initrd", "rb") as archive:
        listed = subprocess.run(["cpio", "--quiet", "--list"], stdin=archive, capture_output=True, text=True,
                                check=True).stdout.split()
    assert str(shell).lstrip("/") in listed and "init" in listed
    assert any("/libc.so" in name for name in listed) and any("ld-linux" in name for name in listed)


def test_a_script_has_no_libraries(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert initramfs.libraries(tmp_path / "script") == []


def test_a_program_that_is_not_there():
    with pytest.raises(LabError, match="never-heard-of"):
        initramfs.program("never-heard-of")


def test_a_download_that_fails_says_where_to_put_the_file(cache, monkeypatch):
    monkeypatch.setattr(bochs_build, "DOWNLOADER", "false")
    with pytest.raises(LabError, match="downloading") as caught:
        bochs_build.download()
    assert str(cache / "downloads" / "bochs_3.0+dfsg.orig.tar.xz") in str(caught.value)


def test_a_file_of_other_content_is_downloaded_again(cache, monkeypatch):
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "bochs_3.0+dfsg.orig.tar.xz").write_text("something else")
    monkeypatch.setattr(bochs_build, "DOWNLOADER", "false")
    with pytest.raises(LabError):
        bochs_build.download()


def test_a_build_that_was_interrupted_is_not_taken_for_whole(cache, monkeypatch):
    def dies(directory):
        (directory / "bochs").write_text("half")
        raise KeyboardInterrupt
    monkeypatch.setattr(bochs_build, "download", lambda: None)
    monkeypatch.setattr(bochs_build, "unpack", lambda _, directory: directory.mkdir())
    monkeypatch.setattr(bochs_build, "make", dies)
    with pytest.raises(KeyboardInterrupt):
        bochs_build.program()
    monkeypatch.setattr(bochs_build, "make", lambda directory: (directory / "bochs").write_text("whole"))
    assert bochs_build.program().read_text() == "whole"
    assert [path.name for path in (cache / "bochs").iterdir()] == [bochs_build.key()]


def test_parameters_of_modules_have_to_be_as_expected():
    machine = bochs.Machine(neighbours=False, parameters={"kvm_intel.ept": "Y", "kvm_intel.pml": "Y"})
    assert "value=; read -r value </sys/module/kvm_intel/parameters/pml; echo parameter kvm_intel.pml $value\n" in bochs.script(["/a/fill"], machine)
    seen = bochs.parameters("parameter kvm_intel.ept Y\nparameter kvm_intel.pml N\n", machine.parameters)
    assert [(outcome.name, outcome.failed) for outcome in seen] == [("kvm_intel.ept is Y", False), ("kvm_intel.pml is Y", True)]
    assert bochs.parameters("", machine.parameters)[0].failed


def test_another_patch_makes_another_program(tmp_path, monkeypatch):
    before = bochs_build.key()
    (tmp_path / "patch").write_text("else")
    monkeypatch.setattr(bochs_build, "PATCHES", [tmp_path / "patch"])
    assert bochs_build.key() != before


def test_progress_of_the_build():
    assert bochs_build.STEP.match("g++ -c  -I.. -O2 cpu.cc -o cpu.o")[1] == "cpu.cc"
    assert bochs_build.STEP.match("gcc -I.. -c -O2 fpu.c -o fpu.o")[1] == "fpu.c"
    assert not bochs_build.STEP.match("checking if gcc supports -c -o file.o... yes")


def test_outcomes_are_named_by_their_boot(monkeypatch):
    names = {name: pathlib.Path(f"/a/{name}") for boot in pcid.BOOTS for name in boot.tests}
    monkeypatch.setattr(pcid.build, "kernel", lambda _: "image")
    monkeypatch.setattr(pcid.build, "tree", lambda: None)
    monkeypatch.setattr(pcid.programs, "selftests", lambda _: list(names.values()))
    monkeypatch.setattr(pcid.bochs, "run", lambda *_: [ktap.Outcome("x", "passed")])
    monkeypatch.setattr(pcid.bochs, "first_failure", lambda *_: "y")
    groups = pcid.run()
    assert [outcome.name for outcome in groups["PCID, no neighbours"]] == ["x [PCID, no neighbours]"]
    assert all(not outcome.failed for outcomes in groups.values() for outcome in outcomes)
