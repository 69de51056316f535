# SPDX-License-Identifier: GPL-2.0-only
"""hydractl vm and set --vm: the virtual machines of a process, from faked files."""
import errno

import pytest

from faked_kernel import ACCEPTS, HYDRA, refuses_text

TREES = """\
vm 0
policy hydra
domains node
prefetch 9
active 1
refused -
copied 12
vcpus_spared 7
domain 0 node 0 tables 9 copied 0 moves 1 fallbacks 0 given_up 0
domain 1 node 1 tables 4 copied 12 moves 2 fallbacks 1 given_up 1
vm 1
policy linux
active 0
refused the VM is of a protected type
"""

TABLES = """\
vm 0
domain 0 node 0 vcpus 2 local_leaves 2049 remote_leaves 0
domain 1 node 1 vcpus 1 local_leaves 5 remote_leaves 3
node 0 nested_tables 9 nested_kib 36
node 1 nested_tables 4 nested_kib 16
"""


@pytest.fixture
def qemu(kernel):
    kernel.process(7, "qemu", hydra=HYDRA, hydra_vm=TREES, hydra_vm_tables=TABLES)
    return kernel


def test_machines_are_shown_with_settings_and_counters(qemu):
    done = qemu.run("vm", 7)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("\nvirtual machine 1\n")
    assert first.startswith("process 7 (qemu)\n\nvirtual machine 0\n") and "vcpus_spared                  7\n" in first
    assert "  refused                       the VM is of a protected type\n" in second
    assert ["1", "1", "4", "12", "2", "1", "1"] in [line.split() for line in first.splitlines()] and "0 node 0" not in first


def test_machines_in_json(qemu):
    shown = qemu.json("vm", 7)
    assert shown["pid"] == 7 and shown["comm"] == "qemu"
    assert [vm["policy"] for vm in shown["vms"]] == ["hydra", "linux"]
    assert shown["vms"][0]["trees"][1] == {"domain": 1, "node": 1, "tables": 4, "copied": 12, "moves": 2, "fallbacks": 1, "given_up": 1}
    assert shown["vms"][0]["copied"] == 12 and shown["vms"][1]["refused"] == "the VM is of a protected type"


def test_nested_tables_are_shown(qemu):
    lines = [line.split() for line in qemu.run("vm", "--tables", 7).stdout.splitlines()]
    assert ["domain", "node", "vcpus", "local_leaves", "remote_leaves"] in lines and ["1", "1", "1", "5", "3"] in lines
    assert ["node", "nested_tables", "nested_kib"] in lines and ["0", "9", "36"] in lines


def test_nested_tables_in_json(qemu):
    [vm] = qemu.json("vm", "--tables", 7)["vms"]
    assert vm["domains"][1] == {"domain": 1, "node": 1, "vcpus": 1, "local_leaves": 5, "remote_leaves": 3}
    assert vm["nodes"] == [{"node": 0, "nested_tables": 9, "nested_kib": 36}, {"node": 1, "nested_tables": 4, "nested_kib": 16}]


@pytest.mark.parametrize("files, message", [
    ({"hydra_vm": ""}, "process 7 has no virtual machine"),
    ({}, "no Hydra for virtual machines (CONFIG_KVM_HYDRA)"),
    ({"hydra_vm": "policy hydra\n"}, "cannot make sense of"),
])
def test_nothing_to_show(kernel, files, message):
    kernel.process(7, hydra=HYDRA, **files)
    done = kernel.run("vm", 7)
    assert done.returncode == 2 and message in done.stderr and not done.stdout


@pytest.mark.parametrize("command", [("vm", 99), ("set", "--vm", "--policy", "hydra", 99)])
def test_no_such_process(kernel, command):
    done = kernel.run(*command)
    assert done.returncode == 2 and "no process 99" in done.stderr


