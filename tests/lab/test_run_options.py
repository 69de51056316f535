# SPDX-License-Identifier: GPL-2.0-only
"""What researchers change of a machine: ./hydra run with --distances, --qemu-args, --config-file and --kvm. (No machine boots, and
no test looks at the host's /dev/kvm.)"""
import errno
import fcntl
import os
import types

import pytest

from lab import cli
from lab.errors import LabError
from lab.kernel import build, kconfig
from lab.machine import distances, kvm, run, vm


@pytest.fixture(autouse=True)
def faked_kvm(monkeypatch, tmp_path):
    monkeypatch.setattr(kvm, "DEVICE", str(tmp_path / "kvm"))
    return tmp_path / "kvm"


def machine(*words):
    return run.machine_of(cli.parser().parse_args(["run", *words, "--", "true"]))


def pairs(command, option):
    return [value for name, value in zip(command, command[1:]) if name == option]


def test_distances_reach_qemu(tmp_path):
    rows = machine("--nodes", "3", "--distances", "10,21,31, 21,10,254, 31,254,10").distances
    assert rows == ((10, 21, 31), (21, 10, 254), (31, 254, 10))
    command = vm.virtme_command("bzImage", vm.Machine(nodes=3, distances=rows), tmp_path)
    assert pairs(command, "--numa-distance") == [f"src={a},dst={b},val={rows[a][b]}" for a in range(3) for b in range(3) if a != b]
    assert machine("--nodes", "2", "--distance", "42").distances == ((10, 42), (42, 10))
    assert pairs(vm.virtme_command("bzImage", machine("--nodes", "2"), tmp_path), "--numa-distance") == []


@pytest.mark.parametrize("text, said", [
    ("10,21,21", "these are 3 numbers, and 2 nodes need 2 rows of 2, 4 in all"), ("10,x,21,10", "whole numbers"), ("", "whole numbers"),
    ("10,21,22,10", "from node 0 to node 1 it says 21, and back 22"), ("11,21,21,10", "from node 0 to node 0 it says 11, and a node's distance to itself is 10"),
    ("10,9,9,10", "from node 0 to node 1 it says 9, which must be 11 to 254"), ("10,10,10,10", "must be 11 to 254"), ("10,255,255,10", "must be 11 to 254")])
def test_wrong_distances(text, said):
    with pytest.raises(LabError, match=said) as caught:
        distances.table(text, 2)
    assert caught.value.status == 2 and "--distances 10,21,21,10" in caught.value.todo


@pytest.mark.parametrize("value", [10, 9, 255, -1])
def test_a_wrong_distance_of_all_nodes(value):
    with pytest.raises(LabError, match="must be 11 to 254"):
        distances.same(value, 2)


@pytest.mark.parametrize("words, users", [
    (["--qemu-args", "-device edu"], ("-device", "edu")), (["--qemu-args", "-s"], ("-s",)), (["--qemu-args=-hda 'a b'"], ("-hda", "a b")),
    (["--qemu-args", "-hda x"], ("-hda", "x")), ([], ())])
def test_arguments_of_qemu_come_last(words, users, tmp_path):
    made = machine(*words)
    command = vm.virtme_command("bzImage", made, tmp_path)
    assert made.users == users and command[len(command) - len(users):] == list(users)
    assert "--qemu-opts" in command[:len(command) - len(users)]


def test_the_commands_own_words_are_not_looked_at():
    arguments = cli.parser().parse_args(["run", "--", "x", "--qemu-args", "-s"])
    assert arguments.command[-2:] == ["--qemu-args", "-s"] and arguments.qemu_args == ""


@pytest.mark.parametrize("given, made", [
    ([], ()), (["--policy", "hydra"], ("--policy", "hydra")), (["--policy", "hydra,prefetch=4"], ("--policy", "hydra", "--prefetch", "4")),
    (["--policy", "hydra:prefetch=4:filter=entry"], ("--policy", "hydra", "--prefetch", "4", "--filter", "entry")),
    (["--policy", "hydra", "--prefetch", "4"], ("--policy", "hydra", "--prefetch", "4")), (["--filter", "none"], ("--policy", "hydra", "--filter", "none"))])
