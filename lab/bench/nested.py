# SPDX-License-Identifier: GPL-2.0-only
"""What nested page tables of a virtual machine cost by policy: beside the figures and tables of the vMitosis paper."""
import dataclasses

from lab import policies
from lab.bench.core import Bench, Step
from lab.kernel import build
from lab.machine import programs, vm
from lab.measure.limits import Check
from lab.measure.values import Line

NODES, CPUS = 4, 2
PAGES = 2048                 # of the guest, 4 KiB each
LEAVES = PAGES // 512
CASES = {"shared": f"{NODES} nodes use all pages", "pair": "two nodes use all pages",
         "private": f"{NODES} nodes use pages of their own", "moved": "the machine has moved to another node",
         "followed": "the machine and its memory have moved, and the tables of one tree have followed",
         "dropped": "the host takes away a page of one node",
         "shared-huge": f"{NODES} nodes use all pages, of 2 MiB", "dropped-huge": "the host takes away a page of 2 MiB of one node"}
DROPS = ("dropped", "dropped-huge")
SHARERS = {"shared": NODES, "pair": 2}
# Of a further node, with huge pages: one for the guest's first memory, whose neighbours are copied along, and one for a GiB.
HUGE_EXITS = 2
COLUMNS = ("linux", "hydra")         # a machine has a tree for each node, or one
NOT_HERE = ("Not measurable in an emulator: all times (figures 1 and 3 to 6, table 5), interference by other programs, the processor's caches of page walks, "
            "waiting for mmu_lock, and the stopwatch of NO-F. All shares are of page-table entries, not of a program's page walks.")


def steps():
    return tuple(Step(case, policy, ("--policy", policy), ("nested", "--what", case)) for case in CASES for policy in COLUMNS)


def taken(step, seen):
    made = [("active", seen["active"], "machines"), ("fallbacks", seen["fallbacks"], "times")]
    if step.case in DROPS:
        return made + [("flushes_per_drop", seen["flushes"] / seen["drops"], "vCPUs"), ("vcpus", seen["vcpus"], "vCPUs"), ("users", seen["users"], "vCPUs")]
    last = seen["nodes"] - 1
    gone = step.case in ("moved", "followed")
    nodes = [last] if gone else range(SHARERS.get(step.case, seen["nodes"]))
    shares = [seen["local"][node] / (seen["local"][node] + seen["remote"][node]) for node in nodes]
    exits = [seen["exits"]] if gone else seen["exits"][1:]
    tables = seen["tables"]
    return made + [("local_share", min(shares), "share"), ("leaf_tables", tables["leaf"], "tables"), ("other_tables", tables["other"], "tables"),
                   ("nested_kib", 4 * sum(tables.values()), "KiB"),
                   ("tables_before", sum(seen.get("before", {}).values()), "tables"), ("exits", max(exits), "exits")]


def check(values, columns):
    def get(case, policy, metric):
        return values.get("nested", case, policy, metric)

    def one(text, seen, passed):
        return Check("nested", text, str(seen), passed)
    for policy in columns:
        trees, called = NODES if policy == "hydra" else 1, policies.called(policy)
        yield one(f"{called}: {'a tree for each node' if trees > 1 else 'one tree'} in each case, and no fallback",
                  [get(case, policy, "active") for case in CASES],
                  all((get(case, policy, "active"), get(case, policy, "fallbacks")) == (trees > 1, 0) for case in CASES))
        for case, sharers in SHARERS.items():
            seen, wanted = get(case, policy, "leaf_tables"), LEAVES * min(trees, sharers)
            yield one(f"{CASES[case]}, {called}: leaf tables exactly {wanted}", seen, seen == wanted)
            seen, wanted = get(case, policy, "exits"), LEAVES - 1 if trees > 1 else 0
            yield one(f"{CASES[case]}, {called}: exits of each further node for missing entries exactly {wanted}, 1 for 2 MiB, less the one before the count",
                      seen, seen == wanted)
        seen = get("private", policy, "leaf_tables")
        yield one(f"{CASES['private']}, {called}: leaf tables exactly {LEAVES}", seen, seen == LEAVES)
        tables, seen = get("shared-huge", policy, "leaf_tables"), get("shared-huge", policy, "exits")
        wanted = HUGE_EXITS if trees > 1 else 0
        yield one(f"{CASES['shared-huge']}, {called}: no leaf table, and exits of each further node exactly {wanted}", f"{tables}, {seen}", (tables, seen) == (0, wanted))
        for case in DROPS:
            seen, users, vcpus = (get(case, policy, metric) for metric in ("flushes_per_drop", "users", "vcpus"))
            wanted = users if trees > 1 else vcpus
            yield one(f"{CASES[case]}, {called}: vCPUs flushed each time exactly {wanted} of {vcpus}", seen, seen == wanted)
        for case in ("moved", "followed"):
            now, before = get(case, policy, "leaf_tables") + get(case, policy, "other_tables"), get(case, policy, "tables_before")
            yield one(f"{CASES[case]}, {called}: as many tables as before", f"{now} and {before}", now == before)
        share, seen = get("followed", policy, "local_share"), get("followed", policy, "exits")
        yield one(f"{CASES['followed']}, {called}: all entries in tables of the new node, without an exit", f"{100 * share:.0f} %, {seen}",
                  (share, seen) == (1, 0))
        share = get("moved", policy, "local_share")
        yield one(f"{CASES['moved']}, {called}: entries in tables of the new node: {'all' if trees > 1 else 'none'}", f"{100 * share:.0f} %",
                  share == (1 if trees > 1 else 0))
    for case in ("shared", "pair", "private", "shared-huge"):
        share = get(case, "hydra", "local_share")
        yield one(f"{CASES[case]}, Hydra: each node reaches all entries in its own memory", f"{100 * share:.0f} %", share == 1)
    for case, sharers in SHARERS.items():
        more, linux = (get(case, policy, "nested_kib") for policy in ("hydra", "linux"))
        yield one(f"{CASES[case]}, Hydra: nested tables at most 1.02 x {sharers} x Linux's", f"{more} and {linux} KiB", more <= 1.02 * sharers * linux)
    # Each tree has these tables once: the root, the upper tables, and the table of the program that all vCPUs run. There are more of them than leaf tables of
    # 8 MiB. So "at most 1.05 times Linux's, plus roots" has two exact limits here: no leaf table more, and these. Each GiB has 512 leaf tables, and one upper table.
    for case in ("private", "shared-huge"):
        more, linux = (get(case, policy, "other_tables") for policy in ("hydra", "linux"))
        yield one(f"{CASES[case]}, Hydra: beside the leaf tables, {NODES} trees have exactly what {NODES} times one tree of Linux has", f"{more} and {linux}",
                  more == NODES * linux)


