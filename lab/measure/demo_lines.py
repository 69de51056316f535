# SPDX-License-Identifier: GPL-2.0-only
"""The lines of the demo's table, in their order: interrupts, then where entries are read from, then what both cost."""
from lab.measure.values import Line

CPUS = 2                     # of each node
NOISE = 0.1                  # how much Apache's counts differ from one run to the next

# Times and rates: no column wins, and the words say why.
WAITS = "No column wins: the time is that of waits for interrupts, and an emulator whose CPUs share a few real ones makes these longer than a real machine."
REQUESTS = "No column wins: more requests are better, but an emulator's memory is equally far from all nodes, and its interrupts are slow."
ONE_NODE = "No column wins: all threads of the server are on one node, and what differs is the emulator's time for interrupts and page tables of two cores."
QUIET = "No column wins: one thread runs, nothing is shared, and an emulator's time differs by more than the policies do."


def of_loop(row, operation, each, nodes):
    far, near = "remote-spinners", "remote-and-local-spinners"
    return [
        Line(row, far, "interrupts_per_op", f"interrupts {each} of {operation}, threads busy on all CPUs of {others(nodes)}",
             "The busy threads only compute. None of their CPUs needs the interrupt."),
        Line(row, near, "interrupts_per_op", f"interrupts {each} of {operation}, one more thread busy on the same node",
             "No busy CPU needs the interrupt. Hydra tells nodes apart, RadixVM and ABIS also the cores of a node."),
    ]


def others(nodes):
    return "the other node" if nodes == 2 else f"the {nodes - 1} other nodes"


def lines(loops, wide):
    """Loops: the nodes of the loops' machine; wide: of the machine of Apache and of the page tables."""
    return [
        *of_loop("mprotect", "mprotect of one page", "per call", loops),
        *of_loop("munmap", "mmap, touch, munmap of one page", "per round", loops),
        Line("apache", "quiet", "interrupts_per_request", f"interrupts per request to Apache, server threads on one CPU of each of {wide} nodes",
             "Each request maps a file, reads it and unmaps it. No other thread touches the mapping.", about=NOISE),
        Line("apache", "all-cpus", "interrupts_per_request", f"interrupts per request to Apache, server threads on all {CPUS * wide} CPUs",
             "Here the server also has threads on the other CPU of each node.", about=NOISE),
        Line("apache", "one-node", "interrupts_per_request", "interrupts per request to Apache, server threads on the two CPUs of one node",
             "Mitosis and Hydra leave a process on one node as it is. RadixVM and ABIS tell its two cores apart.", about=NOISE),
        Line("locality", "shared", "local_leaf_share", f"page-table entries of data which all {wide} nodes read: share which a node reaches in its own memory",
             "The share is that of the node which has the least. Under Linux all these tables are on the node which wrote the data.", "most"),
        Line("locality", "private", "local_leaf_share", "page-table entries of data which each node keeps private: share which a node reaches in its own memory",
             "No column wins: the entries of a node's own data are local under Linux, too, and the node never reads those of the other nodes' data.", ""),
        Line("locality", "shared", "pagetable_kib", f"page tables, KiB: data which all {wide} nodes read",
             "What local reads of shared data cost: a copy of each page table on each node, or for each core that runs a thread; here one on each node does."),
        Line("locality", "private", "pagetable_kib", "page tables, KiB: data which each node keeps private (1 GiB)",
             "Mitosis copies each page table to all nodes. The others copy it to those which use it. One thread runs on each node."),
        Line("mprotect", "remote-spinners", "us_per_op", "an emulator's time, Linux = 1: mprotect, threads busy on the other nodes",
             WAITS, ""),
        Line("munmap", "remote-spinners", "us_per_op", "an emulator's time, Linux = 1: mmap, touch, munmap, threads busy on the other nodes",
             WAITS, ""),
        Line("apache", "quiet", "requests_per_s", "an emulator's requests per second, Linux = 1: one CPU of each node", REQUESTS, ""),
        Line("apache", "all-cpus", "requests_per_s", "an emulator's requests per second, Linux = 1: all CPUs", REQUESTS, ""),
        Line("mprotect", "quiet", "us_per_op", "an emulator's time, Linux = 1: mprotect, no other thread", QUIET, ""),
        Line("munmap", "quiet", "us_per_op", "an emulator's time, Linux = 1: mmap, touch, munmap, no other thread", QUIET, ""),
        Line("apache", "one-node", "requests_per_s", "an emulator's requests per second, Linux = 1: one node", ONE_NODE, ""),
        Line("locality", "quiet", "us_per_op", "an emulator's time, Linux = 1: one thread writes and reads 64 MiB", QUIET, ""),
    ]


LINES = lines(8, 4)
