# SPDX-License-Identifier: GPL-2.0-only
"""guest_walks.py: page walks through a faked memory of a virtual machine."""
import pytest

from lab.measure import guest_walks

SMALL, NODE = 4096, guest_walks.NODE_MIB << 20
ROOT, UPPER, MIDDLE, LEAF = (number * SMALL for number in (1, 2, 3, 4))
DATA = NODE + 5 * SMALL      # on node 1
ADDRESS = 0x7f0000203000     # entry 3 of its leaf table


@pytest.fixture
def memory():
    """Four levels that lead to one page; all tables are on node 0."""
    made = bytearray(8 * SMALL)
    for table, level, target in ((ROOT, 4, UPPER), (UPPER, 3, MIDDLE), (MIDDLE, 2, LEAF), (LEAF, 1, DATA)):
        place = table + (ADDRESS >> 12 + 9 * (level - 1)) % 512 * 8
        made[place:place + 8] = (target | 1 << 63 | 0x67).to_bytes(8, "little")
    return made


def test_a_walk_finds_the_leaf_table_and_the_page(memory):
    assert guest_walks.leaf(memory, ROOT | 0xfff, 4, ADDRESS) == (LEAF, DATA)


@pytest.mark.parametrize("spoilt, entry", [(LEAF, 0), (MIDDLE, LEAF | 0x81)])
def test_no_page_or_a_huge_one_is_an_error(memory, spoilt, entry):
    level = {LEAF: 1, MIDDLE: 2}[spoilt]
    place = spoilt + (ADDRESS >> 12 + 9 * (level - 1)) % 512 * 8
    memory[place:place + 8] = entry.to_bytes(8, "little")
    with pytest.raises(guest_walks.Failure, match="no small page"):
        guest_walks.leaf(memory, ROOT, 4, ADDRESS)


@pytest.mark.parametrize("node, where, kind", [(0, 0, "ll"), (0, 1, "lr"), (1, 1, "rl"), (1, 0, "rr")])
def test_a_page_is_counted_by_both_tables(memory, node, where, kind):
    counts = guest_walks.count(memory, (ROOT, 4), ADDRESS, 1, None, node, {(None, DATA >> 21): where}, [0] * 8)
    assert counts == {"ll": 0, "lr": 0, "rl": 0, "rr": 0, kind: 1}


def test_a_page_without_a_nested_table_is_an_error(memory):
    with pytest.raises(guest_walks.Failure, match="no nested table"):
        guest_walks.count(memory, (ROOT, 4), ADDRESS, 1, 2, 0, {(None, DATA >> 21): 0}, [0] * 8)


def test_guest_tables_anywhere_are_counted_by_the_hosts_nodes(memory):
    nodes = [0, 0, 0, 0, 2, 0, 0, 0]
    assert guest_walks.count(memory, (ROOT, 4), ADDRESS, 1, None, 2, {(None, DATA >> 21): 2}, nodes)["ll"] == 1


class Libc:
    """move_pages() as of a process with pages on nodes 3 and 1, and one page that is not there."""
    status = 0

    def syscall(self, number, pid, count, addresses, nodes, found, flags):
        assert (number, pid, count.value, nodes, flags) == (guest_walks.MOVE_PAGES, 7, 3, None, 0)
        assert list(addresses) == [0x7f0000000000 + 4096 * page for page in range(3)]
        found[:] = (3, 1, -2)
        return self.status


@pytest.fixture
def monitor():
    class Monitor:
        def ask(self, _name, **arguments):
            assert arguments["command-line"] == "gpa2hva 0"
            return "Host virtual address for 0x0 (pc.ram) is 0x7f0000000000\r\n"
    return Monitor()


def test_nodes_of_the_hosts_pages(monkeypatch, monitor):
    monkeypatch.setattr(guest_walks.ctypes, "CDLL", lambda *_names, **_options: Libc())
    assert list(guest_walks.host_nodes(monitor, 7, 3)) == [3, 1, -2]
    monkeypatch.setattr(Libc, "status", -1)
    with pytest.raises(guest_walks.Failure, match="move_pages"):
        guest_walks.host_nodes(monitor, 7, 3)


@pytest.mark.parametrize("more, wanted, unwanted", [
    ((), ["node,nodeid=3"], ["hydra_groups"]), (("--groups", "pv"), ["hydra_groups=pv", "uniform hydra stay"], ["nodeid"]),
    (("--groups", "0/1/2/3", "--rotate"), ["hydra_groups=0/1/2/3", "uniform hydra rotate"], ["nodeid"])])
def test_the_machine_sees_its_nodes_or_groups_its_cpus(more, wanted, unwanted):
    words = ["--what", "uniform", "--inner", "hydra", "--nodes", "4", *(f"--{name}=x" for name in ("image", "initrd", "processor", "parameters")), *more]
    said = " ".join(guest_walks.command(guest_walks.arguments(words), "/there"))
    assert all(word in said for word in wanted) and not any(word in said for word in unwanted)


def test_nested_leaf_tables_of_the_map(tmp_path, monkeypatch):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "hydra_vm_map").write_text("vm 0\ndomain - gfn 0x0 level 4 node 0 entries 2\ndomain - gfn 0x600 level 1 node 2 entries 9\n"
                                                 "domain 3 gfn 0x600 level 1 node 3 entries 512\n", encoding="ascii")
    monkeypatch.setattr(guest_walks.pathlib, "Path", lambda name: tmp_path / name.removeprefix("/proc/"))
    assert guest_walks.nested_leaves(7) == {(None, 3): 2, (3, 3): 3}


def test_roots_and_levels_are_read_from_the_monitor():
    class Monitor:
        def registers(self):
            return "CPU#0\nCR0=80050033 CR2=0 CR3=0000000001234000 CR4=000006f0\nCPU#1\nCR0=80050033 CR2=0 CR3=0000000005678fff CR4=000016f0\n"
    assert guest_walks.roots(Monitor()) == [(0x1234000, 4), (0x5678fff, 5)]
