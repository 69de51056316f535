# SPDX-License-Identifier: GPL-2.0-only
"""Whether the host's processor can run machines itself (KVM): asked before a machine boots, since QEMU would fall back or end later."""
import contextlib
import errno
import fcntl
import os

from lab.errors import LabError

DEVICE = "/dev/kvm"
GET_API_VERSION, CREATE_VM = 0xAE00, 0xAE01      # of <linux/kvm.h>
API_VERSION = 12
EMULATED = "Without --kvm, QEMU's emulator runs the machine on any host."
# What an error of opening the device means, and what to do.
UNOPENED = {
    errno.ENOENT: ("there is no {}", "Load the host's module kvm_intel or kvm_amd. In a virtual machine, the provider has to allow virtualisation in it."),
    errno.EACCES: ("{} may not be read and written by this user", "Become a member of the group that owns it (on Debian: kvm), and log in again."),
    errno.ENODEV: ("{} is there, but the kernel has no KVM behind it", "Load the host's module kvm_intel or kvm_amd."),
}
UNOPENED[errno.EPERM], UNOPENED[errno.ENXIO], UNOPENED[errno.EROFS] = (UNOPENED[code] for code in (errno.EACCES, errno.ENODEV, errno.EACCES))


def refuse(why, todo=""):
    raise LabError(f"--kvm: {why}", f"{todo} {EMULATED}".strip(), status=2)


def ask(device, request, name, path):
    """The answer to a request to the device."""
    try:
        return fcntl.ioctl(device, request, 0)
    except OSError as error:
        return refuse(f"{path} does not answer {name}: {error.strerror}", "It is no KVM that works.")


def check():
    """Refuse --kvm with the reason, if KVM does not work."""
    path = DEVICE
    with contextlib.ExitStack() as opened:
        try:
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            why, todo = UNOPENED.get(error.errno, (f"cannot open {{}}: {error.strerror}", ""))
            refuse(why.format(path), todo)
        opened.callback(os.close, device)
        version = ask(device, GET_API_VERSION, "KVM_GET_API_VERSION", path)
        if version != API_VERSION:
            refuse(f"{path} has version {version} of KVM's interface, and QEMU needs {API_VERSION}")
        opened.callback(os.close, ask(device, CREATE_VM, "KVM_CREATE_VM", path))
