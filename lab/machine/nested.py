# SPDX-License-Identifier: GPL-2.0-only
"""A virtual machine inside the lab's machine: QEMU with KVM, on the emulated processor's SVM and nested paging."""

from lab import paths

# Run in the lab's machine before others make virtual machines there: see the text in it.
HELD = str(paths.REPO / "lab/guest/guest_held_vms.py")
# The inner machine's processor. xsave: the emulator does not leave the inner machine when that sets XCR0, so KVM never learns of it.
# svm: KVM of the inner kernel would patch its calls for seconds, and nothing uses it there.
PROCESSOR = "host,-xsave,-svm"
# A virtual CPU must not run on CPU 0 of the lab's machine: the emulator may lose a part of an exit there (see vm_pin_to_node() in the self tests' vm_util.h).
NOT_ON_FIRST_CPU = ["taskset", "--cpu-list", "1-63"]
# As in vm.KERNEL_PARAMETERS: the clock is an emulator's.
PARAMETERS = "console=ttyS0 panic=-1 tsc=nowatchdog lpj=10000000 no_timer_check hydra_ready"


def command(image, initrd, cpus=2, memory="256M", parameters=""):
    """The command, for the lab's machine, that boots a kernel with a file system in memory; the console is the output."""
    return [*NOT_ON_FIRST_CPU, "qemu-system-x86_64", "-accel", "kvm", "-cpu", PROCESSOR, "-smp", str(cpus), "-m", memory, "-display", "none", "-no-reboot",
            "-monitor", "none", "-serial", "stdio", "-kernel", str(image), "-initrd", str(initrd), "-append", f"{PARAMETERS} {parameters}".strip()]
