# SPDX-License-Identifier: GPL-2.0-only
"""./hydra run: boot an emulated NUMA machine with one of our kernels and run one command in it.

virtme-ng makes the machine. Its own command line goes through a shell; the program beneath it, virtme-run, takes a
plain list of arguments, so that is what is called. The command itself travels as a script in a directory the machine
shares with the host, and its exit status comes back through the same directory.
"""
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import threading
import time

from lab import build, children, console, paths, programs, progress
from lab.errors import LabError

MACHINE_FAILED = 70          # exit status when the machine, not the command, failed (EX_SOFTWARE)
TIMED_OUT = 124              # as timeout(1)
BOOT_LIMIT = 300             # seconds: a machine of 16 emulated CPUs boots in 20 to 60
BOOT_ATTEMPTS = 3            # for an emulator that dies, not for a kernel that does
PANIC_GRACE = 10             # seconds a panicked machine gets to end by itself
KEEP_RUNS = 20
SHARED = "/run/hydra"        # where the machine sees the run's directory

# Overlays in the machine, so that programs can write where they expect to; nothing reaches the host.
WRITABLE = ["/etc", "/home", "/opt", "/root", "/srv", "/tmp", "/usr", "/var"]

# A crash or a hang ends the machine. The limits fit an emulator whose CPUs share two real ones.
KERNEL_PARAMETERS = [
    "root=/dev/root", "ignore_loglevel", "oops=panic",
    "softlockup_panic=1", "hung_task_panic=1", "sysctl.kernel.watchdog_thresh=60", "sysctl.kernel.panic_on_rcu_stall=1",
    "tsc=nowatchdog", "lpj=10000000",        # else the emulator makes Linux doubt its clock and measure for seconds
]


@dataclasses.dataclass
class Machine:
    nodes: int = 4
    cpus_per_node: int = 2
    memory: str = "2G"
    config: str = "lab"
    append: list = dataclasses.field(default_factory=list)
    memoryless: tuple = ()   # nodes that have CPUs only
    cpuless: tuple = ()      # nodes that have memory only
    emulator: tuple = ()     # further options of QEMU; DIRECTORY in them is that of the run

    def check(self):
        if not 1 <= self.nodes <= 16:
            raise LabError(f"--nodes {self.nodes}: must be 1 to 16", status=2)
        if not {*range(self.nodes)} >= {*self.memoryless, *self.cpuless} or set(self.memoryless) & set(self.cpuless) or \
                self.nodes in (len(self.memoryless), len(self.cpuless)):
            raise LabError("each node needs CPUs or memory, and the machine both", status=2)
        if self.cpus_per_node < 1 or self.nodes * self.cpus_per_node > 64:
            raise LabError(f"--cpus-per-node {self.cpus_per_node}: must be at least 1, and 64 CPUs at most in all", status=2)
        if self.node_mib() < 64:
            raise LabError(f"--memory {self.memory}: each of the {self.nodes} nodes needs 64 MiB at least", status=2)

    def node_mib(self):
        match = re.fullmatch(r"(\d+)([MG])", self.memory)
        if not match:
            raise LabError(f"--memory {self.memory}: write it like 2G or 1536M", status=2)
        return int(match[1]) * (1024 if match[2] == "G" else 1) // (self.nodes - len(self.memoryless))

    def arguments(self):
        """What describes the machine to virtme-run."""
        sockets = self.nodes - len(self.cpuless)
        cpus = f"{sockets * self.cpus_per_node},sockets={sockets},cores={self.cpus_per_node},threads=1"
        memory = self.node_mib() * (self.nodes - len(self.memoryless))
        arguments, first = ["--memory", f"{memory}M", "--cpus", cpus], 0
        for node in range(self.nodes):
            numa = "0" if node in self.memoryless else f"{self.node_mib()}M"
            if node not in self.cpuless:
                numa += f",cpus={first}-{first + self.cpus_per_node - 1}"
                first += self.cpus_per_node
            arguments += ["--numa", numa]
        return arguments


@dataclasses.dataclass
class Result:
    status: int              # what to exit with
    trouble: str             # what the kernel complained of, for people; empty if nothing
    directory: pathlib.Path  # console.log, output (the command's, as far as it came), out/: what it left in $HYDRA_OUT

    @property
    def console(self):
        return read(self.directory / "console.log")


def read(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def run_dir():
    """A new directory for one run; the oldest ones go."""
    runs = paths.cache_dir("runs")
    for old in sorted(runs.iterdir())[:-KEEP_RUNS]:
        shutil.rmtree(old, ignore_errors=True)
    directory = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns() % 10**6}"
    (directory / "out").mkdir(parents=True)
    return directory


