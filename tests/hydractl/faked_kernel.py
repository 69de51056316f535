# SPDX-License-Identifier: GPL-2.0-only
"""For the tests of hydractl on the host: the built tool, trees of files in place of /proc and /sys, and a faked prctl."""
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import shutil
import struct
import subprocess
import threading

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "tools" / "hydractl"

HYDRA = """\
policy hydra
domains node
replication lazy
prefetch 9
filter table
active 1
split 1
count 0
fills 12
prefetched 3400
propagated 56
flushes 78
cpus_interrupted 9
cpus_interrupted_across 8
cpus_spared 1234
fallbacks 0
reclaimed 4
forgotten 6
barriers 3
replica_tables 21
replica_kib 84
upper_tables 6
domain 0 node 0 root own replica_tables 10 replica_kib 40 upper_tables 3 fills 5 forgotten 2
domain 1 node 1 root canonical replica_tables 11 replica_kib 44 upper_tables 3 fills 7 forgotten 4
"""

# Of a kernel that cannot count under the settings of Linux.
OLDER_HYDRA = HYDRA.replace("count 0\n", "").replace("cpus_interrupted_across 8\n", "").replace("barriers 3\n", "")


def under_auto(state, why, **numbers):
    """/proc/PID/hydra of a process under policy auto; the numbers are values of its own lines."""
    lines = {"auto": state, "why": why, "tries": 0, "rent_us": 0, "price_us": 0, "rent_ppm": 0, "gain_ppm": 0, "balance_us": 0, "purse_us": 0, **numbers}
    text = HYDRA.replace("policy hydra", "policy auto").replace("domains node", "domains auto").replace("filter table", "filter auto")
    text = text.replace("count 0\n", "count 0\n" + "".join(f"{key} {value}\n" for key, value in lines.items()))
    return text if state == "split" else text.partition("domain 0")[0].replace("split 1", "split 0").replace("replica_kib 84", "replica_kib 0")


def make(*arguments):
    return subprocess.run(["make", "-C", str(SOURCE), *arguments], capture_output=True, text=True, check=False)


class Kernel:
    """A tree of files in place of /proc and /sys, and the program."""

    def __init__(self, program, root):
        self.program = program
        self.proc = root / "proc"
        self.sys = root / "sys"
        self.hydra = self.sys / "kernel" / "mm" / "hydra"
        self.proc.mkdir()
        self.hydra.mkdir(parents=True)
        for name, text in {"default": "linux\n", "allow": "anybody\n", "supported": "yes\n", "replica_limit_kib": "max\n",
                           "violations": "0\n", "domains": "0 node 0 cpus 0-1\n1 node 1 cpus 2-3\n"}.items():
            (self.hydra / name).write_text(text)
        (self.proc / "uptime").write_text("not a process\n")

    def auto(self, **files):
        """The kernel has policy auto; the files, with prices as in price_fill=3000, take the place of those at boot."""
        directory = self.hydra / "auto"
        directory.mkdir()
        stats = "looks 120\nsplits 3\nreturns 2\nwatched 4\nspent_us 2500001"
        prices = {"price_interrupt": 2000, "price_fill": 3000, "price_change": 250, "price_more": 25, "price_look": 75, "price_flush": 55,
                  "price_walk": 75, "price_root": 10000, "price_release": 100}
        for name, text in {**prices, "look_ms": 1000, "barrier": "one-page", "stats": stats, **files}.items():
            (directory / name).write_text(f"{text}\n")
        return directory

    def process(self, pid, comm="httpd", parent=1, **files):
        directory = self.proc / str(pid)
        directory.mkdir()
        comm = comm if isinstance(comm, bytes) else comm.encode()
        (directory / "comm").write_bytes(comm + b"\n")
        (directory / "stat").write_bytes(b"%d (%s) S %d 1 1 0 -1" % (pid, comm, parent) + 14 * b" 0")
        for name, text in files.items():
            (directory / name).write_text(text)
        return directory

    def nodes(self, *cpulists):
        for node, cpus in enumerate(cpulists):
            directory = self.sys / "devices" / "system" / "node" / f"node{node}"
            directory.mkdir(parents=True)
            (directory / "cpulist").write_text(f"{cpus}\n")

    def threads(self, pid, *cpus, tables=400):
        """Where the threads of a process ran last, and the KiB of its page tables."""
        for thread, cpu in enumerate(cpus):
            directory = self.proc / str(pid) / "task" / str(pid + thread)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "stat").write_text(f"{pid + thread} (a) b) S" + 35 * " 1" + f" {cpu} 0 0\n")
        (self.proc / str(pid) / "status").write_text(f"Name:\tx\nVmPTE:\t{tables:8} kB\nVmSwap:\t0 kB\n")

    def text(self, pid):
        return (self.proc / str(pid) / "hydra").read_text()

    def has_used(self, pid, ticks):
        """A process has used so much CPU time, in hundredths of a second."""
        path = self.proc / str(pid) / "stat"
        name, end, fields = path.read_bytes().rpartition(b") ")
        fields = fields.split(b" ")
        fields[11] = str(ticks).encode()
        path.write_bytes(name + end + b" ".join(fields))

    @contextlib.contextmanager
    def counting(self, ticks=100, **later):
        """A kernel that counts: once count=on has been written for a process, its file has the later text (p12="...").

        By then the process has used one second of CPU time, unless the test says how much.
        """
        done = threading.Event()

        def answer():
            while not done.wait(0.01):
                for pid, text in later.items():
                    path = self.proc / pid[1:] / "hydra"
                    with contextlib.suppress(FileNotFoundError):
                        if path.read_text() == "count=on":
                            self.has_used(pid[1:], ticks)
                            (path.parent / "new").write_text(text)
                            (path.parent / "new").rename(path)
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def end(self, pid):
        shutil.rmtree(self.proc / str(pid))

    def cgroup(self, path, *pids):
        """A cgroup of version 2 with processes; the first one also mounts the cgroups."""
        root = self.sys / "fs" / "cgroup"
        mounts = self.proc / "self" / "mounts"
        if not mounts.exists():
            mounts.parent.mkdir()
            mounts.write_text(f"proc /proc proc rw 0 0\nnone {root} cgroup2 rw 0 0\n")
            self.cgroup("/")
        directory = root / path.strip("/")
        directory.mkdir(parents=True, exist_ok=True)
        for above in directory.parents:
            if above.is_relative_to(root):
                (above / "cgroup.procs").touch()
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        return directory

    def own(self, hydra=HYDRA, then=lambda: None):
        """For preexec_fn: the files of hydractl itself, which begins as this process."""
        def prepare():
            self.process(os.getpid(), "hydractl", parent=os.getppid(), hydra=hydra)
            then()
        return prepare

    def environment(self, **more):
        return dict(os.environ, HYDRACTL_PROC=str(self.proc), HYDRACTL_SYS=str(self.sys), **more)

    def run(self, *arguments, environment=None, **options):
        return subprocess.run([str(self.program), *map(str, arguments)], env=self.environment(**environment or {}), capture_output=True,
                              text=True, timeout=60, check=False, **options)

    def json(self, *arguments, status=0):
        done = self.run(*arguments, "--json")
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)


