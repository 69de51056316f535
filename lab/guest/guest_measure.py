# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the virtual machine: makes the measurements and prints them, one JSON object per line.

Standard library only, any Python 3.9 or later. Lines are {"doing": text} before each step and
{"row", "case", "policy", "metric", "value", "unit"} for each value; apache gives one value per run.
Messages go to stderr; the exit status is 1 if a measurement could not be made.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SPINNERS = ("quiet", "remote", "remote-and-local")
PAGE_BYTES = 16 * 1024
APACHE = "/usr/sbin/apache2"
APACHE_MODULES = "/usr/lib/apache2/modules"
# One process, so that all threads share one address space; static files mapped, not sent by the kernel alone.
APACHE_CONFIG = """\
ServerRoot {directory}
ServerName localhost
PidFile {directory}/pid
Listen 127.0.0.1:{port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
User www-data
Group www-data
ServerLimit 1
StartServers 1
ThreadsPerChild {threads}
ThreadLimit {threads}
MaxRequestWorkers {threads}
MinSpareThreads {threads}
MaxSpareThreads {threads}
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
EnableMMAP On
EnableSendfile Off
ErrorLog {directory}/errors
LogLevel warn
DocumentRoot {directory}/pages
<Directory {directory}/pages>
    AllowOverride None
    Require all granted
</Directory>
"""


class Failure(Exception):
    """A measurement that could not be made."""


def put(**fields):
    print(json.dumps(fields), flush=True)


def shootdown_interrupts(text):
    """The sum of the TLB line of /proc/interrupts: shootdowns received by all CPUs."""
    for line in text.splitlines():
        name, _, rest = line.strip().partition(":")
        if name == "TLB":
            return sum(int(word) for word in rest.split() if word.isdigit())
    raise Failure("/proc/interrupts has no TLB line")


def read_interrupts():
    return shootdown_interrupts(pathlib.Path("/proc/interrupts").read_text(encoding="ascii"))


def node_cpus():
    """The CPUs of each node, as sets, in order of the nodes."""
    nodes = sorted(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:]))
    return [cpus for node in nodes if (cpus := cpu_set((node / "cpulist").read_text(encoding="ascii")))]


def cpu_set(text):
    """{0, 1, 4} from '0-1,4'."""
    cpus = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