@pytest.mark.parametrize("options, written", [
    (["--policy", "hydra"], "domains=node,replication=lazy,prefetch=9,filter=table,tables=stay"),
    (["--policy", "hydra", "--prefetch", "4"], "domains=node,replication=lazy,prefetch=4,filter=table,tables=stay"),
    (["--prefetch", "4"], "prefetch=4"),
    (["--filter", "none", "--domains", "node"], "domains=node,filter=none,tables=stay"),
    (["--limit-kib", "65536"], "limit_kib=65536"),
    (["--limit-kib", "max", "--prefetch", "4"], "prefetch=4,limit_kib=max"),
    (["--policy", "linux"], "domains=machine,tables=stay"),
    (["--follow"], "domains=machine,tables=follow"),
    (["--follow", "--policy", "linux"], "domains=machine,tables=follow"),
    (["--follow", "--expose"], "domains=machine,tables=follow,expose=on"),
    (["--expose"], "expose=on"),
    (["--no-expose"], "expose=off"),
    (["--expose", "--policy", "linux"], "domains=machine,tables=stay,expose=on"),
    (["--again"], "again"),
    (["--again", "--prefetch", "4"], "prefetch=4"),
])
def test_machines_get_what_is_named_and_the_process_keeps_its_own(qemu, options, written):
    done = qemu.run("set", "--vm", *options, 7)
    assert done.returncode == 0, done.stderr
    assert (qemu.proc / "7" / "hydra_vm").read_text() == written
    assert qemu.text(7) == HYDRA


@pytest.mark.parametrize("options, message", [
    (["--follow"], "give --vm too"),
    (["--expose"], "give --vm too"),
    (["--no-expose"], "give --vm too"),
    (["--vm", "--expose", "--no-expose"], "not both"),
    (["--again"], "give --vm too"),
    (["--limit-kib", "4"], "give --vm too"),
    (["--vm", "--limit-kib", "64M"], "neither a number of KiB nor max"),
    (["--vm"], "nothing to set"),
    (["--vm", "--follow", "--policy", "hydra"], "one tree"),
    (["--vm", "--policy", "mitosis", "--follow"], "one tree"),
    (["--vm", "--follow", "--prefetch", "4"], "one tree"),
])
def test_only_the_tables_of_one_tree_follow(qemu, options, message):
    done = qemu.run("set", *options, 7)
    assert done.returncode != 0 and message in done.stderr
    assert (qemu.proc / "7" / "hydra_vm").read_text() == TREES


def test_settings_for_a_process_without_a_machine(qemu):
    text = "domains=node,replication=lazy,prefetch=9,filter=table,tables=stay"
    done = qemu.run("set", "--vm", "--policy", "hydra", 7, preexec_fn=refuses_text(text, errno.ENOENT))
    assert done.returncode == 2 and "process 7 has no virtual machine" in done.stderr


def test_settings_which_a_machine_cannot_have(qemu):
    text = "domains=node,replication=eager,prefetch=9,filter=none,tables=stay"
    done = qemu.run("set", "--vm", "--policy", "mitosis", 7, preexec_fn=refuses_text(text, errno.EOPNOTSUPP))
    assert done.returncode == 2 and f"cannot do '{text}'" in done.stderr


@pytest.mark.parametrize("options", [["--prefetch", "4"], ["--filter", "none", "--expose"]])
def test_settings_of_trees_for_machines_with_one_tree(kernel, options):
    text = "vm 0\npolicy linux\ndomains machine\nactive 0\n"
    kernel.process(7, "qemu", hydra=HYDRA, hydra_vm=text)
    done = kernel.run("set", "--vm", *options, 7)
    assert done.returncode == 2 and "have one tree, as under policy linux" in done.stderr
    assert (kernel.proc / "7" / "hydra_vm").read_text() == text


@pytest.mark.parametrize("options, said", [
    (["--follow", "--policy", "hydra"], "one tree"), (["--follow", "--prefetch", "4"], "one tree"),
    (["--expose", "--tree", "7"], "hydractl set --vm"), (["--follow", "--tree", "7"], "hydractl set --vm")])
def test_a_program_cannot_have_what_machines_cannot(qemu, options, said):
    done = qemu.run("run", *options, "--", "true")
    assert done.returncode == 125 and said in done.stderr


@pytest.mark.parametrize("options, settings", [
    (["--follow"], "linux,tables=follow"), (["--expose"], "hydra,domains=node,replication=lazy,prefetch=9,filter=table,expose=on"),
    (["--follow", "--expose", "--policy", "linux"], "linux,tables=follow,expose=on")])
def test_a_program_is_given_what_its_machines_are_to_have(qemu, options, settings):
    """The faked kernel takes no settings of the new size, so the refusal says what was asked for."""
    done = qemu.run("run", *options, "--", "true", preexec_fn=ACCEPTS)
    assert done.returncode == 125 and f"'{settings}'" in done.stderr


def test_settings_of_a_process_keep_what_is_for_machines(kernel):
    kernel.process(7, hydra=HYDRA + "tables stay\nexpose on\n")
    done = kernel.run("set", "--prefetch", "4", 7)
    assert done.returncode == 0, done.stderr
    assert kernel.text(7) == "hydra,domains=node,replication=lazy,prefetch=4,filter=table,expose=on"