@contextlib.contextmanager
def becomes(kernel, pid, *texts):
    """Once settings have been written, the kernel says these, one after the other."""
    done = threading.Event()
    path = kernel.proc / str(pid) / "hydra"

    def answer():
        while not done.wait(0.01):
            if not path.read_text().startswith("policy"):
                break
        for text in texts:
            (path.parent / "new").write_text(text)
            (path.parent / "new").rename(path)
            done.wait(0.3)
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def filtered(steps):
    """For preexec_fn: install a seccomp filter."""
    code = b"".join(struct.pack("HBBI", *step) for step in steps)

    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    def install():
        libc = ctypes.CDLL(None, use_errno=True)
        no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
        if (libc.prctl(no_new_privileges, 1, 0, 0, 0)
                or libc.prctl(set_seccomp, filter_mode, ctypes.byref(Program(len(steps), code)))):
            raise OSError(ctypes.get_errno(), "seccomp")

    return install


def kernel_answers(number):
    """For preexec_fn: PR_SET_HYDRA, with the arguments of the interface, ends with the given errno (0: success).

    PR_GET_HYDRA succeeds, and leaves the settings as they are: 0 stands for those of Linux.
    """
    load, equal, give = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000
    prctl, set_hydra, get_hydra, size = 157, 0x48590001, 0x48590002, 16
    steps = [
        (load, 0, 0, 0), (equal, 0, 12, prctl),
        (load, 0, 0, 16), (equal, 11, 0, get_hydra), (equal, 0, 9, set_hydra),
        (load, 0, 0, 32), (equal, 0, 6, size),
        (load, 0, 0, 40), (equal, 0, 4, 0),
        (load, 0, 0, 48), (equal, 0, 2, 0),
        (give, 0, 0, refuse | number), (give, 0, 0, allow),
        (give, 0, 0, refuse | errno.EBADRQC), (give, 0, 0, allow), (give, 0, 0, refuse),
    ]
    return filtered(steps)


ACCEPTS = kernel_answers(0)


def refuses_text(text, number):
    """For preexec_fn: a write of as many bytes as the text has, to another file than the standard ones, ends with the given errno."""
    load, equal, above, give, write = 0x20, 0x15, 0x25, 0x06, 1
    return filtered([(load, 0, 0, 0), (equal, 0, 5, write), (load, 0, 0, 16), (above, 0, 3, 2), (load, 0, 0, 32), (equal, 0, 1, len(text)),
                     (give, 0, 0, 0x00050000 | number), (give, 0, 0, 0x7FFF0000)])


def refuses_files(number):
    """For preexec_fn: to make a new file that has no name yet ends with the given errno."""
    return refuses_changes(number, os.O_RDWR | os.O_CREAT | os.O_EXCL)


def refuses_changes(number, flags=os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC):
    """For preexec_fn: to open a file of the kernel for writing alone ends with the given errno."""
    load, equal, give, openat = 0x20, 0x15, 0x06, 257
    return filtered([(load, 0, 0, 0), (equal, 0, 3, openat), (load, 0, 0, 32), (equal, 0, 1, flags),
                     (give, 0, 0, 0x00050000 | number), (give, 0, 0, 0x7FFF0000)])
