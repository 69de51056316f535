# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the virtual machine: one program of Debian does a fixed piece of work, under the policy of this process.

Standard library only, any Python 3.9 or later. Prints one JSON object: the interrupts for TLB shootdowns of all CPUs meanwhile, the most page
tables there were meanwhile beyond those before the program started, and the seconds. Each function prepares a program and returns what does the work.
Messages go to stderr; the exit status is 1 if a program fails.
"""
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import guest_measure  # noqa: E402  (what serves web pages stands there)

HOME = pathlib.Path(f"/dev/shm/apps-{os.getpid()}")
JAVA = "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"
PORT = 7000
THREADS = len(os.sched_getaffinity(0))
PAGES = 50                   # that each client of the web server gets
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
REQUESTS, KEYS = 200, 1000   # of each client to memcached with a protected store; what each store has
SECONDS = 300                # for one program to start, or for its work: a busy host is slow

servers = []                 # what start() has started


class Failure(Exception):
    """A program that did not do its work."""


def interrupts():
    for line in pathlib.Path("/proc/interrupts").read_text(encoding="ascii").splitlines():
        name, _, rest = line.strip().partition(":")
        if name == "TLB":
            return sum(int(word) for word in rest.split() if word.isdigit())
    raise Failure("/proc/interrupts has no TLB line")


def page_tables():
    """KiB, of all processes."""
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("PageTables:"):
            return int(line.split()[1])
    raise Failure("/proc/meminfo has no line PageTables")


def settled():
    """page_tables(), once processes of before have ended: unchanged for a second."""
    seen, same = page_tables(), 0
    for _ in range(200):
        time.sleep(0.05)
        now = page_tables()
        seen, same = now, same + 1 if now == seen else 0
        if same == 20:
            break
    return seen


def until(right, what, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not right():
        if time.monotonic() > end:
            raise Failure(f"{what}: not after {seconds} seconds")
        time.sleep(0.05)


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            return True
    except ConnectionRefusedError:
        return False


def start(arguments, port=PORT, **how):
    """A server that ends with this process."""
    process = subprocess.Popen(arguments, **{**QUIET, **how})
    servers.append(process)
    until(lambda: process.poll() is not None or answers(port), f"{arguments[0]} answers")
    if process.poll() is not None:
        raise Failure(f"{arguments[0]} ended with status {process.returncode}")


def all_of(*commands):
    """Start all, and wait for all."""
    processes = [subprocess.Popen(command, **QUIET) for command in commands]
    return lambda: all(process.poll() is not None for process in processes), processes


def saving():
    """Whether Redis has not finished its BGSAVE."""
    with socket.create_connection(("127.0.0.1", PORT)) as link:
        link.sendall(b"INFO persistence\r\n")
        return b"rdb_bgsave_in_progress:1" in link.recv(4096)


def redis(threads):
    # Debian's redis-tools has the server, called redis-check-rdb unless it is started by its name, and starts no service.
    start(["redis-server", "--port", str(PORT), "--save", "", "--dir", str(HOME), "--io-threads", str(threads), "--io-threads-do-reads", "yes",
           "--rdb-key-save-delay", "200", "--rdbcompression", "no"],      # microseconds a key: saving takes as long as of a large store
          executable="/usr/bin/redis-check-rdb")
    load = ["redis-benchmark", "-p", str(PORT), "-t", "set", "-r", "10000", "-d", "1000", "-P", "16", "-q", "-n"]
    subprocess.run([*load, "10000"], check=True, **QUIET)

    def work():
        with socket.create_connection(("127.0.0.1", PORT)) as link:
            link.sendall(b"BGSAVE\r\n")
            if not link.recv(100).startswith(b"+Background"):
                raise Failure("redis does not save")
        written, processes = all_of([*load, "5000"])
        return lambda: written() and not saving(), processes
    return work


def memcached(path):
    start([path, "-p", str(PORT), "-U", "0", "-u", "root", "-t", str(THREADS), "-m", "64"])

    def client(number):
        chosen = random.Random(number)
        with socket.create_connection(("127.0.0.1", PORT)) as link:
            answer = link.makefile("rb")
            for _ in range(100):
                link.sendall(b"set key%d 0 0 1000\r\n%s\r\n" % (chosen.randrange(10000), b"x" * 1000))
                if answer.readline() != b"STORED\r\n":
                    raise Failure("memcached does not store")

    return lambda: clients(client)


def clients(client):
    """A process for each CPU that calls client(its number)."""
    children = []
    for number in range(THREADS):
        children.append(os.fork())
        if not children[-1]:
            try:
                client(number)
                os._exit(0)
            finally:
                os._exit(1)

    def over():
        for child in list(children):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                children.remove(child)
            if pid and status:
                raise Failure("a client failed")
        return not children
    return over, []


def protected(path, library, servers_wanted=0, requests=REQUESTS):
    """As in the Hydra paper, section 5.6.4: servers of two threads, whose store can be written only during requests; one request in ten stores.

    If a number of servers is wanted, each is bound to a node, and protects a store of 64 MiB piece by piece.
    """
    bound = int(servers_wanted)
    ports = range(PORT, PORT + (bound or max(1, THREADS // 2)))
    nodes = guest_measure.node_cpus()
    for number, port in enumerate(ports):
        there = ["taskset", "-c", ",".join(map(str, sorted(nodes[number % len(nodes)])))] if bound else []
        start([*there, path, "-p", str(port), "-U", "0", "-u", "root", "-t", "2", "-m", "64", "-o", "no_lru_maintainer,no_lru_crawler,no_slab_reassign,no_hashexpand"],
              port, env={**os.environ, "LD_PRELOAD": library, **({"PROTECT_PIECES": "1"} if bound else {})})

    def words(key, store):
        name = b"%032d" % key
        return b"set %s 0 0 256\r\n%s\r\n" % (name, b"x" * 256) if store else b"get %s\r\n" % name

    def expect(answer, store):
        got = [answer.readline() for _ in range(1 if store else 3)]
        if got[-1] != (b"STORED\r\n" if store else b"END\r\n"):
            raise Failure(f"memcached does not {'store' if store else 'find'}: {got}")

    def fill(port):
        """At once: a server that is asked for one key after the other protects its store between any two, which takes minutes."""
        with socket.create_connection(("127.0.0.1", port)) as link:
            answer = link.makefile("rb")
            link.sendall(b"".join(words(key, True) for key in range(KEYS)))
            for _ in range(KEYS):
                expect(answer, True)

    def client(number):
        chosen = random.Random(number)
        with socket.create_connection(("127.0.0.1", ports[number % len(ports)])) as link:
            answer = link.makefile("rb")
            for _ in range(int(requests)):
                key, store = chosen.randrange(KEYS), chosen.random() < 0.1
                link.sendall(words(key, store))
                expect(answer, store)
    for port in ports:
        fill(port)
    return lambda: clients(client)


def java(compiled):
    compiled = pathlib.Path(compiled)
    return lambda: all_of([JAVA, "-XX:+UseG1GC", "-XX:-UsePerfData", "-Xms32m", "-Xmx256m", "-cp", str(compiled.parent), compiled.stem, str(THREADS)])


def make(directory, *names):
    objects = HOME / "objects"
    return lambda: all_of(["make", "-s", f"-j{THREADS}", "-C", directory, f"O={objects}", *(str(objects / name) for name in names)])


def web(cpus):
    """Apache, its threads pinned to so many CPUs in turn, first of different nodes; a client for each CPU."""
    def placement(nodes):
        order = sorted(set().union(*nodes), key=lambda cpu: next((sorted(node).index(cpu), number) for number, node in enumerate(nodes) if cpu in node))
        return set(order[:int(cpus)]), order[:int(cpus)], set(order)
    lab = types.SimpleNamespace(home=HOME, under=lambda _, *command: list(map(str, command)))
    server = guest_measure.Server(lab, "", PORT, placement)
    servers.append(server.process)

    def client(_):
        with socket.create_connection(("127.0.0.1", PORT)) as link:
            answer = link.makefile("rb")
            for _ in range(PAGES):
                link.sendall(b"GET /page.html HTTP/1.1\r\nHost: localhost\r\n\r\n")
                if not answer.readline().startswith(b"HTTP/1.1 200"):
                    raise Failure("Apache does not serve the page")
                while answer.readline().strip():
                    pass
                if len(answer.read(guest_measure.PAGE_BYTES)) < guest_measure.PAGE_BYTES:
                    raise Failure("Apache serves a part of the page")
    return lambda: clients(client)


def pbzip2(threads=THREADS):
    """With less memory than it wants: a memory cgroup's limit, and something to swap to."""
    chosen = random.Random(1)
    words = [bytes(chosen.randrange(97, 123) for _ in range(chosen.randrange(2, 9))) for _ in range(2000)]
    data = HOME / "text"
    data.write_bytes(b" ".join(chosen.choices(words, k=500_000)))
    if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)
    pathlib.Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory", encoding="ascii")
    group = pathlib.Path(tempfile.mkdtemp(prefix="limited-", dir="/sys/fs/cgroup"))
    (group / "memory.max").write_text("24M", encoding="ascii")
    if len(pathlib.Path("/proc/swaps").read_text(encoding="ascii").splitlines()) < 2:
        pathlib.Path("/sys/block/zram0/disksize").write_text("512M", encoding="ascii")
        subprocess.run(["mkswap", "-q", "/dev/zram0"], check=True)
        subprocess.run(["swapon", "/dev/zram0"], check=True)
    enter = f"echo $$ >{group}/cgroup.procs; exec pbzip2 -p{threads} -b2 -kf {data}"
    return lambda: all_of(["sh", "-c", enter])


def measure(work, tables_before):
    """Do the work, and count meanwhile."""
    tables, before, begun = [page_tables()], interrupts(), time.monotonic()
    over, processes = work()
    while not over():
        if time.monotonic() - begun > SECONDS:
            raise Failure(f"the work takes more than {SECONDS} seconds")
        tables.append(page_tables())
        time.sleep(0.05)
    bad = [process.args for process in processes if process.returncode]
    if bad:
        raise Failure(f"failed: {bad}")
    return {"interrupts": interrupts() - before, "pagetable_kib": max(tables) - tables_before, "seconds": time.monotonic() - begun}


WORKS = {"web": web, "redis": redis, "cache": memcached, "protected": protected, "jvm": java, "make": make, "compress": pbzip2}


def end(server):
    """Apache ends its children when it is asked to. Killed, it would leave them, with this program's output open: its reader would wait for ever."""
    server.terminate()
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def main():
    name, *arguments = sys.argv[1:]
    tables = settled()
    HOME.mkdir()
    try:
        print(json.dumps(measure(WORKS[name](*arguments), tables)))
    except (Failure, OSError, subprocess.CalledProcessError) as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        return 1
    finally:
        for server in servers:
            end(server)
        shutil.rmtree(HOME, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
