# SPDX-License-Identifier: GPL-2.0-only
"""Boots an emulated NUMA machine with one of our kernels and runs one command.

virtme-ng makes the machine. virtme-ng's command line goes through a shell, so the lab calls virtme-run, the program below,
with a plain list of arguments. The command is a script in a directory shared by machine and host; the exit status comes back
through the same directory.
"""
import dataclasses
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

from lab import children, paths, progress
from lab.errors import LabError
from lab.kernel import build
from lab.machine import console, distances, programs

MACHINE_FAILED = 70          # exit status when the machine, not the command, failed (EX_SOFTWARE)
TIMED_OUT = 124              # as timeout(1)
BOOT_LIMIT = 300             # seconds: a machine of 16 emulated CPUs boots in 20 to 60
BOOT_ATTEMPTS = 3            # for a crash of the emulator, not of the kernel
PANIC_GRACE = 10             # seconds until a panicked machine must have ended
KEEP_RUNS = 20
RUN_LIMIT = 3600             # seconds for a command, unless the caller says otherwise
SHARED = "/run/hydra"        # where the machine sees the run's directory

# The first place where the machine's init looks for programs; what stands there keeps the boot short.
QUIET_BOOT = paths.REPO / "lab/machine/boot"

# Overlays in the machine, so that programs can write to the usual directories; no write reaches the host.
WRITABLE = ["/etc", "/home", "/opt", "/root", "/srv", "/tmp", "/usr", "/var"]

# A crash or a hang ends the machine. The limits fit an emulator whose CPUs share two real CPUs.
KERNEL_PARAMETERS = [
    "root=/dev/root", "ignore_loglevel", "oops=panic",
    "softlockup_panic=1", "hung_task_panic=1", "sysctl.kernel.watchdog_thresh=60", "sysctl.kernel.panic_on_rcu_stall=1",
    "tsc=nowatchdog", "lpj=10000000",        # otherwise Linux distrusts the emulator's clock and measures for seconds
    "no_timer_check",                        # else Linux panics if the timer's interrupt is late because the host is busy
    "hydra_ready",                           # else the emulator may run a breakpoint that is gone: console.stale_breakpoint()
]
OF_EMULATOR = ("tsc=nowatchdog", "lpj=10000000", "hydra_ready")      # not under KVM: the processor has the clock, and runs no code that is gone
# Without it, virtme-run takes QEMU's old machine, and falls back to the emulator without a word.
KVM_MACHINE = ("-machine", "q35,accel=kvm")

# A machine inside the lab's machine: QEMU with KVM, on the emulated processor's SVM and nested paging.
# Run in the lab's machine before others make virtual machines there: see the text in it.
HELD_VMS = str(paths.REPO / "lab/guest/guest_held_vms.py")
# xsave: the emulator does not leave the inner machine when that sets XCR0, so KVM never learns of it. svm: KVM of the inner kernel would
# patch its calls for seconds, and nothing uses it there.
INNER_PROCESSOR = "host,-xsave,-svm"
# A virtual CPU must not run on CPU 0 of the lab's machine: the emulator may lose a part of an exit there (see vm_pin_to_node() in the self tests' vm_util.h).
NOT_ON_FIRST_CPU = ["taskset", "--cpu-list", "1-63"]
# As in KERNEL_PARAMETERS: the clock is an emulator's.
INNER_PARAMETERS = "console=ttyS0 panic=-1 tsc=nowatchdog lpj=10000000 no_timer_check hydra_ready"
# A guest that knows it is KVM's has a clock and interrupts of its own. So that exits are those of any guest, it does not.
NOT_KVMS_GUEST = "nopv"