class Lab:
    """Where the programs are, and what to run."""

    def __init__(self, options):
        self.policies = options.policies.split(",")
        self.options = options
        # Programs on the host's file system are read anew at every start; a copy in memory is not.
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="hydra-", dir="/dev/shm"))
        self.home.chmod(0o755)
        for program in options.programs:
            shutil.copy(program, self.home)

    def under(self, policy, *command):
        return [str(self.home / "hydractl"), "run", "--policy", policy, "--", *map(str, command)]

    def workload(self, policy, program, *arguments):
        """Run one of our workloads; returns what it reports."""
        command = self.under(policy, self.home / program, *arguments)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failure(f"{' '.join(command)}: exit status {done.returncode}")
        return json.loads(done.stdout)

    def turns(self):
        """Where times are compared: the policies take turns, and the published value is the median."""
        return [policy for run in range(self.options.runs) for policy in (self.policies[::-1] if self.options.everything and run % 2 else self.policies)]

    def counted(self):
        """Where counts are compared: once, unless everything is repeated."""
        return self.turns() if self.options.everything else self.policies

    def shootdown(self, row):
        for spinners in SPINNERS:
            quiet = spinners == "quiet"
            for policy in self.turns() if quiet else self.counted():
                put(doing=f"{row}, spinning threads: {spinners}, {policy}")
                length = ["--iterations", 10**9, "--seconds", self.options.quiet_seconds] if quiet else \
                    ["--iterations", self.options.iterations, "--seconds", self.options.seconds]
                seen = self.workload(policy, "shootdown", "--op", row, "--spinners", spinners, *length)
                same = {"row": row, "case": seen["case"], "policy": policy}
                put(**same, metric="interrupts_per_op", value=seen["interrupts_per_op"], unit="interrupts")
                put(**same, metric="us_per_op", value=seen["us_per_op"], unit="us")
                put(**same, metric="domains_without_tables", value=seen["domains_without_tables"], unit="domains")

    def locality(self):
        for case in ("shared", "private"):
            for policy in self.counted():
                put(doing=f"locality, {case} data, {policy}")
                # Enough private data that the tables that come with any process do not decide.
                mib = self.options.mib * (4 if case == "private" else 1)
                seen = self.workload(policy, "locality", "--case", case, "--mib", mib)
                same = {"row": "locality", "case": case, "policy": policy}
                put(**same, metric="local_leaf_share", value=seen["local_leaf_share"], unit="share")
                put(**same, metric="pagetable_kib", value=seen["pagetable_kib"], unit="KiB")
                put(**same, metric="pagetable_kib_before", value=seen["pagetable_kib_before"], unit="KiB")
        for policy in self.turns():
            put(doing=f"locality, one node, {policy}")
            seen = self.workload(policy, "locality", "--case", "quiet", "--mib", self.options.quiet_mib)
            put(row="locality", case="quiet", policy=policy, metric="us_per_op", value=seen["us_per_op"], unit="us")

    def apache(self):
        self.serve("quiet", self.options.web_seconds, one_cpu_of_each_node)
        self.serve("all-cpus", self.options.short_web_seconds, all_cpus)
        self.serve("one-node", self.options.short_web_seconds, first_node)

    def serve(self, case, seconds, placement):
        servers = {}
        try:
            for port, policy in enumerate(self.policies, 8080):
                put(doing=f"apache, {case}: starting the server, {policy}")
                servers[policy] = Server(self, policy, port, placement)
            for policy in self.turns():
                put(doing=f"apache, {case}, {policy}")
                requests, rate, interrupts = servers[policy].load(seconds)
                same = {"row": "apache", "case": case, "policy": policy}
                put(**same, metric="interrupts_per_request", value=interrupts / requests, unit="interrupts")
                put(**same, metric="requests_per_s", value=rate, unit="requests/s")
        finally:
            for server in servers.values():
                server.stop()


def one_cpu_of_each_node(nodes):
    """Server threads pinned to the first CPU of each node; the load generator has the other CPUs."""
    own = {min(node) for node in nodes if len(node) > 1}
    return own, sorted(own), set().union(*nodes) - own


def all_cpus(nodes):
    """Server threads pinned to all CPUs in turn; the load generator runs on any CPU."""
    every = set().union(*nodes)
    return every, sorted(every), every


def first_node(nodes):
    """The scheduler moves server threads between the CPUs of the first node; the load generator has the other nodes."""
    return nodes[0], [], set().union(*nodes) - nodes[0]


