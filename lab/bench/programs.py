# SPDX-License-Identifier: GPL-2.0-only
"""What whole programs of Debian cost under each policy, each with a fixed piece of work: interrupts, page tables, time."""
from lab import paths, policies, setup
from lab.bench.core import Bench, Step
from lab.machine import programs, vm
from lab.measure.limits import Check
from lab.measure.values import Line

NODES, PER_NODE = 4, 2
COMPILED = ("cmd_allow.o", "cmd_run.o", "cmd_set.o", "cmd_tables.o", "options.o", "table.o", "text.o", "watch.o")
LIMIT = 1200                 # seconds: on a busy host a step may take a minute
SERVERS, SERVED = (1, 2, 4), 10           # memcacheds bound to nodes; requests of each client: each protects 64 pieces twice
CPUS = (2, 4, 8)
WORK = str(paths.REPO / "lab/guest/guest_apps.py")
# case: (the words for guest_apps.py, what is done, who should switch what on)
CASES = {
    "redis": (("redis", "1"), "Redis saves its data (BGSAVE) while 5,000 values are written",
              "One thread does the work, and the others sleep: nothing to gain. Stay with Linux."),
    "redis-threads": (("redis", "4"), "Redis does the same with four threads for input and output",
                      "Threads that wait are busy, and all nodes use all page tables: filter by accessed bits, ABIS or hydra --filter accessed."),
    "memcached": (("cache", "memcached"), "Memcached stores 800 values, a thread and a client for each CPU",
                  "All nodes use all page tables, each thread few pages: filter by accessed bits, or page tables per core."),
    "memcached-mprotect": (("protected", "memcached", "protect_store.so"),
                           "Memcached answers 1,600 requests, a server of two threads for each two CPUs, which protects its store by mprotect between requests",
                           "A server protects its store when both of its threads wait, so Linux interrupts few CPUs; and both use all of the store, so they share its page table: "
                           "nothing to gain by table. Where both threads work at the same time, accessed bits may tell them apart: hydra --filter accessed."),
    "make": (("make", str(paths.REPO / "tools/hydractl"), *COMPILED), "make compiles eight files of C, a job for each CPU",
             "Processes of one thread: nothing to gain, and nothing to pay."),
    "pbzip2": (("compress",), "pbzip2 compresses 3 MB, a thread for each CPU, in a memory cgroup of 24 MiB",
               "Each thread has blocks of its own: ABIS, or Hydra, which saves half of the interrupts for fewer page tables."),
    "jvm": (("jvm", "Allocating.class"), "a JVM with the collector G1 allocates 125 MiB, a thread for each CPU",
            "Threads allocate in regions of their own: page tables per core save most, hydra --filter accessed takes half of their page tables."),
}
AUTO = "auto"
COLUMNS = {**{policy: ("--policy", policy) for policy in policies.POLICIES}, "node, accessed": ("--policy", "hydra", "--filter", "accessed"),
           AUTO: ("--policy", AUTO)}