@dataclasses.dataclass
class Machine:
    nodes: int = 4
    cpus_per_node: int = 2
    memory: str = "2G"
    config: str = "lab"
    append: list = dataclasses.field(default_factory=list)
    memoryless: tuple = ()   # nodes with CPUs only
    cpuless: tuple = ()      # nodes with memory only
    emulator: tuple = ()     # further options of QEMU; DIRECTORY stands for the run's directory
    users: tuple = ()        # options of QEMU that the user gave
    distances: tuple = ()    # rows of distances between the nodes; none: QEMU's
    threads: int = 1         # CPUs of a core
    kvm: bool = False        # the host's processor runs the machine, not the emulator
    ready: bool = True       # the kernel's code is patched for Hydra at boot, and not when a program comes under Hydra or leaves

    def check(self):
        if not 1 <= self.nodes <= 16:
            raise LabError(f"--nodes {self.nodes}: must be 1 to 16", status=2)
        memoryless, cpuless = set(self.memoryless), set(self.cpuless)
        if not memoryless | cpuless <= set(range(self.nodes)):
            raise LabError("a node without memory or CPUs must be one of the machine's nodes", status=2)
        if memoryless & cpuless:
            raise LabError("each node needs CPUs or memory", status=2)
        if self.nodes in (len(memoryless), len(cpuless)):
            raise LabError("the machine needs CPUs and memory", status=2)
        if self.cpus_per_node < 1 or self.nodes * self.cpus_per_node > 64:
            raise LabError(f"--cpus-per-node {self.cpus_per_node}: must be at least 1, and 64 CPUs at most in all", status=2)
        if self.cpus_per_node % self.threads:
            raise LabError(f"a node of {self.cpus_per_node} CPUs cannot have cores of {self.threads}", status=2)
        if self.node_mib() < 64:
            raise LabError(f"--memory {self.memory}: each of the {self.nodes} nodes needs 64 MiB at least", status=2)
        if self.mib() > host_mib():
            raise LabError(f"--memory {self.memory}: this host has {host_mib() / 1024:.1f} GiB", status=2)

    def mib(self):
        match = re.fullmatch(r"(\d+)([MGT])(?:i?B)?", self.memory, re.I)
        if not match:
            raise LabError(f"--memory {self.memory}: write it like 2G or 1536M", status=2)
        return int(match[1]) * {"M": 1, "G": 1024, "T": 1024 ** 2}[match[2].upper()]

    def node_mib(self):
        return self.mib() // (self.nodes - len(self.memoryless))

    def __str__(self):
        return f"{self.nodes} nodes of {self.cpus_per_node} CPUs, {self.memory} of memory"

    def arguments(self):
        """What describes the machine to virtme-run."""
        sockets = self.nodes - len(self.cpuless)
        cpus = f"{sockets * self.cpus_per_node},sockets={sockets},cores={self.cpus_per_node // self.threads},threads={self.threads}"
        memory = self.node_mib() * (self.nodes - len(self.memoryless))
        arguments, first = ["--memory", f"{memory}M", "--cpus", cpus], 0
        for node in range(self.nodes):
            numa = "0" if node in self.memoryless else f"{self.node_mib()}M"
            if node not in self.cpuless:
                numa += f",cpus={first}-{first + self.cpus_per_node - 1}"
                first += self.cpus_per_node
            arguments += ["--numa", numa]
        return arguments + distances.arguments(self.distances)


