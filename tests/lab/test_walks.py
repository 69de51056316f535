# SPDX-License-Identifier: GPL-2.0-only
"""guest_walks.py: the machine that it starts, and the walks that it counts, by a faked monitor; this process stands in for QEMU, and has
the page tables of a guest in its memory."""
import contextlib
import ctypes
import json
import os
import re
import socket
import threading

import pytest

from lab.guest import guest_walks

PAGE, AREA = 4096, 2 << 20
PRESENT, HUGE, NO_EXECUTE = 0x67, 0x80, 1 << 63
ROOT, UPPER, MIDDLE, ROOT5, LEAF = (AREA + number * PAGE for number in range(1, 6))
DATA, HUGE_DATA = 3 * AREA, 4 * AREA          # small pages, and a huge page
ADDRESS = 0x7f0000000000                      # 512 small pages; after them, the huge page

TABLES = """\
vm 0
domain 0 node 0 vcpus 1 local_leaves 9 remote_leaves 9
domain 1 node 1 vcpus 1 local_leaves 9 remote_leaves 9
node 0 nested_tables 9 nested_kib 36
"""


def nested(domain, node, *gfns, level=1, entries=512):
    return "".join(f"domain {domain} gfn {gfn:#x} level {level} node {node} entries {entries}\n" for gfn in gfns)


def tree(domain, node, children):
    """The upper tables of a tree; the table of level 2 has so many entries."""
    return nested(domain, node, 0, level=4, entries=1) + nested(domain, node, 0, level=3, entries=1) + nested(domain, node, 0, level=2, entries=children)


class Qemu:
    """The guest's memory, from 0 on, and a monitor that serves one program at a time."""

    def __init__(self, directory):
        self.memory = ctypes.create_string_buffer(3 * AREA)
        self.start = (ctypes.addressof(self.memory) + PAGE - 1) // PAGE * PAGE
        self.roots, self.cr4, self.efer = [ROOT, ROOT], 0x6f0, 0xd01
        self.asked, self.running, self.refuse = [], True, ""
        self.vcpus = (os.getpid(), os.getpid() + 1)
        for table, entry, target in ((ROOT, 254, UPPER), (UPPER, 0, MIDDLE), (MIDDLE, 0, LEAF)):
            self.enter(table, entry, target | PRESENT)
        self.enter(MIDDLE, 1, HUGE_DATA | HUGE | 1 << 12 | PRESENT)
        for page in range(512):
            self.enter(LEAF, page, (DATA + page * PAGE) | NO_EXECUTE | PRESENT)
        # The kernel's half, and an entry that is not present
        self.enter(ROOT, 256, UPPER | PRESENT)
        self.enter(MIDDLE, 7, HUGE_DATA & ~PRESENT)
        self.path = str(directory / "monitor")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def enter(self, table, entry, value):
        ctypes.c_uint64.from_address(self.start + table + 8 * entry).value = value

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), client, client.makefile("rw", encoding="utf-8") as file:
                def say(what, file=file):
                    file.write(json.dumps(what) + "\r\n")
                    file.flush()
                say({"QMP": {"version": {}, "capabilities": []}})
                for line in file:
                    request = json.loads(line)
                    name, more = request["execute"], request.get("arguments", {}).get("command-line", "")
                    self.asked.append(more or name)
                    if self.refuse and self.refuse in (more or name):
                        say({"error": {"class": "GenericError", "desc": "not today"}})
                    else:
                        say({"event": "SOMETHING", "data": {}})
                        say({"return": self.answer(name, more)})

    def answer(self, name, more):
        if name in ("stop", "cont"):
            self.running = name == "cont"
        if name == "query-status":
            return {"running": self.running, "status": "running" if self.running else "paused"}
        if name == "query-cpus-fast":
            return [{"cpu-index": index, "thread-id": thread, "qom-path": "x"} for index, thread in enumerate(self.vcpus)]
        if more == "info registers -a":
            return "".join(f"\r\nCPU#{index}\r\nRAX=0000000000000000 CR=1\r\nCR0=80050033 CR2=00007f0000000000 CR3={self.roots[index]:016x} CR4={self.cr4:08x}\r\n"
                           f"EFER={self.efer:016x}\r\n" for index in (0, 1))
        if found := re.match("gpa2hva 0x([0-9a-f]+)", more):
            address = int(found[1], 16)
            if address >= 2 * AREA:
                return f"Error: No memory is mapped at address {address:#x}\r\n"
            return f"Host virtual address for {address:#x} (pc.ram) is {self.start + address:#x}\r\n"
        return {}