LINES = (
    Line("nested", "shared", "local_share", f"entries which a node reaches in its own memory, {CASES['shared']} (the node with the lowest share)", "", ""),
    Line("nested", "shared", "leaf_tables", f"leaf tables of 8 MiB, {CASES['shared']}", "A copy on each node."),
    Line("nested", "pair", "leaf_tables", f"leaf tables of 8 MiB, {CASES['pair']}", "The nodes that use no page have no tables."),
    Line("nested", "private", "leaf_tables", f"leaf tables of 8 MiB, {CASES['private']}", "Memory of one node has no second copy."),
    Line("nested", "private", "other_tables", "roots, upper tables and the table of the guest's first memory", "", ""),
    Line("nested", "pair", "nested_kib", f"all nested tables, KiB, {CASES['pair']}", "Linux has one copy, Hydra two.", ""),
    Line("nested", "shared", "nested_kib", f"all nested tables, KiB, {CASES['shared']}", "Linux has one copy, Hydra four.", ""),
    Line("nested", "shared", "exits", f"exits of each further node for missing entries, {PAGES} pages",
         "The first node takes one for each page, with one tree or several."),
    Line("nested", "moved", "local_share", "entries in tables of the new node, after the machine has moved and used its pages once", "", ""),
    Line("nested", "moved", "exits", "exits for missing entries in that pass", "", ""),
    Line("nested", "followed", "local_share", f"the same, {CASES['followed']}", "Under Linux with tables=follow.", ""),
    Line("nested", "dropped", "flushes_per_drop", "vCPUs flushed when the host takes away a page that 2 vCPUs of one node use, of 7 which run on 4 nodes", "",
         ""),
    Line("nested", "shared-huge", "local_share", f"with pages of 2 MiB: entries which a node reaches in its own memory, {CASES['shared']}", "", ""),
    Line("nested", "shared-huge", "other_tables", f"with pages of 2 MiB: nested tables, {CASES['shared']}", "None is a leaf table of the pages."),
    Line("nested", "shared-huge", "exits", "with pages of 2 MiB: all exits of each further node for missing entries",
         "One for the guest's first memory, and one for each GiB."),
    Line("nested", "dropped-huge", "flushes_per_drop", "with pages of 2 MiB: vCPUs flushed when the host takes one away, as above", "", ""),
)

PAPER = ("vMitosis (ASPLOS 2021), table 6: 3, 6 and 12 GB of nested tables for 1, 2 and 4 copies, for a program of 1.5 TiB. After a move that "
         "leaves both page tables behind, programs run 1.8 to 3.1 times as long (figure 3). Memcached then has half of its throughput, and all of it again some "
         "minutes later, when the tables have followed (figure 6).")
BENCH = Bench(
    "nested", "nested page tables of a virtual machine: where, how many, exits, flushes (vMitosis)", vm.Machine(NODES, CPUS, "2G", append=["nopku"]),
    (), steps(), LINES, taken, check,
    f"{PAPER} With one nested tree, figure 2a has less than 10 % of the page walks local in both dimensions, on 4 sockets. The paper's replicas are complete from "
    f"the start, so no exit warms a further node. A flush interrupts every vCPU. {NOT_HERE}",
    made=lambda: [programs.nested(build.tree())], machines=True, why_fixed="the guest's memory is divided among 4 nodes in whole leaf tables")
# For the demo, which says once for all tables what an emulator does not show.
BRIEF = dataclasses.replace(BENCH, paper=PAPER)
