# SPDX-License-Identifier: GPL-2.0-only
"""hydractl walks: a faked monitor, and page tables of a guest in the memory of this process, which stands in for QEMU's."""
import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

PAGE, AREA = 4096, 2 << 20
PRESENT, HUGE, NO_EXECUTE = 0x67, 0x80, 1 << 63
ROOT, UPPER, MIDDLE, ROOT5, ISOLATED, LEAF = (AREA + number * PAGE for number in range(1, 7))
DATA, HUGE_DATA = 3 * AREA, 4 * AREA          # small pages, and a huge page
ADDRESS = 0x7f0000000000                      # 512 small pages; after them, the huge page
PR_SET_PTRACER, ANY = 0x59616d61, ctypes.c_ulong(-1)

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
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
        self.memory = ctypes.create_string_buffer(3 * AREA)
        self.start = (ctypes.addressof(self.memory) + PAGE - 1) // PAGE * PAGE
        self.roots, self.cr4, self.efer = [ROOT, ROOT], 0x6f0, 0xd01
        self.asked, self.running, self.refuse, self.mute = [], True, "", False
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
            # A program that ends early resets the connection.
            with contextlib.suppress(OSError), client, client.makefile("rw", encoding="utf-8") as file:
                def say(what, file=file):
                    file.write(json.dumps(what) + "\r\n")
                    file.flush()
                if self.mute:
                    file.read()
                    continue
                say({"QMP": {"version": {}, "capabilities": []}})
                for line in file:
                    request = json.loads(line)
                    name, more = request["execute"], request.get("arguments", {}).get("command-line", "")
                    self.asked.append(more or name)
                    same = {"id": request["id"]} if "id" in request else {}
                    if self.refuse and self.refuse in (more or name):
                        say({"error": {"class": "GenericError", "desc": "not today"}, **same})
                    else:
                        say({"event": "SOMETHING", "data": {}})
                        say({"return": self.answer(name, more), **same})

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
def qemu(kernel, tmp_path):
    """Two virtual CPUs, on the nodes 0 and 1 of the host, with the same page table loaded; all memory of the guest is on the host's node 0."""
    machine = Qemu(tmp_path)
    small, huge = DATA // PAGE, HUGE_DATA // PAGE
    own = tree(0, 0, 2) + nested(0, 0, small, huge) + tree(1, 1, 2) + nested(1, 1, small, huge)
    kernel.process(os.getpid(), "qemu", hydra="", hydra_vm_tables=TABLES, hydra_vm_map="vm 0\n" + own)
    kernel.threads(os.getpid(), 1, 2)
    machine.map = kernel.proc / str(os.getpid()) / "hydra_vm_map"
    machine.small, machine.huge = small, huge
    machine.run = lambda *options: kernel.run("walks", "--monitor", machine.path, *options, os.getpid())

    def domains(*options):
        done = machine.run("--json", *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["per_domain"]
    machine.domains = domains
    yield machine
    machine.socket.close()


def places(domain):
    return [domain[key] for key in ("local_local", "local_remote", "remote_local", "remote_remote", "unmapped")]


def test_pages_are_counted_by_both_tables(qemu):
    first, second = qemu.domains()
    assert (first["domain"], first["node"], first["vcpus"], first["page_tables"], first["pages"]) == (0, 0, 1, 1, 1024)
    assert places(first) == [1024, 0, 0, 0, 0] and places(second) == [0, 0, 1024, 0, 0]


def test_one_tree_for_all(qemu):
    qemu.map.write_text("vm 0\n" + tree("-", 0, 2) + nested("-", 0, qemu.small) + nested("-", 1, qemu.huge))
    first, second = qemu.domains()
    assert places(first) == [512, 512, 0, 0, 0] and places(second) == [0, 0, 512, 512, 0]


def test_the_tree_with_more_entries_counts(qemu):
    """System management mode has a tree of its own, with the same numbers."""
    for text in (tree("-", 1, 1) + nested("-", 1, qemu.small, entries=3), ""), ("", tree("-", 1, 1) + nested("-", 1, qemu.small, entries=3)):
        qemu.map.write_text("vm 0\n" + text[0] + tree("-", 0, 2) + nested("-", 0, qemu.small, qemu.huge) + text[1])
        assert places(qemu.domains()[0]) == [1024, 0, 0, 0, 0]


def test_pages_without_a_nested_entry(qemu):
    """No table, and an empty one."""
    qemu.map.write_text("vm 0\n" + tree("-", 0, 1) + nested("-", 0, qemu.small, entries=0))
    assert places(qemu.domains()[0]) == [0, 0, 0, 0, 1024]


def test_nested_huge_pages(qemu):
    """The last entry is in the table of level 2, which has an entry more than there are tables below."""
    qemu.map.write_text("vm 0\n" + tree("-", 1, 2) + nested("-", 0, qemu.small))
    assert places(qemu.domains()[0]) == [512, 512, 0, 0, 0]


def test_a_range_of_addresses(qemu):
    first, _ = qemu.domains("--range", f"{ADDRESS + 5 * PAGE:x}-{ADDRESS + 8 * PAGE:x}")
    assert first["pages"] == 3
    assert qemu.domains("--range", f"0-{ADDRESS:x}")[0]["pages"] == 0


def test_a_range_within_a_huge_page(qemu):
    start = ADDRESS + AREA + 7 * PAGE
    assert qemu.domains("--range", f"{start:x}-{start + 2 * PAGE + 1:x}")[0]["pages"] == 3
    assert qemu.domains("--range", f"{ADDRESS + AREA - PAGE:x}-{ADDRESS + AREA + PAGE:x}")[0]["pages"] == 2


def test_the_two_roots_of_a_program_count_once(qemu, kernel):
    """Page-table isolation: the kernel's root has the same tables, which it may not execute."""
    qemu.enter(ISOLATED, 254, UPPER | PRESENT | NO_EXECUTE)
    qemu.enter(ISOLATED, 256, UPPER | PRESENT)
    qemu.roots = [ROOT, ISOLATED]
    (kernel.hydra / "domains").write_text("0 node 0 cpus 0-3\n")
    (only,) = qemu.domains()
    assert (only["vcpus"], only["page_tables"], only["pages"]) == (2, 1, 1024)
    qemu.enter(ISOLATED, 253, UPPER | PRESENT)
    (only,) = qemu.domains()
    assert (only["page_tables"], only["pages"]) == (2, 3 * 1024)


def test_five_levels(qemu):
    qemu.enter(ROOT5, 0, ROOT | PRESENT)
    qemu.roots, qemu.cr4 = [ROOT5 | 0x800] * 2, 0x16f0
    # Both halves of the fourth level, and no half of the fifth
    assert qemu.domains()[0]["pages"] == 2 * 1024
    assert qemu.domains("--range", f"0-{1 << 47:x}")[0]["pages"] == 1024


def test_cpus_that_are_not_in_64_bit_mode_are_left_out(qemu):
    qemu.efer = 0
    done = qemu.run()
    assert done.returncode == 0 and "2 virtual CPUs are not in 64-bit mode" in done.stdout


def test_a_table_where_no_memory_is_leads_nowhere(qemu):
    qemu.enter(MIDDLE, 0, 5 * AREA | PRESENT)
    assert qemu.domains()[0]["pages"] == 512


def test_the_table_for_people(qemu):
    lines = [line.split() for line in qemu.run().stdout.splitlines()]
    assert lines[0] == ["process", str(os.getpid()), "(qemu)"]
    assert lines[2][:5] == ["DOMAIN", "NODE", "VCPUS", "PAGES", "LOCAL-LOCAL"]
    assert lines[3][:6] == ["0", "0", "1", "1024", "100.0", "%"] and lines[4][4:6] == ["0.0", "%"]


def test_each_area_is_asked_for_once(qemu):
    """For its first and its last page."""
    qemu.domains()
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
    assert qemu.domains()[0]["pages"] == 1024


@pytest.mark.parametrize("options, changes", [((), []), (("--stop",), ["stop", "cont"])])
def test_the_machine_is_stopped_only_if_asked_for(qemu, options, changes):
    qemu.domains(*options)
    assert [asked for asked in qemu.asked if asked in ("stop", "cont")] == changes and qemu.running


def test_a_stopped_machine_stays_stopped(qemu):
    qemu.running = False
    qemu.domains("--stop")
    assert not qemu.running


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("refuse", ["info registers", "gpa2hva"])
def test_after_an_error_the_machine_goes_on(qemu, refuse):
    qemu.refuse = refuse
    done = qemu.run("--stop")
    assert done.returncode == 2 and "not today" in done.stderr and not done.stdout
    assert qemu.running and "stop" in qemu.asked


@pytest.mark.parametrize("words, message", [
    ([], "give the machine's monitor"), (["--monitor", "x", "--range", "12"], "no range"), (["--monitor", "x", "--range", "20-10"], "no end of a range"),
    (["--monitor", "x", "--range", "z-10"], "no range"), (["--monitor", "/nowhere/monitor"], "cannot connect"), (["--monitor", "x" * 200], "too long")])
def test_wrong_words(qemu, kernel, words, message):
    done = kernel.run("walks", *words, os.getpid())
    assert done.returncode == 2 and message in done.stderr and not done.stdout


def test_the_monitor_of_another_machine(qemu):
    qemu.vcpus = (1, 2)
    done = qemu.run()
    assert done.returncode == 2 and "not that of process" in done.stderr


@pytest.mark.parametrize("text, message", [
    ("vm 0\nvm 1\n", "has 2 virtual machines"), ("", "has no virtual machine"), ("vm 0\ndomain 0 gfn 0x0 level 9 node 0 entries 1\n", "without its domain"),
    ("vm 0\ndomain 0 gfn zz level 1 node 0 entries 1\n", "without its domain"), ("vm 0\ndomain x gfn 0x0 level 1 node 0 entries 1\n", "without its domain"),
    ("vm 0\ndomain 0 gfn 0x0 level 1 node 0\n", "without its domain")])
def test_maps_that_say_too_little(qemu, text, message):
    (qemu.map.parent / "hydra_vm").write_text("vm 0\n")
    qemu.map.write_text(text)
    done = qemu.run()
    assert done.returncode == 2 and message in done.stderr


def test_a_machine_that_answers_late_goes_on(qemu):
    answer = qemu.answer

    def answer_late(name, more):
        if more == "info registers -a":
            time.sleep(11)
        return answer(name, more)
    qemu.answer = answer_late
    done = qemu.run("--stop")
    assert done.returncode == 2 and "no answer in ten seconds\n" in done.stderr and "still be stopped" not in done.stderr
    assert qemu.running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGTSTP])