@pytest.fixture
def qemu(monkeypatch, tmp_path):
    """Two virtual CPUs, on the nodes 0 and 1 of the host, with the same page table loaded; all memory of the guest is on the host's node 0."""
    machine = Qemu(tmp_path)
    small, huge = DATA // PAGE, HUGE_DATA // PAGE
    process = tmp_path / "proc" / str(os.getpid())
    for cpu, thread in enumerate(machine.vcpus, 1):
        (process / "task" / str(thread)).mkdir(parents=True)
        (process / "task" / str(thread) / "stat").write_text(f"{thread} (a) b) S" + 35 * " 1" + f" {cpu} 0 0\n")
    (process / "mem").symlink_to("/proc/self/mem")
    (process / "hydra_vm_tables").write_text(TABLES)
    (tmp_path / "domains").write_text("0 node 0 cpus 0-1\n1 node 1 cpus 2-3\n")
    monkeypatch.setattr(guest_walks.guest_inner, "PROC", tmp_path / "proc")
    monkeypatch.setattr(guest_walks, "DOMAINS", tmp_path / "domains")
    machine.map, machine.small, machine.huge = process / "hydra_vm_map", small, huge
    machine.map.write_text("vm 0\n" + tree(0, 0, 2) + nested(0, 0, small, huge) + tree(1, 1, 2) + nested(1, 1, small, huge))

    def look(start=0, end=1 << 56):
        return guest_walks.look(guest_walks.guest_inner.Monitor(machine.path), os.getpid(), range(start, end))
    machine.look = look
    yield machine
    machine.socket.close()


def places(walk):
    return [walk.pages[key] for key in ("ll", "lr", "rl", "rr", "unmapped")]


def total(walk):
    return sum(walk.pages.values())


def test_pages_are_counted_by_both_tables(qemu):
    first, second = qemu.look()
    assert [(walk.domain, walk.node, walk.vcpus, total(walk)) for walk in (first, second)] == [("0", 0, 1, 1024), ("1", 1, 1, 1024)]
    assert places(first) == [1024, 0, 0, 0, 0] and places(second) == [0, 0, 1024, 0, 0]


def test_one_tree_for_all(qemu):
    qemu.map.write_text("vm 0\n" + tree("-", 0, 2) + nested("-", 0, qemu.small) + nested("-", 1, qemu.huge))
    first, second = qemu.look()
    assert places(first) == [512, 512, 0, 0, 0] and places(second) == [0, 0, 512, 512, 0]


def test_the_tree_with_more_entries_counts(qemu):
    """System management mode has a tree of its own, with the same numbers."""
    for text in (tree("-", 1, 1) + nested("-", 1, qemu.small, entries=3), ""), ("", tree("-", 1, 1) + nested("-", 1, qemu.small, entries=3)):
        qemu.map.write_text("vm 0\n" + text[0] + tree("-", 0, 2) + nested("-", 0, qemu.small, qemu.huge) + text[1])
        assert places(qemu.look()[0]) == [1024, 0, 0, 0, 0]


def test_pages_without_a_nested_entry(qemu):
    """No table, and an empty one."""
    qemu.map.write_text("vm 0\n" + tree("-", 0, 1) + nested("-", 0, qemu.small, entries=0))
    assert places(qemu.look()[0]) == [0, 0, 0, 0, 1024]


def test_nested_huge_pages(qemu):
    """The last entry is in the table of level 2, which has an entry more than there are tables below."""
    qemu.map.write_text("vm 0\n" + tree("-", 1, 2) + nested("-", 0, qemu.small))
    assert places(qemu.look()[0]) == [512, 512, 0, 0, 0]