# The policy looks ten times a second, at prices as high as the machine is slow: four CPUs for one of a host of two.
AT_PRICES = ("auto_prices", "--cpus", str(NODES * PER_NODE // 2), "--decide", "100", "--")
# The papers' sweeps: the same by CPUs, threads and processes.
SWEEPS = {
    **{f"apache, {cpus}": (("web", str(cpus)), f"Apache serves 400 pages of 16 KiB to eight clients, its threads pinned to {cpus} CPUs", "") for cpus in CPUS},
    **{f"pbzip2, {threads}": (("compress", str(threads)), f"pbzip2 compresses 3 MB with {threads} threads", "") for threads in CPUS},
    **{f"memcached, {servers}": (("protected", "memcached", "protect_store.so", str(servers), str(SERVED)),
                                 f"{servers} memcached{'s' * (servers > 1)} of two threads, each on one node, protect 64 MiB piece by piece, {SERVED * NODES * PER_NODE} requests", "")
       for servers in SERVERS},
}
# The columns of the papers' figures
SWEPT = {"apache": ("linux", "mitosis", "abis", "hydra", "hydra-nofilter"), "pbzip2": ("linux", "abis", "hydra"),
         "memcached": ("linux", "mitosis", "hydra", "hydra-nofilter")}
PACKAGES = ("redis-tools", "libevent-2.1-7", "openjdk-17-jdk-headless", "pbzip2")


def swept(case):
    return SWEPT[case.split(",")[0]]


def steps(cases, columns):
    """columns: of a case -> {column: the words for hydractl run}."""
    return tuple(Step(case, column, settings, (*(AT_PRICES if column == AUTO else ()), "/usr/bin/python3", "-I", WORK, *words))
                 for case, (words, _, _) in cases.items() for column, settings in columns(case).items())


def made():
    """Memcached's package would start a service. To compile Java in the emulator would take long."""
    return setup.unpacked("memcached") / "usr/bin/memcached", programs.java() / "Allocating.class"


def taken(_, seen):
    return [("interrupts", seen["interrupts"], "interrupts"), ("pagetable_kib", seen["pagetable_kib"], "KiB"), ("us_per_op", 1e6 * seen["seconds"], "us")]


def lines(row, cases):
    for case, (_, what, words) in cases.items():
        yield Line(row, case, "interrupts", f"{case}: interrupts while {what}", words, about=0.1)
        yield Line(row, case, "pagetable_kib", f"{case}: page tables of all its processes at most, KiB", "", about=0.1)
        yield Line(row, case, "us_per_op", f"{case}: an emulator's time, Linux = 1", "Of a busy host it says nothing.", "")


def check_of(row, cases, of_case=None):
    def check(values, columns):
        """Reported only: how often threads are on a CPU together is the scheduler's and the host's affair."""
        for case in cases:
            linux = values.get(row, case, "linux", "interrupts")
            for policy in [column for column in columns if column != "linux" and (not of_case or column in of_case(case))]:
                seen = values.get(row, case, policy, "interrupts")
                yield Check(row, f"{case}, {policies.called(policy)}: no more interrupts than Linux (not asserted)", f"{seen:,} against {linux:,}",
                            seen <= linux, asserted=False)
    return check


BENCH = Bench("programs", "whole programs: Redis, Memcached, a JVM, make, pbzip2 (interrupts, page tables)",
              vm.Machine(NODES, PER_NODE, "3G"), ("protect_store.so", "auto_prices"), steps(CASES, lambda _: COLUMNS), tuple(lines("programs", CASES)), taken,
              check_of("programs", CASES),
              "Figure 14 of the Hydra paper: memcached whose store mprotect guards has 50 to 96 % fewer shootdowns under Hydra, and 1.36 times the throughput, which an "
              "emulator cannot show. There the store has 10 GB, the load comes from another program, and the kernel, Linux 4.17, also interrupts idle CPUs. Of the others no paper has figures. The programs are Debian's, as users have them; the pieces of work are small. The emulator has no more than the host's "
              "CPUs for its eight, so two runs differ: compare what differs by half, not by a tenth.", packages=PACKAGES, made=made, limit=LIMIT,
              why_fixed="the pieces of work were chosen for eight CPUs")
SWEEP = Bench("sweeps", "Apache, pbzip2 and Memcached by CPUs, threads and servers (figures 13 and 14; figures 6 and 7 of ABIS)",
              vm.Machine(NODES, PER_NODE, "3G"), ("protect_store.so",), steps(SWEEPS, lambda case: {policy: ("--policy", policy) for policy in swept(case)}),
              tuple(lines("sweeps", SWEEPS)), taken, check_of("sweeps", SWEEPS, swept),
              "Hydra, figure 13: 45 % fewer shootdowns of Apache; figure 14: 50 to 96 % fewer of memcached. ABIS, figure 6: up to 90 % fewer of Apache; figure 7: of a "
              "shootdown of pbzip2, 10 remote cores for Linux's 18. Their kernels, 4.17 and 4.5, also interrupt CPUs that are idle. 'hydra-nofilter' is Hydra without its filter.",
              packages=("pbzip2", "libevent-2.1-7", "apache2-bin"), made=lambda: (setup.unpacked("memcached") / "usr/bin/memcached",), limit=LIMIT,
              why_fixed="its cases are the numbers of CPUs")