def test_a_policy_may_have_settings(given, made):
    assert run.under_policy(cli.parser().parse_args(["run", *given, "--", "true"])) == made


@pytest.mark.parametrize("given, said", [
    (["--policy", "hydar"], "no policy 'hydar'"), (["--policy", "linux,hydra"], "name one policy"), (["--policy", "hydra,prefetch=10"], "'prefetch=10' in"),
    (["--policy", "linux", "--prefetch", "4"], "policy linux replicates nothing"), (["--policy", ""], "names no policy")])
def test_wrong_settings(given, said):
    with pytest.raises(LabError, match=said) as caught:
        run.under_policy(cli.parser().parse_args(["run", *given, "--", "true"]))
    assert caught.value.status == 2


def test_quotes_that_do_not_close():
    with pytest.raises(LabError, match="--qemu-args -hda 'x: No closing quotation"):
        machine("--qemu-args", "-hda 'x")


def test_options_that_qemu_refuses_are_named_once(cache, monkeypatch):
    boots = []
    monkeypatch.setattr(vm, "boot", lambda *_: boots.append(1) or "")
    monkeypatch.setattr(vm.programs, "hydractl", lambda: "hydractl")
    result = vm.run(["true"], vm.Machine(users=("-device", "nothing")), image="bzImage")
    assert result.status == vm.MACHINE_FAILED and "given --qemu-args '-device nothing'" in result.trouble and boots == [1]


@pytest.mark.parametrize("code, said", [
    (errno.ENOENT, "there is no .*kvm"), (errno.EACCES, "may not be read and written by this user"), (errno.ENODEV, "has no KVM behind it"),
    (errno.EMFILE, "cannot open .*kvm: Too many open files")])
def test_a_kvm_that_cannot_be_opened(monkeypatch, code, said):
    def refuses(path, *_):
        raise OSError(code, os.strerror(code), path)
    monkeypatch.setattr(kvm.os, "open", refuses)
    with pytest.raises(LabError, match=f"--kvm: .*{said}|--kvm: {said}") as caught:
        machine("--kvm")
    assert caught.value.status == 2 and "Without --kvm" in caught.value.todo


def test_no_kvm_and_a_file_that_is_none(faked_kvm):
    with pytest.raises(LabError, match=f"--kvm: there is no {faked_kvm}"):
        machine("--kvm")
    faked_kvm.write_text("")
    with pytest.raises(LabError, match=f"{faked_kvm} does not answer KVM_GET_API_VERSION: Inappropriate ioctl"):
        machine("--kvm")


@pytest.mark.parametrize("version, made, said", [(11, 0, "has version 11"), (12, OSError(errno.EBUSY, "Device or resource busy"), "does not answer KVM_CREATE_VM: .*busy"),
                                                 (12, None, None)])
def test_what_kvm_answers(faked_kvm, monkeypatch, version, made, said):
    faked_kvm.write_text("")
    machines = []

    def ioctl(_device, request, _argument):
        if request == kvm.GET_API_VERSION:
            return version
        if made:
            raise made
        machines.append(os.open(faked_kvm, os.O_RDONLY))
        return machines[0]
    monkeypatch.setattr(kvm, "fcntl", types.SimpleNamespace(ioctl=ioctl))
    if said:
        with pytest.raises(LabError, match=said):
            machine("--kvm")
        return
    assert machine("--kvm").kvm
    with pytest.raises(OSError):
        fcntl.fcntl(machines[0], fcntl.F_GETFD)       # the machine that was tried is closed


def test_kvm_is_used_only_if_asked_for(tmp_path):
    emulated, real = (vm.virtme_command("bzImage", vm.Machine(kvm=on), tmp_path) for on in (False, True))
    assert "--disable-kvm" in emulated and "q35,accel=kvm" not in emulated and "lpj=10000000" in emulated
    assert "--disable-kvm" not in real and pairs(real, "-machine") == ["q35,accel=kvm"] and "lpj=10000000" not in real


