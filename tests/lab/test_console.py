# SPDX-License-Identifier: GPL-2.0-only
"""What in a kernel's console counts as trouble, and what does not."""
import types

import pytest

from lab.machine import console, vm

HEALTHY = """\
[    0.000000] Linux version 6.12.117 (hydra@lab)
[    0.477419] Performance Events: PMU not available due to virtualization, using software events only.
[    9.731698] hrtimer: interrupt took 12901720 ns
[    9.800000] Out of memory: Killed process 12 (test) total-vm:100kB
[   10.000000] test[99]: segfault at 7f00 ip 0000000000401136 sp 00007ffd error 6 in test[401000+1000]
[   11.000000] traps: test[100] general protection fault ip:401136 sp:7ffd error:0 in test[401000+1000]
[   12.000000] traps: test[101] trap invalid opcode ip:401136 sp:7ffd error:0 in test[401000+1000]
"""


@pytest.mark.parametrize("line, name", [
    ("Kernel panic - not syncing: sysrq triggered crash", "kernel panic"),
    ("BUG: kernel NULL pointer dereference, address: 0000000000000000", "kernel crash"),
    ("BUG: unable to handle page fault for address: ffff888100000000", "kernel crash"),
    ("Oops: Oops: 0002 [#1] SMP", "kernel crash"),
    ("Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP", "kernel crash"),
    ("general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP", "kernel crash"),
    ("general protection fault: 0000 [#1] SMP", "kernel crash"),
    ("kernel BUG at arch/x86/mm/hydra/fill.c:12!", "kernel crash"),
    ("watchdog: BUG: soft lockup - CPU#3 stuck for 131s! [race:77]", "kernel hang"),
    ("watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3", "kernel hang"),
    ("INFO: task race:77 blocked for more than 241 seconds.", "kernel hang"),
    ("rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", "kernel hang"),
    ("rcu: INFO: rcu_preempt self-detected stall on CPU", "kernel hang"),
    ("WARNING: possible circular locking dependency detected", "locking error"),
    ("WARNING: possible recursive locking detected", "locking error"),
    ("WARNING: suspicious RCU usage", "locking error"),
    ("BUG: sleeping function called from invalid context at mm/page_alloc.c:1", "locking error"),
    ("BUG: Bad page state in process test  pfn:12345", "memory error"),
    ("BUG: Bad rss-counter state mm:0000000012345678 type:MM_ANONPAGES val:1", "memory error"),
    ("BUG: non-zero pgtables_bytes on freeing mm: 4096", "memory error"),
    ("BUG kmalloc-64 (Not tainted): Redzone overwritten", "memory error"),
    ("hydra: 2 violations in race[77] at exit", "Hydra invariant violated"),
    ("WARNING: CPU: 2 PID: 0 at arch/x86/mm/hydra/fill.c:350 hydra_fill+0x63/0x70", "kernel warning"),
    ("list_del corruption. prev->next should be ff11, but was ff12", "kernel warning"),
])
@pytest.mark.parametrize("stamp", ["[   17.742716] ", "[   17.742716][  T198] ", ""])
def test_trouble_is_seen_and_named(line, name, stamp):
    found = console.trouble(HEALTHY + stamp + line + "\n")
    assert [what for what, _ in found] == [name]
    assert line in console.report(HEALTHY + stamp + line + "\n")


def test_a_healthy_log_is_no_trouble():
    assert console.trouble(HEALTHY) == []
    assert console.report(HEALTHY) == ""


def test_a_report_ends_where_the_kernel_ends_it():
    log = "[ 1.0] WARNING: CPU: 1 PID: 1 at a.c:1\r\n[ 1.1] Call Trace:\r\n[ 1.2] ---[ end trace 0 ]---\r\n[ 1.3] later\r\n"
    (name, lines), = console.trouble(log)
    assert lines[-1].endswith("end trace 0 ]---") and len(lines) == 3


def test_several_reports_and_a_limit():
    log = "".join(f"[ {n}.0] WARNING: CPU: 1 PID: 1 at a.c:{n}\n[ {n}.1] ---[ end trace 0 ]---\n" for n in range(9))
    assert len(console.trouble(log)) == 3