@pytest.mark.parametrize("start, end, pages", [(ADDRESS + 5 * PAGE, ADDRESS + 8 * PAGE, 3), (0, ADDRESS, 0),
                                               (ADDRESS + AREA + 7 * PAGE, ADDRESS + AREA + 10 * PAGE, 3), (ADDRESS + AREA - PAGE, ADDRESS + AREA + PAGE, 2)])
def test_a_range_of_addresses(qemu, start, end, pages):
    """Also within the huge page"""
    assert [total(walk) for walk in qemu.look(start, end)] == [pages, pages]


def test_five_levels(qemu):
    qemu.enter(ROOT5, 0, ROOT | PRESENT)
    qemu.roots, qemu.cr4 = [ROOT5 | 0x800] * 2, 0x16f0
    # Both halves of the fourth level, and no half of the fifth
    assert total(qemu.look()[0]) == 2 * 1024
    assert total(qemu.look(0, 1 << 47)[0]) == 1024


def test_cpus_that_are_not_in_64_bit_mode_are_left_out(qemu):
    qemu.efer = 0
    assert [(walk.vcpus, total(walk)) for walk in qemu.look()] == [(1, 0)] * 2


def test_a_table_where_no_memory_is_leads_nowhere(qemu):
    qemu.enter(MIDDLE, 0, 5 * AREA | PRESENT)
    assert total(qemu.look()[0]) == 512


def test_each_area_is_asked_for_once(qemu):
    """For its first and its last page."""
    qemu.look()
    assert [asked for asked in qemu.asked if asked.startswith("gpa2hva")] == [f"gpa2hva {AREA:#x}", f"gpa2hva {2 * AREA - PAGE:#x}"]


def test_an_area_in_two_pieces_is_asked_for_by_page(qemu):
    """The last level is in another piece of the process's memory, which does not follow the first."""
    other = ctypes.create_string_buffer(2 * PAGE)
    place = (ctypes.addressof(other) + PAGE - 1) // PAGE * PAGE
    ctypes.memmove(place, qemu.start + LEAF, PAGE)
    for page in range(512):
        qemu.enter(LEAF, page, 0)
    answer = qemu.answer

    def answer_in_pieces(name, more):
        if more.startswith("gpa2hva") and int(more.split()[1], 16) >= LEAF:
            return f"Host virtual address for {more.split()[1]} (other) is {place + int(more.split()[1], 16) - LEAF:#x}\r\n"
        return answer(name, more)
    qemu.answer = answer_in_pieces
    assert total(qemu.look()[0]) == 1024


def test_the_machine_stands_still_meanwhile(qemu):
    answer, running = qemu.answer, set()

    def answer_and_note(name, more):
        if more:
            running.add(qemu.running)
        return answer(name, more)
    qemu.answer = answer_and_note
    qemu.look()
    assert running == {False} and qemu.running


@pytest.mark.parametrize("refuse", ["info registers", "gpa2hva", "cont"])
def test_a_refusal_is_told(qemu, refuse):
    qemu.refuse = refuse
    with pytest.raises(guest_walks.guest_inner.Failure, match="not today"):
        qemu.look()


def test_a_machine_that_stays_stopped_is_told(qemu):
    answer = qemu.answer
    qemu.answer = lambda name, more: {} if name == "cont" else answer(name, more)
    with pytest.raises(guest_walks.guest_inner.Failure, match="stays stopped"):
        qemu.look()


def test_the_monitor_of_another_machine(qemu):
    qemu.vcpus = (1, 2)
    with pytest.raises(FileNotFoundError):
        qemu.look()


@pytest.mark.parametrize("text", ["vm 0\nvm 1\n", "", "domain 0 gfn 0x0 level 1 node 0 entries 1\n"])
def test_another_number_of_machines(qemu, text):
    qemu.map.write_text(text)
    with pytest.raises(guest_walks.guest_inner.Failure, match="hydra_vm_map: not one virtual machine"):
        qemu.look()


@pytest.mark.parametrize("text", ["domain 0 gfn zz level 1 node 0 entries 1", "domain 0 gfn 0x0 level 1 node 0"])
def test_maps_that_say_too_little(qemu, text):
    qemu.map.write_text(f"vm 0\n{text}\n")
    with pytest.raises((KeyError, ValueError)):
        qemu.look()


