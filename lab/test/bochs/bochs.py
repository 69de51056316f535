# SPDX-License-Identifier: GPL-2.0-only
"""Runs self tests on the Hydra kernel in Bochs, whose processor has PCID like a real one. Slower than QEMU.

With PCID, a processor keeps TLB entries of an address space while the CPU runs another address space. When the CPU comes
back, no interrupt has told of flushes meanwhile: only Hydra's generations tell. To make such returns frequent, every CPU can
have a neighbour (guest_neighbours.sh): a busy process that runs whenever a test thread sleeps.

The machine boots from a CD with the programs and their libraries: no disk, no network, no other file of the host. The NUMA
nodes come from ACPI tables of the lab, because Bochs's firmware has none.
"""
import dataclasses
import re
import shlex
import shutil
import subprocess
import time

from lab import children, paths, progress, setup
from lab.errors import LabError
from lab.kernel import kconfig
from lab.machine import console, initramfs, vm
from lab.machine.ktap import Outcome
from lab.test import suites
from lab.test.bochs import acpi_srat, bochs_build

FIRMWARE = "/usr/share/bochs/BIOS-bochs-latest"
VIDEO_FIRMWARE = "/usr/share/vgabios/vgabios.bin"
LOADER = ["/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32"]
TOOLS = "sh chmod chrt cp mkdir mkfs.ext4 mkswap mount sleep stty taskset timeout".split()
FILES = ["/etc/passwd", "/etc/group"]
GUEST = {"lab/test/bochs/guest_init.sh": "/init", "lab/test/bochs/guest_neighbours.sh": "/neighbours", "lab/guest/guest_selftests.sh": "/selftests"}

# Instructions each CPU runs in a second of the machine's own time. With all CPUs busy the emulator runs about half as many
# in a real second: the time limits of tests count the machine's seconds, and become generous.
SPEED = 50_000_000
PROGRAM_LIMIT = 900          # the machine's seconds for one program
TIMEOUT = 3600               # real seconds for one boot
PANIC_GRACE = 5              # real seconds for the last output
PCIDE = 1 << 17              # of CR4
END = "reboot: Power down"
FAILED = re.compile(r"^not ok \d+ (.+)$", re.M)

KERNEL_PARAMETERS = [
    "console=ttyS0", "ignore_loglevel", "nokaslr", "oops=panic", "panic=0",
    "softlockup_panic=1", "hung_task_panic=1", "sysctl.kernel.watchdog_thresh=60", "sysctl.kernel.panic_on_rcu_stall=1",
    "numa_balancing=disable",
    "tsc=reliable", "idle=nomwait",          # MWAIT makes Bochs search all TLBs
]


@dataclasses.dataclass
class Machine:
    nodes: int = 2
    cpus_per_node: int = 2   # must be even: in Bochs, two CPUs share a core
    mib_per_node: int = 384
    append: list = dataclasses.field(default_factory=list)
    neighbours: bool = True
    broken: str = "none"     # a rule for the kernel to break (kernel/hooks/injected-faults.patch)
    arguments: str = ""      # of every program
    model: str = "corei7_haswell_4770"
    parameters: dict = dataclasses.field(default_factory=dict)     # of modules, with the values that they have to have

    def cpus(self):
        return self.nodes * self.cpus_per_node


def bochsrc(machine):
    """The description of the machine for Bochs; the files are in the machine's directory."""
    memory = machine.nodes * machine.mib_per_node
    return f"""\
megs: {memory}
romimage: file={FIRMWARE}
vgaromimage: file={VIDEO_FIRMWARE}
cpu: model={machine.model}, count=1:{machine.cpus()}:1, ips={SPEED}, reset_on_triple_fault=0
clock: sync=none
ata0-master: type=cdrom, path=cd.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=console.log
com2: enabled=1, mode=file, dev=output.log
display_library: nogui
log: bochs.log
error: action=ignore
panic: action=fatal
"""


def script(programs, machine):
    """The shell script the machine runs."""
    command = shlex.join(["sh", "/selftests", str(PROGRAM_LIMIT), *map(str, programs)])
    if machine.neighbours:
        command = f"sh /neighbours {command}"
    show = "".join(f"value=; read -r value </sys/module/{name.replace('.', '/parameters/')}; echo parameter {name} $value\n" for name in machine.parameters)
    return f"export BROKEN={shlex.quote(machine.broken)} ARGUMENTS={shlex.quote(machine.arguments)}\n{show}{command}\n"


def make_cd(image, programs, machine, directory):
    """The CD the machine boots from: kernel, programs, tables."""
    root, disc = directory / "root", directory / "disc"
    initramfs.lay(root, [*map(initramfs.program, TOOLS), *programs])
    initramfs.put(root, initramfs.program("sh"), "/bin/sh")
    for name in FILES:
        initramfs.put(root, name, name)
    for name, target in GUEST.items():
        initramfs.put(root, paths.REPO / name, target)
    (root / "init").chmod(0o755)
    (root / "command").write_text(script(programs, machine), encoding="utf-8")
    tables = root / "kernel" / "firmware" / "acpi"
    tables.mkdir(parents=True)
    for name, table in acpi_srat.even(machine.nodes, machine.cpus_per_node, machine.mib_per_node).items():
        (tables / name).write_bytes(table)
    disc.mkdir()
    for part in LOADER:
        shutil.copy(part, disc)
    shutil.copyfile(image, disc / "vmlinuz")
    initramfs.pack(root, disc / "initrd")
    parameters = " ".join([*KERNEL_PARAMETERS, *machine.append])
    (disc / "isolinux.cfg").write_text("DEFAULT hydra\nPROMPT 0\nLABEL hydra\nKERNEL /vmlinuz\nINITRD /initrd\n"
                                       f"APPEND {parameters}\n", encoding="utf-8")
    status, output = children.run(
        ["xorriso", "-as", "mkisofs", "-quiet", "-o", str(directory / "cd.iso"), "-b", "isolinux.bin", "-c", "boot.cat",
         "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", str(disc)])
    if status:
        raise LabError(f"making the CD failed:\n    {output.strip()}")
    shutil.rmtree(root)
    shutil.rmtree(disc)