INT3 = """\
[   28.663100] Oops: int3: 0000 [#1] SMP NOPTI
[   28.663401] CPU: 1 UID: 0 PID: 0 Comm: swapper/1 Not tainted 6.12.117 #16
[   28.663537] RIP: 0010:ttwu_do_activate.constprop.0+0x6c/0x150
[   28.663857] Code: c9 00 00 00 83 ca 40 4c 89 e6 {} <70> 49 8b 84 24 a8 02 00 00
"""


def test_a_breakpoint_that_is_gone_is_the_emulators_fault_and_one_that_is_there_is_not():
    assert console.stale_breakpoint(INT3.format("eb"))
    assert not console.stale_breakpoint(INT3.format("cc"))
    assert not console.stale_breakpoint(INT3.format("eb").replace("int3", "general protection fault"))
    assert console.trouble(INT3.format("eb"))


EARLY = """\
[    0.938322] BUG: KASAN: wild-memory-access in do_raw_spin_lock+0x10f/0x240
[    0.938322] Write of size 4 at addr ff110000004940a8 by task swapper/0/0
[    0.938322]  asm_common_interrupt+0x27/0x40
[    0.938322] RIP: 0010:{}+0x2b0/0x1660
"""


def test_an_interrupt_that_came_too_early_is_not_held_against_hydra():
    assert console.early_interrupt(EARLY.format("identify_cpu"))
    assert not console.early_interrupt(EARLY.format("zap_pte_range"))
    # Or in a function that identify_cpu() has called; a line with a question mark is no call
    called = EARLY.format("get_cpu_vendor") + "[    1.224815]  ? get_cpu_vendor+0x65/0x1b0\n[    1.224815]  {}identify_cpu+0x2b8/0x1660\n"
    assert console.early_interrupt(called.format("")) and not console.early_interrupt(called.format("? "))
    assert not console.early_interrupt(EARLY.format("identify_cpu").replace("wild-memory-access", "use-after-free"))
    assert console.trouble(EARLY.format("identify_cpu"))
    assert "KASAN" in console.spoilt(EARLY.format("identify_cpu")) and console.spoilt("") == ""


FLAGS = """[   66.091791] Oops: double fault: 0000 [#1] PREEMPT SMP NOPTI\r
[   66.091791] RIP: 0010:__kmalloc_node_noprof+0x21e/0x450\r
[   66.091791] Code: 65 48 0f c7 0e 0f 85 bb fe ff ff <41> 8b 44 24 28\r
[   66.091791] RSP: 0018:ff62efb880bdfc70 EFLAGS: {}\r
"""


def test_flags_that_no_processor_has_are_the_emulators():
    assert console.impossible_flags(FLAGS.format("00ae7242")) and "flags" in console.spoilt(FLAGS.format("00ae7242"))
    assert not console.impossible_flags(FLAGS.format("00010246")) and console.spoilt(FLAGS.format("00250006")) == ""
    # A program in user mode may have any of its own.
    assert not console.impossible_flags(FLAGS.format("00ae7242").replace("0010:", "0033:"))


def test_what_the_emulator_spoilt_is_done_once_more(monkeypatch):
    logs = [INT3.format("eb"), INT3.format("eb")]
    made = []

    def run(command, machine, timeout, on_output, on_error, image):
        made.append(command)
        on_output(b"run %d\r\n" % len(made))
        return types.SimpleNamespace(console=logs[len(made) - 1])
    monkeypatch.setattr(vm, "run", run)
    assert vm.collect(["true"], None, 1)[1] == "run 2\n" and len(made) == 2
    logs = [INT3.format("cc")]
    made.clear()
    assert vm.collect(["true"], None, 1)[1] == "run 1\n" and len(made) == 1


def test_a_panic_is_seen_anywhere_in_a_log():
    assert console.PANIC.search(HEALTHY + "[    9.000000] Kernel panic - not syncing: Fatal exception\n")
    assert not console.PANIC.search(HEALTHY)
