# SPDX-License-Identifier: GPL-2.0-only
"""A Debian with systemd and GRUB on a disk of its own, in the emulator: no file of the host is visible there.

The disk is a file with one partition. While it is mounted here, apt installs packages on it, and their scripts write GRUB's menu.
Then the emulator's firmware starts GRUB from the disk, and GRUB the first kernel of the menu.
"""
import contextlib
import dataclasses
import pathlib
import shlex
import tempfile

from lab import children, paths, setup
from lab.errors import LabError
from lab.machine import vm
from lab.package import chroot, releases

# What a system with a disk has, Debian's own kernel included, and what the tests need.
PACKAGES = ["bpftrace", "e2fsprogs", "grub-pc", "libnuma1", "linux-image-cloud-amd64", "python3-minimal", "systemd-sysv", "udev"]
TOOLS = ["fdisk"]             # of this machine
APT = ["apt-get", "-o", "Dpkg::Use-Pty=0", "-y"]
DISK, START = "5G", 2048      # sparse; and the partition's first sector
# root: the last one counts; GRUB's menu has the name of the disk here. A kernel that fails ends the machine. The emulator's CPUs are slow and late.
PARAMETERS = ["root=/dev/vda1", "console=ttyS0", "ignore_loglevel", "oops=panic", "panic=-1", "tsc=nowatchdog", "no_timer_check",
              "numa_balancing=disable", "nopku", "systemd.show_status=no"]
GRUB = "GRUB_TIMEOUT=0\nGRUB_TERMINAL=serial\nGRUB_DISABLE_OS_PROBER=true\nGRUB_CMDLINE_LINUX_DEFAULT=\nGRUB_CMDLINE_LINUX={}\n"
ENOUGH_TIME = "[Manager]\nDefaultTimeoutStartSec=900s\nDefaultDeviceTimeoutSec=900s\n"


def host(*command):
    """Run a command here; returns what it printed."""
    status, output = children.run(list(map(str, command)))
    if status:
        raise LabError(f"{shlex.join(map(str, command))} failed: {output.strip()}")
    return output.strip()


@dataclasses.dataclass
class System:
    """A system on a disk, which is either mounted here or runs in the emulator."""
    directory: pathlib.Path

    @property
    def disk(self):
        return self.directory / "disk"

    @contextlib.contextmanager
    def device(self):
        """The names of the disk and of its partition as devices; not all hosts look for partitions themselves."""
        name = host("losetup", "--find", "--partscan", "--show", self.disk)
        try:
            if not pathlib.Path(f"{name}p1").exists():
                host("addpart", name, 1, START, self.disk.stat().st_size // 512 - START)
            yield name, f"{name}p1"
        finally:
            children.run(["delpart", name, "1"])
            host("losetup", "--detach", name)

    @contextlib.contextmanager
    def mounted(self):
        """The system's directory, and the name of its disk."""
        root = self.directory / "root"
        root.mkdir(exist_ok=True)
        with self.device() as (disk, partition):
            host("mount", partition, root)
            try:
                yield root, disk
            finally:
                host("umount", root)


@contextlib.contextmanager
def made(release, packages, machine):
    """A system with what the packages depend on, to boot on a machine; removed after the block."""
    setup.ensure_packages(TOOLS)
    tar = chroot.archive(release, "server", sorted({*PACKAGES, *chroot.needed(packages)}))
    paths.need_space(tar.parent, 6, f"make the disk of a {releases.title(release)}")
    with tempfile.TemporaryDirectory(dir=tar.parent, prefix=".disk-", suffix=".part") as directory:
        system = System(pathlib.Path(directory))
        host("truncate", "--size", DISK, system.disk)
        host("sh", "-c", f"echo 'start={START}, bootable' | sfdisk --quiet --label dos {system.disk}")
        with system.device() as (_, partition):
            host("mkfs.ext4", "-q", "-O", "^metadata_csum_seed,^orphan_file", partition)      # GRUB of Debian 12 cannot read them
        with system.mounted() as (root, disk):
            host("tar", "-x", "-f", tar, "-C", root, "--exclude=./dev/*")
            for name, text in {"etc/systemd/system.conf.d/slow-machine.conf": ENOUGH_TIME, "etc/fstab": "/dev/vda1 / ext4 defaults 0 1\n",
                               "etc/default/grub.d/machine.cfg": GRUB.format(shlex.quote(" ".join([*PARAMETERS, *machine.append])))}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            for command in (["grub-install", "--target=i386-pc", disk], ["update-grub"]):
                status, output = chroot.run(root, *command)
                if status:
                    raise LabError(f"{command[0]} failed:\n    {output}")
        yield system


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


def emulator(machine, disk, directory):
    """The command that boots the disk and leaves it as it is; the second serial port is the file results."""
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max", "-nodefaults", "-display", "none",
               "-no-reboot", "-m", f"{machine.mib()}M", "-smp", f"{machine.nodes * machine.cpus_per_node},sockets={machine.nodes}"]
    for node in range(machine.nodes):
        first = node * machine.cpus_per_node
        command += ["-object", f"memory-backend-ram,id=memory{node},size={machine.node_mib()}M",
                    "-numa", f"node,nodeid={node},cpus={first}-{first + machine.cpus_per_node - 1},memdev=memory{node}"]
    return [*command, "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe", "-snapshot",
            "-serial", f"file:{directory}/console.log", "-serial", f"file:{directory}/results"]


def boot(system, machine, timeout):
    """Boot the disk of the system, and wait until the system powers off.

    Returns (the run's directory, the reason why the lab ended the machine or an empty string).
    """
    directory = vm.run_dir()

    def booting(_seconds):
        """The limit of a boot ends with the first message: what follows takes as long as it takes."""
        if vm.read(directory / "console.log"):
            (directory / "started").touch()
    with children.leashed(emulator(machine, system.disk, directory), stdout=open(directory / "output", "wb"), stderr=-2) as child:
        return directory, vm.wait(child, directory, timeout, booting)