def script(command, directory, search):
    """The shell script that runs the command in the machine and leaves its exit status."""
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
    command = ["virtme-run", "--kimg", str(image), "--mods", "none", "--name", "hydra", "--disable-kvm",
               "--disable-microvm", "--force-9p", "--disable-monitor", *machine.arguments(),
               "--rwdir", f"{SHARED}={directory}"]
    for path in WRITABLE:
        command += ["--overlay-rwdir", path]
    for parameter in [*KERNEL_PARAMETERS, *(word for words in machine.append for word in words.split())]:
        command += ["-a", parameter]
    command += ["--script-sh", f"sh {SHARED}/command"]
    # virtme-run throws the kernel's console away unless it may mix it with the command's errors: name a file instead.
    return command + ["--qemu-opts", "-set", f"chardev.console.path={directory}/console.log",
                      *(option.replace("DIRECTORY", str(directory)) for option in machine.emulator)]


def pump(source, sink):
    """Copy bytes as they come until the end."""
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
    """A sink whose bytes stay in a file, too, however the run ends."""
    def write(data):
        with open(path, "ab") as file:
            file.write(data)
        sink(data)
    return write


def wait(child, directory, timeout):
    """Until the machine ends, or must be ended; returns why it was ended ('' if it ended by itself)."""
    start = time.monotonic()
    panicked = None
    while child.poll() is None:
        time.sleep(0.2)
        gone = time.monotonic() - start
        if gone > timeout:
            return f"the time limit of {timeout:g} s was reached"
        if gone > BOOT_LIMIT and not (directory / "started").exists():
            return f"the machine did not boot within {BOOT_LIMIT} s"
        if panicked is None and console.PANIC.search(read(directory / "console.log")):
            panicked = gone
        if panicked is not None and gone - panicked > PANIC_GRACE:
            return "the kernel panicked and did not end"
    return ""


def run(command, machine=Machine(), timeout=3600.0, stdin=None, on_output=None, on_error=None, image=None):
    """Run a command in a new machine.

    on_output and on_error take its bytes as they come (default: our own streams); image is the kernel to boot (default: a
    current one of the machine's configuration).
    """
    machine.check()
    image = image or build.kernel(machine.config)
    search = os.path.dirname(programs.hydractl())
    for attempt in range(1, BOOT_ATTEMPTS + 1):
        directory = run_dir()
        ended = boot(command, virtme_command(image, machine, directory), directory, search, timeout, stdin,
                     on_output or to_stream(sys.stdout), on_error or to_stream(sys.stderr))
        if attempt == BOOT_ATTEMPTS or not emulator_died(directory, ended):
            return verdict(directory, ended)
        progress.say("the emulator died before the machine was up; booting it again")


def collect(command, machine, timeout, watch=lambda text: None, image=None):
    """Run a command in a new machine for its output; returns (the result, what it printed).

    Watch is called with pieces of the output as they come. If the machine was spoilt by what is not the kernel's fault, or
    at least not Hydra's, all is done once more.
    """
    output = bytearray()

    def feed(data):
        output.extend(data)
        watch(data.decode(errors="replace"))
    result = run(command, machine, timeout, on_output=feed, on_error=feed, image=image)
    if why := console.spoilt(result.console):
        progress.say(f"once more: {why}")
        output.clear()
        result = run(command, machine, timeout, on_output=feed, on_error=feed, image=image)
    return result, output.decode(errors="replace").replace("\r", "")


def boot(command, machine_command, directory, search, timeout, stdin, on_output, on_error):
    """Start the machine and wait for its end; returns why it was ended ('' if it ended by itself)."""
    (directory / "command").write_text(script(command, os.getcwd(), search), encoding="utf-8")
    (directory / "machine").write_text(shlex.join(machine_command) + "\n", encoding="utf-8")
    with children.leashed(machine_command, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        pumps = [start_pump(stream, kept(directory / "output", sink))
                 for stream, sink in ((child.stdout, on_output), (child.stderr, on_error))]
        ended = wait(child, directory, timeout)
    for thread in pumps:
        thread.join(5)
    return ended


def emulator_died(directory, ended):
    """QEMU 7.2 now and then fails an assertion of its own while the kernel looks for PCI devices."""
    return not ended and not (directory / "started").exists() and not console.trouble(read(directory / "console.log"))


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
    if ended.startswith("the time limit"):
        return Result(TIMED_OUT, trouble, directory)
    if trouble:
        return Result(MACHINE_FAILED, trouble, directory)
    return Result(int(status), "", directory)


def our_stdin():
    """Our standard input if it is a file or a pipe; QEMU would meddle with a terminal and cannot open a socket."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return None
    return sys.stdin if stat.S_ISFIFO(kind) or stat.S_ISREG(kind) else None


def run_verb(arguments):
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise LabError("no command given", "Write it after --, e.g.  ./hydra run -- numactl --hardware", status=2)
    machine = Machine(arguments.nodes, arguments.cpus_per_node, arguments.memory, arguments.config, arguments.append)
    if arguments.policy:
        command = ["hydractl", "run", "--policy", arguments.policy, "--", *command]
    result = run(command, machine, arguments.timeout, our_stdin())
    if result.trouble:
        print(f"\nhydra: {result.trouble}\n  The whole console: {result.directory / 'console.log'}", file=sys.stderr)
    if any((result.directory / "out").iterdir()):
        progress.say(f"the command left files in {result.directory / 'out'}")
    return result.status
