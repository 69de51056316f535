# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the machine: makes two virtual machines which nothing runs, and leaves a process behind that holds them.

When the first virtual machine comes and when the last one goes, KVM changes the text of the kernel (static keys: preemption
notifiers, virtual APICs which are disabled or missing). QEMU's emulator now and then executes a breakpoint of such a change that is
gone already, see console.stale_breakpoint(). Tests make and end virtual machines all the time; while others are held, the text stays.
"""
import fcntl
import os
import signal
import sys

CREATE_VM, CREATE_VCPU, CREATE_IRQCHIP = 0xAE01, 0xAE41, 0xAE60      # of <linux/kvm.h>


def make():
    """A virtual machine whose APIC is disabled, and one without an APIC; returns what keeps them."""
    device = os.open("/dev/kvm", os.O_RDWR)
    held = [device]
    for irqchip in (True, False):
        machine = fcntl.ioctl(device, CREATE_VM, 0)
        if irqchip:
            fcntl.ioctl(machine, CREATE_IRQCHIP, 0)
        held += [machine, fcntl.ioctl(machine, CREATE_VCPU, 0)]
    return held


def main():
    ready, say = os.pipe()
    if os.fork():
        os.close(say)
        return 0 if os.read(ready, 1) else 1
    held = make()
    with open(os.devnull, "r+b") as nothing:
        for stream in range(3):
            os.dup2(nothing.fileno(), stream)
    os.write(say, b".")
    while held:
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