def host_mib():
    """The host's memory, or the limit of the container."""
    total = int(re.search(r"^MemTotal: *(\d+) kB", read(pathlib.Path("/proc/meminfo")), re.M)[1]) // 1024
    limit = read(pathlib.Path("/sys/fs/cgroup/memory.max")).strip()
    return min(total, int(limit) // 2**20) if limit.isdigit() else total


@dataclasses.dataclass
class Result:
    status: int              # what to exit with
    trouble: str             # the kernel's reports, as text for the user; empty if there are none
    directory: pathlib.Path  # console.log, output (of the command), out/: the files in $HYDRA_OUT

    @property
    def console(self):
        return read(self.directory / "console.log")


def read(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


HELD = []                    # locks on the directories of our runs, until the process ends


def run_dir():
    """A new directory for one run.

    Removes the oldest directories, except while a ./hydra still runs, or if out/ holds results.
    """
    runs = paths.cache_dir("runs")
    paths.need_space(runs, 0.25, "run a machine")
    now = time.time_ns()                 # names sort by time
    directory = runs / f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now // 10**9))}-{now % 10**9:09}-{os.getpid()}"
    (directory / "out").mkdir(parents=True)
    lock = open(directory / "lock", "w", encoding="ascii")
    fcntl.flock(lock, fcntl.LOCK_EX)
    HELD.append(lock)
    for old in sorted(runs.iterdir())[:-KEEP_RUNS]:
        if not has_results(old) and not in_use(old):
            shutil.rmtree(old, ignore_errors=True)
    return directory


def has_results(directory):
    """Whether out/ still holds files that the machine's command left for the user."""
    out = directory / "out"
    return out.is_dir() and any(out.iterdir())


def in_use(directory):
    """Whether the ./hydra of a run's directory still runs: the kernel drops the lock when the process ends."""
    try:
        with open(directory / "lock", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def script(command, directory, search):
    """The shell script that runs the command in the machine and saves the exit status."""
    return f"""#!/bin/sh
export PATH={shlex.quote(search)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C.UTF-8 HYDRA_OUT={SHARED}/out
: >{SHARED}/started
cd {shlex.quote(directory)} || exit
{shlex.join(command)}
echo $? >{SHARED}/status.part
mv {SHARED}/status.part {SHARED}/status
"""


def virtme_command(image, machine, directory):
    command = ["virtme-run", "--kimg", str(image), "--mods", "none", "--name", "hydra",
               *([] if machine.kvm else ["--disable-kvm"]), "--disable-microvm", "--force-9p", "--disable-monitor", *machine.arguments(),
               "--rwdir", f"{SHARED}={directory}"]
    for path in WRITABLE:
        command += ["--overlay-rwdir", path]
    without = {*(OF_EMULATOR if machine.kvm else ()), *(() if machine.ready and machine.config != "off" else ("hydra_ready",))}
    ours = [word for word in KERNEL_PARAMETERS if word not in without]
    for parameter in [f"PATH={QUIET_BOOT}", *ours, *(word for words in machine.append for word in words.split())]:
        command += ["-a", parameter]
    command += ["--script-sh", f"sh {SHARED}/command"]
    # virtme-run either drops the kernel's console or mixes the console with the command's errors. The last word for QEMU
    # names a file.
    return command + ["--qemu-opts", "-set", f"chardev.console.path={directory}/console.log",
                      *(option.replace("DIRECTORY", str(directory)) for option in machine.emulator),
                      *(KVM_MACHINE if machine.kvm else ()), *machine.users]


def pump(source, sink):
    """Copy bytes at once, until the end."""
    while data := os.read(source.fileno(), 65536):
        sink(data)


def start_pump(source, sink):
    thread = threading.Thread(target=pump, args=(source, sink), daemon=True)
    thread.start()
    return thread


def to_stream(stream):
    def write(data):
        stream.buffer.write(data)
        stream.flush()
    return write


def kept(path, sink):
    """A sink that also writes the bytes to a file, which is complete even if the run is killed."""
    def write(data):
        try:
            with open(path, "ab") as file:
                file.write(data)
        except OSError as error:         # a machine would stop if the lab stopped reading
            progress.say(f"cannot keep the output in {path}: {error.strerror}")
        sink(data)
    return write


def wait(child, directory, timeout, booting=lambda seconds: None):
    """Wait until the machine ends, or kill the machine; returns the reason ('' if the machine ended by itself).

    Booting is called with the seconds gone as long as the command has not started.
    """
    start = time.monotonic()
    panicked = None
    while child.poll() is None:
        time.sleep(0.2)
        gone = time.monotonic() - start
        if gone > timeout:
            return f"the time limit of {timeout:g} s was reached"
        if not (directory / "started").exists():
            booting(gone)
            if gone > BOOT_LIMIT:
                return f"the machine did not boot within {BOOT_LIMIT} s"
            if console.early_interrupt(read(directory / "console.log")):
                return "the boot was spoilt"
        if panicked is None and console.PANIC.search(read(directory / "console.log")):
            panicked = gone
        if panicked is not None and gone - panicked > PANIC_GRACE:
            return "the kernel panicked and did not end"
    return ""


def run(command, machine=Machine(), timeout=RUN_LIMIT, stdin=None, on_output=None, on_error=None, image=None,
        booting=lambda seconds: None):
    """Run a command in a new machine.

    on_output and on_error take the bytes at once (default: our own streams); image is the kernel to boot (default: a current
    kernel of the machine's configuration); booting is called now and then until the command starts.
    """
    machine.check()
    image = image or build.kernel(machine.config)
    search = os.path.dirname(programs.hydractl())
    begin = offset(stdin)
    for attempt in range(1, BOOT_ATTEMPTS + 1):
        directory = run_dir()
        ended = boot(command, virtme_command(image, machine, directory), directory, search, timeout, stdin,
                     on_output or to_stream(sys.stdout), on_error or to_stream(sys.stderr), booting)
        if not ended and machine.users and not (directory / "started").exists() and not read(directory / "console.log"):
            return Result(MACHINE_FAILED, f"QEMU ended before the kernel's first message, given --qemu-args '{shlex.join(machine.users)}'. "
                          "What QEMU says of them stands above.", directory)
        why = emulator_died(directory, ended) or (console.spoilt(read(directory / "console.log")) if unseen(directory, stdin, begin) else "")
        if attempt == BOOT_ATTEMPTS or not why:
            return verdict(directory, ended)
        progress.say(f"once more: {why}")
        if begin is not None:
            os.lseek(stdin.fileno(), begin, os.SEEK_SET)


def offset(stdin):
    """Where the command's input begins in its file; None: there is no input, or it can be read once only."""
    try:
        return None if stdin is None else os.lseek(stdin.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None


def unseen(directory, stdin, begin):
    """Whether the user has seen nothing of the run, so that another one can take its place."""
    if has_results(directory) or read(directory / "output"):
        return False
    return stdin is None or begin is not None or not (directory / "started").exists()


def collect(command, machine, timeout, watch=lambda text: None, image=None):
    """Run a command in a new machine; returns (the result, the output).

    Watch is called with each piece of the output. If an error of the emulator or of stock Linux makes the results invalid
    (console.spoilt()), the command is run once more in another machine.
    """
    result, output = collect_once(command, machine, timeout, watch, image)
    if why := console.spoilt(result.console):
        progress.say(f"once more: {why}")
        result, output = collect_once(command, machine, timeout, watch, image)
    return result, output


def collect_once(command, machine, timeout, watch=lambda text: None, image=None):
    """The same, for a caller that looks itself whether the results are valid."""
    output = bytearray()

    def feed(data):
        output.extend(data)
        watch(data.decode(errors="replace"))
    result = run(command, machine, timeout, on_output=feed, on_error=feed, image=image)
    return result, output.decode(errors="replace").replace("\r", "")


def boot(command, machine_command, directory, search, timeout, stdin, on_output, on_error, booting):
    """Start the machine and wait for the end; returns the reason of a kill ('' if the machine ended by itself)."""
    (directory / "command").write_text(script(command, os.getcwd(), search), encoding="utf-8")
    (directory / "machine").write_text(shlex.join(machine_command) + "\n", encoding="utf-8")
    with children.leashed(machine_command, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        pumps = [start_pump(stream, kept(directory / "output", sink))
                 for stream, sink in ((child.stdout, on_output), (child.stderr, on_error))]
        ended = wait(child, directory, timeout, booting)
    for thread in pumps:
        thread.join(5)
    return ended


def emulator_died(directory, ended):
    """The words for it if it did: QEMU 7.2 now and then fails an assertion while the kernel looks for PCI devices."""
    died = not ended and not (directory / "started").exists() and not console.trouble(read(directory / "console.log"))
    return "the emulator died before the machine was up" if died else ""


def verdict(directory, ended):
    """What the run comes to: the command's exit status unless the machine failed."""
    log = read(directory / "console.log")
    trouble = console.report(log)
    status = read(directory / "status").strip()
    if not status and not trouble:
        why = ended or ("the machine ended before the command did" if (directory / "started").exists()
                        else "the machine did not boot")
        trouble = f"{why}; the end of its console:\n    {console.tail(log)}"
    elif ended:
        trouble = f"{ended}\n{trouble}".strip()
    if why := console.spoilt(log):
        trouble = f"{why}.\n  This says nothing of Hydra: call again. The kernel's report:\n{trouble}"
    if ended.startswith("the time limit"):
        return Result(TIMED_OUT, trouble, directory)
    if trouble:
        return Result(MACHINE_FAILED, trouble, directory)
    return Result(int(status), "", directory)


def inner_command(image, initrd, cpus=2, memory="256M", parameters="", knows=False):
    """The command, for the lab's machine, that boots a kernel with a file system in memory in a machine inside; the console is the output. Knows: that it is KVM's guest."""
    words = " ".join(filter(None, (INNER_PARAMETERS, "" if knows else NOT_KVMS_GUEST, parameters)))
    return [*NOT_ON_FIRST_CPU, "qemu-system-x86_64", "-accel", "kvm", "-cpu", INNER_PROCESSOR, "-smp", str(cpus), "-m", memory, "-display", "none", "-no-reboot",
            "-monitor", "none", "-serial", "stdio", "-kernel", str(image), "-initrd", str(initrd), "-append", words]