def test_signals_wait_until_the_machine_goes_on(qemu, kernel, number):
    slow, answer = threading.Event(), qemu.answer

    def answer_late(name, more):
        if more == "info registers -a":
            slow.wait(30)
        return answer(name, more)
    qemu.answer = answer_late
    # A shell starts programs in the background with SIGINT and SIGQUIT ignored, and these tests inherit that.
    with subprocess.Popen([kernel.program, "walks", "--monitor", qemu.path, "--stop", str(os.getpid())], env=kernel.environment(),
                          stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as child:
        assert wait_until(lambda: "info registers -a" in qemu.asked) and not qemu.running
        child.send_signal(number)
        slow.set()
        assert wait_until(lambda: qemu.running)
        child.send_signal(signal.SIGCONT)
        child.wait(30)
    assert child.returncode == (0 if number == signal.SIGTSTP else -number)


def test_a_refusal_to_go_on_is_told(qemu):
    qemu.refuse = "cont"
    done = qemu.run("--stop")
    assert done.returncode == 2 and "may still be stopped" in done.stderr


def test_a_monitor_that_another_program_uses(qemu):
    qemu.mute = True
    done = qemu.run()
    assert done.returncode == 2 and "one program at a time" in done.stderr


def test_a_socket_of_something_else(kernel, qemu, tmp_path):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other"))
        other.listen()

        def greet(text):
            client, _ = other.accept()
            with client:
                client.sendall(text)
        for text, message in ((b"hello\n", "not of QEMU's machine protocol"), (b"{}\n", "not a monitor"), (b"", "connection ended")):
            thread = threading.Thread(target=greet, args=(text,))
            thread.start()
            done = kernel.run("walks", "--monitor", tmp_path / "other", os.getpid())
            thread.join()
            assert done.returncode == 2 and message in done.stderr


def test_no_such_process(kernel, qemu):
    done = kernel.run("walks", "--monitor", qemu.path, 99)
    assert done.returncode == 2 and "no process 99" in done.stderr


def test_a_machine_that_does_not_go_on_is_told(qemu):
    qemu.refuse = "gpa2hva"
    answer = qemu.answer

    def answer_and_end(name, more):
        if name == "cont":
            raise OSError
        return answer(name, more)
    qemu.answer = answer_and_end
    done = qemu.run("--stop")
    assert done.returncode == 2 and "may still be stopped" in done.stderr
