# SPDX-License-Identifier: GPL-2.0-only
"""--csv beside --json: the same values, a line for each process, or what else the command is about."""
import csv
import io

import pytest

from faked_kernel import HYDRA, under_auto
from test_hydractl import TABLES

VM = "vm 0\npolicy hydra\nactive 1\nvm 1\npolicy linux\nrefused of a protected, \"odd\" type\n"
VM_TABLES = "vm 0\ndomain 0 node 0 vcpus 2\ndomain 1 node 1 vcpus 1\nnode 0 nested_kib 36\n"


def table(kernel, *arguments):
    """The lines as a reader of CSV has them."""
    done = kernel.run(*arguments, "--csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout, newline=""), strict=True))


def plain(value):
    return {key: "" if one is None else str(one).lower() if isinstance(one, bool) else one for key, one in value.items() if not isinstance(one, (list, dict))}


def same(lines, objects):
    """Each line has the values of its object, and no other."""
    return [{key: value for key, value in line.items() if value} for line in lines] == [
        {key: str(value) for key, value in plain(one).items() if value != ""} for one in objects]


@pytest.fixture
def some(kernel):
    """Of 13, which is under policy auto, the kernel tells more."""
    kernel.process(12, 'a,"b"\n', hydra=HYDRA, hydra_tables=TABLES, hydra_check="ok tables 3 entries 4\n")
    kernel.process(13, "größer", hydra=under_auto("split", "saves", gain_ppm=-20))
    return kernel


def test_a_line_for_each_process(some):
    whole = some.json("status")
    processes, outer = whole.pop("processes"), plain(whole)
    lines = table(some, "status")
    assert same(lines, [{**outer, **process, "comm": process["comm"].replace("\n", "\\012")} for process in processes]) and lines[1]["gain_ppm"] == "-20" and lines[0]["gain_ppm"] == ""
    assert lines[0]["comm"] == "a,\"b\"\\012" and lines[1]["comm"] == "größer"


@pytest.mark.parametrize("arguments", [["status", 12], ["check", 12], ["status", "--system"]])
def test_one_line(some, arguments):
    some.process(14, "x", hydra=HYDRA, hydra_check="ok tables 3 entries 4\n")
    arguments = [14 if word == 12 else word for word in arguments]
    assert same(table(some, *arguments), [some.json(*arguments)])


def test_why_has_the_sentence(some):
    lines, objects = table(some, "why", 13), some.json("why", 13)["processes"]
    assert [line["sentence"] for line in lines] == [one["sentence"] for one in objects] and "," in lines[0]["sentence"] and lines[0]["group"] == "process"


def test_tables_and_nodes(some):
    lines = table(some, "tables", 12)
    assert [(line["domain"], line["node"], line["local_leaves"], line["pagetable_kib"]) for line in lines] == [
        ("0", "0", "900", ""), ("1", "1", "0", ""), ("", "0", "", "812"), ("", "1", "", "8")] and {line["pid"] for line in lines} == {"12"}


def test_virtual_machines(kernel):
    kernel.process(7, "qemu", hydra=HYDRA, hydra_vm=VM, hydra_vm_tables=VM_TABLES)
    lines = table(kernel, "vm", 7)
    assert [(line["pid"], line["policy"], line["refused"]) for line in lines] == [("7", "hydra", ""), ("7", "linux", "of a protected, \"odd\" type")]
    assert [(line["domain"], line["node"], line["vcpus"], line["nested_kib"]) for line in table(kernel, "vm", "--tables", 7)] == [
        ("0", "0", "2", ""), ("1", "1", "1", ""), ("", "0", "", "36")]


def test_the_head_stands_once(some):
    lines = table(some, "top", "--delay", "0.1", "--count", "3")
    assert [line["pid"] for line in lines] == 3 * ["12", "13"] and len({line["time"] for line in lines}) == 3


def test_nothing_is_printed_of_no_process(kernel):
    assert table(kernel, "top", "--delay", "0.1", "--count", "2") == [] and kernel.run("status", "--csv").stdout == ""
