# SPDX-License-Identifier: GPL-2.0-only
"""A Debian 12 with systemd on a disk of its own, in the emulator: no file of the host is visible there.

apt installs packages in the system's directory. Then the directory becomes a disk, and the emulator starts the kernel and the
initramfs that the packages left in /boot; no boot loader takes part.
"""
import contextlib
import shutil

from lab import children, paths
from lab.errors import LabError
from lab.machine import vm
from lab.package import chroot

PACKAGES = ["bpftrace", "e2fsprogs", "libnuma1", "python3-minimal", "systemd-sysv", "udev"]     # what a system with a disk has, and what the tests need
APT = ["apt-get", "-o", "Dpkg::Use-Pty=0", "-y"]
DISK = "4G"                   # sparse
# A kernel that fails ends the machine. The emulator's CPUs are slow and late.
PARAMETERS = ["root=/dev/vda", "rw", "console=ttyS0", "ignore_loglevel", "oops=panic", "panic=-1", "tsc=nowatchdog", "no_timer_check",
              "numa_balancing=disable", "nopku", "systemd.show_status=no"]
ENOUGH_TIME = "[Manager]\nDefaultTimeoutStartSec=900s\nDefaultDeviceTimeoutSec=900s\n"


@contextlib.contextmanager
def made(packages):
    """A system in a directory, with what the packages depend on; removed after the block."""
    with chroot.unpacked(chroot.archive("server", sorted({*PACKAGES, *chroot.needed(packages)}))) as root:
        place = root / "etc/systemd/system.conf.d/slow-machine.conf"
        place.parent.mkdir(parents=True)
        place.write_text(ENOUGH_TIME, encoding="utf-8")
        (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n", encoding="utf-8")
        yield root


def apt(root, *arguments):
    """Run apt-get in the system; an error if apt-get fails."""
    status, output = chroot.run(root, *APT, *arguments)
    if status:
        raise LabError(f"apt-get {' '.join(arguments)} failed:\n    " + "\n    ".join(output.splitlines()[-20:]))


def install(root, packages):
    """Install packages; everything they depend on is in the system."""
    apt(root, "install", *chroot.give(root, packages))
    for package in packages:
        (root / "root" / package.name).unlink()


def releases(root):
    """The releases of the kernels in /boot that have an initramfs."""
    names = [path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*")]
    return sorted(name for name in names if (root / "boot" / f"initrd.img-{name}").exists())


def emulator(machine, directory):
    """The command that boots the disk in the directory; the second serial port is the file results."""
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max", "-nodefaults", "-display", "none",
               "-no-reboot", "-m", f"{machine.mib()}M", "-smp", f"{machine.nodes * machine.cpus_per_node},sockets={machine.nodes}"]
    for node in range(machine.nodes):
        first = node * machine.cpus_per_node
        command += ["-object", f"memory-backend-ram,id=memory{node},size={machine.node_mib()}M",
                    "-numa", f"node,nodeid={node},cpus={first}-{first + machine.cpus_per_node - 1},memdev=memory{node}"]
    return [*command, "-drive", f"file={directory}/disk,format=raw,if=virtio,cache=unsafe",
            "-kernel", f"{directory}/vmlinuz", "-initrd", f"{directory}/initrd", "-append", " ".join([*PARAMETERS, *machine.append]),
            "-serial", f"file:{directory}/console.log", "-serial", f"file:{directory}/results"]


def boot(root, release, machine, timeout):
    """Make a disk of the directory, boot the kernel of the release, and wait until the system powers off.

    Returns (the run's directory, the reason why the lab ended the machine or an empty string).
    """
    directory = vm.run_dir()
    paths.need_space(directory, 3, "make the disk of a Debian 12")
    shutil.copyfile(root / "boot" / f"vmlinuz-{release}", directory / "vmlinuz")
    shutil.copyfile(root / "boot" / f"initrd.img-{release}", directory / "initrd")
    try:
        children.logged("making the disk", ["mkfs.ext4", "-q", "-F", "-d", root, directory / "disk", DISK], directory / "mkfs.log")
        (directory / "started").touch()              # vm.wait() has one limit for the boot and the commands
        with children.leashed(emulator(machine, directory), stdout=open(directory / "output", "wb"), stderr=-2) as child:
            return directory, vm.wait(child, directory, timeout)
    finally:
        (directory / "disk").unlink(missing_ok=True)