def looked_at(**different):
    """Of two nodes"""
    walks = [guest_walks.Walks(None, None, str(node), node, None) for node in (0, 1)]
    for walk in walks:
        walk.vcpus = 1
        walk.pages.update(ll=1, lr=2, rl=3, rr=4)
    walks[1].node, walks[1].vcpus = different.pop("node", 1), different.pop("vcpus", 1)
    walks[1].pages.update(different)
    return walks


def test_what_is_seen_is_told_by_node():
    assert guest_walks.seen(looked_at(ll=2, rr=-2), 2, 10) == [{"ll": 1, "lr": 2, "rl": 3, "rr": 4}, {"ll": 3, "lr": 2, "rl": 3, "rr": 2}]


@pytest.mark.parametrize("different", [{"vcpus": 2}, {"ll": -1}, {"unmapped": 1, "ll": -1}, {"node": 2}])
def test_another_machine_than_expected_is_an_error(different):
    with pytest.raises(guest_walks.guest_inner.Failure, match="2 nodes"):
        guest_walks.seen(looked_at(**different), 2, 10)


@pytest.mark.parametrize("more, wanted, unwanted", [
    ((), ["node,nodeid=3"], ["hydra_groups"]), (("--groups", "pv"), ["hydra_groups=pv", "uniform hydra stay"], ["nodeid"]),
    (("--groups", "0/1/2/3", "--rotate"), ["hydra_groups=0/1/2/3", "uniform hydra rotate"], ["nodeid"])])
def test_the_machine_sees_its_nodes_or_groups_its_cpus(more, wanted, unwanted):
    words = ["--what", "uniform", "--inner", "hydra", "--nodes", "4", *(f"--{name}=x" for name in ("image", "initrd", "processor", "parameters")), *more]
    said = " ".join(guest_walks.command(guest_walks.arguments(words), "/there"))
    assert all(word in said for word in wanted) and not any(word in said for word in unwanted)


class Inner:
    """A machine that has 1000 interrupts and 3000 exits in 1000 munmaps, and 5 exits each second besides."""

    def __init__(self):
        out, self.said = os.pipe()
        self.clock, self.exits, self.stdin, self.stdout = 100.0, 7, self, os.fdopen(out, "rb", buffering=0)

    def sleep(self, seconds):
        self.clock += seconds
        self.exits += 5 * seconds

    def write(self, words):
        assert words == b"\n"
        self.sleep(4)
        self.exits += 3000
        os.write(self.said, b"\r\nwalks: munmaps 1000 interrupts 1000\r\n")

    def flush(self):
        pass

    def poll(self):
        return None

    def ask(self, name, **_arguments):
        assert name == "query-stats"
        return [{"provider": "kvm", "stats": [{"name": "exits", "value": value}]} for value in (self.exits - 1, 1)]


def test_exits_of_munmaps_are_without_those_of_the_clocks(monkeypatch):
    inner = Inner()
    monkeypatch.setattr(guest_walks.time, "sleep", inner.sleep)
    monkeypatch.setattr(guest_walks.time, "monotonic", lambda: inner.clock)
    assert guest_walks.munmaps(inner, inner) == {"interrupts_per_munmap": 1.0, "exits_per_munmap": 3.0}


TAKEN = """[   24.830001]  asm_sysvec_call_function+0x1b/0x20
[   24.830001] RIP: 0010:{place}/0x20
[   24.830001] Code: e8 f5 <0f> 01 ca
[   24.830001] RSP: 0000:fffffe000003dfd8 EFLAGS: {flags}
"""


@pytest.mark.parametrize("place, flags, impossible", [("asm_sysvec_call_function+0x0", "00000002", True), ("asm_sysvec_call_function+0x0", "00000246", False),
                                                      ("native_safe_halt+0x0", "00000002", False), ("asm_sysvec_call_function+0xb", "00000002", False)])
def test_an_interrupt_where_none_can_come_is_the_emulators(place, flags, impossible):
    assert guest_walks.guest_inner.taken_while_off(TAKEN.format(place=place, flags=flags)) == impossible