class Server:
    """One Apache under one policy.

    Placement: a function of the nodes' CPUs that gives the server's CPUs, the CPUs to which its threads are pinned in turn
    (none: the scheduler decides), and the load generator's CPUs.
    """

    def __init__(self, lab, policy, port, placement):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="apache-", dir=lab.home))
        self.directory.chmod(0o755)
        (self.directory / "pages").mkdir()
        (self.directory / "pages" / "page.html").write_bytes(b"<p>Hydra.</p>\n".ljust(PAGE_BYTES, b"."))
        self.url = f"http://127.0.0.1:{port}/page.html"
        nodes = node_cpus()
        own, pinned, load_cpus = placement(nodes)
        self.load_cpus = sorted(load_cpus)
        # Twice as many threads as connections: a server short of threads would close connections on wrk.
        self.threads = 2 * sum(map(len, nodes))
        config = APACHE_CONFIG.format(directory=self.directory, port=port, modules=APACHE_MODULES, threads=self.threads)
        (self.directory / "apache.conf").write_text(config, encoding="ascii")
        there = [] if pinned else ["taskset", "-c", ",".join(map(str, sorted(own)))]
        self.process = subprocess.Popen([*there, *lab.under(policy, APACHE, "-d", self.directory, "-f",
                                                            self.directory / "apache.conf", "-D", "FOREGROUND")])
        self.wait_until_it_answers(port)
        if pinned:
            self.pin(pinned)

    def wait_until_it_answers(self, port):
        import socket
        for _ in range(600):
            if self.process.poll() is not None:
                raise Failure(f"Apache ended with status {self.process.returncode}: {self.errors()}")
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
                    link.sendall(b"GET /page.html HTTP/1.0\r\n\r\n")
                    link.settimeout(30)
                    if link.recv(64).startswith(b"HTTP/1.1 200"):
                        return
                    raise Failure(f"Apache does not serve the page: {self.errors()}")
            except ConnectionRefusedError:
                time.sleep(0.1)
        raise Failure("Apache does not answer")

    def errors(self):
        log = self.directory / "errors"
        return log.read_text(encoding="utf-8", errors="replace")[-500:] if log.exists() else "(no error log)"

    def pin(self, cpus):
        """Wait for all threads of the server (workers, listener, main thread), then pin them to the CPUs in turn."""
        worker = max(children_of(self.process.pid), key=lambda pid: len(os.listdir(f"/proc/{pid}/task")))
        for _ in range(600):
            threads = sorted(int(name) for name in os.listdir(f"/proc/{worker}/task"))
            if len(threads) >= self.threads + 2:
                break
            time.sleep(0.1)
        for number, thread in enumerate(threads):
            try:
                os.sched_setaffinity(thread, {cpus[number % len(cpus)]})
            except ProcessLookupError:
                pass        # Apache's starting thread ends once it has started the workers

    def load(self, seconds):
        """Load it with wrk; returns (requests, requests per second, shootdown interrupts)."""
        before = read_interrupts()
        done = subprocess.run(["taskset", "-c", ",".join(map(str, self.load_cpus)), "wrk", "-t", "1", "-c", str(self.threads // 2), "-d", f"{seconds}s", "--timeout", "30s", self.url],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        interrupts = read_interrupts() - before
        requests, rate = wrk_result(done.stdout)
        if done.returncode:
            raise Failure(f"wrk: exit status {done.returncode}\n{done.stdout}")
        return requests, rate, interrupts

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def wrk_result(text):
    """(requests, requests per second) from what wrk prints; any request that went wrong is a failure."""
    count = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec: +([\d.]+)", text)
    if not count or not rate or int(count[1]) == 0 or "Non-2xx" in text or "Socket errors" in text:
        raise Failure(f"wrk did not get all its pages:\n{text}")
    return int(count[1]), float(rate[1])


def children_of(pid):
    found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in found] or [pid]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--programs", nargs="+", required=True, help="hydractl and the workloads")
    options.add_argument("--policies", required=True, help="separated by commas")
    options.add_argument("--iterations", type=int, default=2000, help="operations per loop at most")
    options.add_argument("--seconds", type=int, default=3, help="seconds per loop at most")
    options.add_argument("--runs", type=int, default=3, help="alternating runs where times are compared")
    options.add_argument("--everything", action="store_true", help="repeat also where counts are compared, every second time backwards")
    options.add_argument("--web-seconds", type=int, default=3, help="seconds of each run with server threads on one CPU of each node")
    options.add_argument("--mib", type=int, default=256, help="data of the locality table")
    options.add_argument("--quiet-seconds", type=int, default=1, help="seconds per loop where no other thread runs")
    options.add_argument("--short-web-seconds", type=int, default=2,
                         help="seconds of each run with server threads on all CPUs, or on one node")
    options.add_argument("--quiet-mib", type=int, default=64, help="data of a process on one node")
    options.add_argument("--rows", nargs="+", required=True)
    options = options.parse_args()
    lab = Lab(options)
    rows = {"mprotect": lambda: lab.shootdown("mprotect"), "munmap": lambda: lab.shootdown("munmap"),
            "apache": lab.apache, "locality": lab.locality}
    try:
        for row in options.rows:
            rows[row]()
    except Failure as failure:
        print(f"measurement failed: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