@pytest.fixture
def fragment(tmp_path):
    def write(text):
        (tmp_path / "my.config").write_text(text)
        return kconfig.users_fragment(str(tmp_path / "my.config"))
    return write


def test_a_users_options_come_last_and_make_another_image(fragment, monkeypatch):
    monkeypatch.setattr(build.source, "debian_version", lambda: "6.12.1-1")
    own = fragment("# mine\nCONFIG_HZ_250=n\nCONFIG_HZ_1000=y\n")
    assert kconfig.merged("lab", own) == {**kconfig.merged("lab"), "HZ_250": "n", "HZ_1000": "y"}
    assert len({build.image_key("lab"), build.image_key("lab", own), build.image_key("debug", own)}) == 3
    assert build.image_key("lab", {}) == build.image_key("lab") and kconfig.users_fragment(None) == {}
    assert build.has_faults("lab", fragment("CONFIG_HYDRA_MM_INJECT=y\n")) and not build.has_faults("lab")


@pytest.mark.parametrize("text, said", [("HZ=1000\n", "my.config, line 1: not a kernel option: HZ=1000"), (None, "cannot read the configuration .*No such file")])
def test_a_file_that_is_no_configuration(tmp_path, monkeypatch, text, said):
    monkeypatch.setattr(run.build, "kernel", lambda *_: pytest.fail("it builds"))
    if text:
        (tmp_path / "my.config").write_text(text)
    with pytest.raises(LabError, match=said):
        run.run_verb(cli.parser().parse_args(["run", "--config-file", str(tmp_path / "my.config"), "--", "true"]))


def test_the_kernel_is_built_with_the_file(tmp_path, monkeypatch, fragment):
    own, built = fragment("CONFIG_HZ_1000=y\n"), []
    monkeypatch.setattr(run.build, "kernel", lambda *what: built.append(what) or "bzImage")
    monkeypatch.setattr(run.vm, "run", lambda *_: vm.Result(0, "", tmp_path))
    assert run.run_verb(cli.parser().parse_args(["run", "--config", "debug", "--config-file", str(tmp_path / "my.config"), "--", "true"])) == 0
    assert built == [("debug", own)]


# A tree whose Kconfig takes over all options but these.
MAKEFILE = """\
allnoconfig:
\tsed -e '/^CONFIG_LOST=/d' -e '/^CONFIG_HZ_250=/d' -e 's/^\\(CONFIG_SOME_MODULE\\)=m/\\1=y/' $$KCONFIG_ALLCONFIG >$(O)/.config
"""


def configured(cache, tmp_path, own):
    tree, objects = tmp_path / "tree", tmp_path / "objects"
    tree.mkdir()
    objects.mkdir()
    (tree / "Makefile").write_text(MAKEFILE)
    build.configure(tree, objects, "lab" + build.OWN, kconfig.merged("lab", own), build.complain_of(own, "lab"))
    return kconfig.parse((objects / ".config").read_text())


def test_what_kconfig_takes_over_is_in_the_configuration(cache, tmp_path, fragment):
    own = fragment("CONFIG_HZ_250=n\nCONFIG_HZ_1000=y\nCONFIG_NR_CPUS=128\n")
    made = configured(cache, tmp_path, own)
    assert (made["HZ_1000"], made["NR_CPUS"], made["NUMA"]) == ("y", "128", "y")


def test_what_kconfig_does_not_take_over_is_named(cache, tmp_path, fragment):
    with pytest.raises(LabError) as caught:
        configured(cache, tmp_path, fragment("CONFIG_HZ_1000=y\nCONFIG_LOST=y\nCONFIG_SOME_MODULE=m\n"))
    what, todo = caught.value.what, caught.value.todo
    assert "these options of --config-file:\n      CONFIG_LOST=y became n\n      CONFIG_SOME_MODULE=m became y" in what
    assert "these options of the configuration 'lab', which the file changes:\n      CONFIG_HZ_250=y became n" in what and "HZ_1000" not in what
    assert "write y for m" in todo and todo.endswith("CONFIG_HZ_250=n")