def check_image(image):
    """The kernel must take ACPI tables from the initial file system."""
    path = image.with_name("config")
    options = kconfig.parse(path.read_text(encoding="utf-8"), str(path))
    if options.get("ACPI_TABLE_UPGRADE") != "y":
        raise LabError(f"the kernel {image} cannot run in Bochs: it is built without CONFIG_ACPI_TABLE_UPGRADE",
                       "Name the option in lab/kernel/configs/lab.config.")


def wait(child, directory, timeout, on_output, until=None):
    """Wait until the machine ends, or kill the machine; returns the reason ('' if the machine ended by itself).

    until: a pattern; the machine ends as soon as the programs have printed a match.
    """
    start, seen, panicked = time.monotonic(), 0, None
    while True:
        ended = child.poll() is not None
        text = vm.read(directory / "output.log")
        on_output(text[seen:])
        seen = len(text)
        now = time.monotonic()
        if ended:
            return ""
        if until and until.search(text):
            return "what was waited for has come"
        if now - start > timeout:
            return f"the time limit of {timeout:g} s was reached"
        if panicked is None and console.PANIC.search(vm.read(directory / "console.log")):
            panicked = now
        if panicked is not None and now - panicked > PANIC_GRACE:
            return "the kernel panicked"
        time.sleep(0.5)


def kept(log, cpus):
    """Whether each CPU had PCID on and kept the TLB at loads of CR3, from the registers that Bochs shows at the end."""
    counts = dict(re.findall(r"\[CPU(\d+) *\] \| loads of CR3 that kept the TLB: (\d+)", log))
    modes = dict(re.findall(r"\[CPU(\d+) *\] \| CR4=0x([0-9a-f]+)", log))
    name = "every CPU has PCID on and keeps its TLB at loads of CR3"
    bad = [f"CPU {cpu}: CR4 {modes.get(cpu, '?')}, kept {counts.get(cpu, '?')} times" for cpu in map(str, range(cpus))
           if not int(modes.get(cpu, "0"), 16) & PCIDE or not int(counts.get(cpu, "0"))]
    return Outcome(name, "failed", "\n".join(bad)) if bad else Outcome(name, "passed")


def outcomes(programs, machine, directory, ended):
    """What the files of a run come to."""
    log = vm.read(directory / "console.log")
    output = vm.read(directory / "output.log")
    found = suites.split_programs(output, [program.name for program in programs], PROGRAM_LIMIT)
    found += [Outcome(f"kernel log: {name}", "failed", "\n".join(lines)) for name, lines in console.trouble(log)]
    if ended or END not in log:
        why = ended or "the machine ended before its programs did"
        return found + [Outcome("the machine", "failed", f"{why}; the end of its console:\n    {console.tail(log)}")]
    return [kept(vm.read(directory / "bochs.log"), machine.cpus()), *parameters(output, machine.parameters), *found]


def parameters(output, expected):
    """Whether parameters of modules, which the machine's script shows, are as expected."""
    found = dict(re.findall(r"^parameter (\S+) (\S+)\r?$", output, re.M))
    return [Outcome(f"{name} is {value}", "passed") if found.get(name) == value else
            Outcome(f"{name} is {value}", "failed", f"it is {found.get(name, 'not there')}") for name, value in expected.items()]


def boot(image, programs, machine, title, timeout, until=None):
    """Run the machine; returns the directory of the machine, and the reason of a kill ('' if the machine ended by
    itself)."""
    check_image(image)
    setup.ensure_packages(setup.BOCHS_PACKAGES)
    emulator = bochs_build.program()
    directory = vm.run_dir()
    (directory / "bochsrc").write_text(bochsrc(machine), encoding="utf-8")
    make_cd(image, programs, machine, directory)
    with progress.counting(title, len(programs)) as bar, open(directory / "emulator.log", "wb") as sink, children.leashed(
            [str(emulator), "-q", "-f", "bochsrc"], cwd=directory, stdin=subprocess.DEVNULL, stdout=sink,
            stderr=subprocess.STDOUT) as child:
        def feed(text):
            for mark in suites.MARK.finditer(text):
                if mark[1] == "begin":
                    bar.advance(1, mark[2])
        ended = wait(child, directory, timeout, feed, until)
    (directory / "cd.iso").unlink()
    return directory, ended


def run(image, programs, machine=Machine(), title="self tests in Bochs", timeout=TIMEOUT):
    """Run self tests (paths on the host) on a kernel; returns the outcomes."""
    directory, ended = boot(image, programs, machine, title, timeout)
    return outcomes(programs, machine, directory, ended)


def first_failure(image, programs, machine, title, timeout=TIMEOUT):
    """Run self tests until one fails; returns the name of the test, or the kernel's complaint, or ''. None if no test
    ran."""
    directory, _ = boot(image, programs, machine, title, timeout, FAILED)
    output = vm.read(directory / "output.log")
    if not suites.MARK.search(output):
        return None
    if failed := FAILED.search(output):
        return failed[1]
    return next((f"the kernel: {name}" for name, _ in console.trouble(vm.read(directory / "console.log"))), "")
