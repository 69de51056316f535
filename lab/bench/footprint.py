# SPDX-License-Identifier: GPL-2.0-only
"""How many page tables each policy needs for data that nodes share or keep: the paper's table 4."""
from lab import policies
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line

NODES, CPUS = 8, 2           # nodes unless --nodes says otherwise
SHARINGS = {"none": "each of {} nodes uses data of its own", "some": "pairs of nodes use each other's data", "full": "all {} nodes use all data"}
TABLES = 8                   # of the data of each node
PER_DOMAIN = 5               # a root of two pages (a kernel with page-table isolation), and three upper tables
STACK = 2                    # upper tables that lead to the main thread's stack only
TABLE_KIB, MAPPED_KIB = 4, 2048


def steps():
    return tuple(Step(sharing, policy, ("--policy", policy), ("footprint", "--sharing", sharing))
                 for sharing in SHARINGS for policy in policies.POLICIES)


def taken(_, seen):
    leaves = seen["data_tables"] + seen["replicas"] - seen["replicas_before"]
    return [("leaf_tables", leaves, "tables"),
            ("leaf_tables_share", leaves * TABLE_KIB / (seen["data_tables"] * MAPPED_KIB), "share"),
            ("program_copies", seen["replicas_before"], "tables"),
            ("other_tables", seen["all"] - seen["data_tables"] - seen["replicas"], "tables"),
            ("domains", seen["domains"], "domains"),
            ("data_tables", seen["data_tables"], "tables"), ("node_sharers", seen["node_sharers"], "sharers"),
            ("cpu_sharers", seen["cpu_sharers"], "sharers"), ("short", seen["fallbacks"] + seen["reclaimed"], "times")]


def expected_leaves(get, case, policy, nodes):
    """(leaf tables of the data, why so many)."""
    tables = get(case, policy, "data_tables")
    return {"linux": (tables, "one of each"), "mitosis": (nodes * tables, f"{nodes} of each: one on every node"),
            "hydra": (get(case, policy, "node_sharers"), "one for each node that uses it")}.get(
                policy, (get(case, policy, "cpu_sharers"), "one for each core that uses it"))


def check_on(nodes):
    def check(values, columns):
        def get(case, policy, metric):
            return values.get("footprint", case, policy, metric)
        for case, what in SHARINGS.items():
            for policy in columns:
                leaves, (wanted, why) = get(case, policy, "leaf_tables"), expected_leaves(get, case, policy, nodes)
                yield Check("footprint", f"{what.format(nodes)}, {policies.called(policy)}: leaf tables of the data exactly {wanted}, {why}", str(leaves),
                            leaves == wanted)
        for policy in columns[1:]:
            domains = nodes * (CPUS if policy in ("radixvm", "abis") else 1)
            stacks, who = (domains, "all") if policy == "mitosis" else (1, "one")
            for case in SHARINGS:
                ran, more = get(case, policy, "domains"), get(case, policy, "other_tables") - get(case, "linux", "other_tables")
                yield Check("footprint", f"{case} shared, {policies.called(policy)}: {domains} domains ran; each has at most a root (two pages) and 3 more "
                            f"tables above the leaf tables, and {who} of them {STACK} for the main thread's stack", f"{ran} domains, {more} tables",
                            ran == domains and more <= PER_DOMAIN * ran + STACK * stacks)
        short = sum(get(case, policy, "short") for case in SHARINGS for policy in columns)
        yield Check("footprint", "no copy was refused or reclaimed in any run", str(short), short == 0)
    return check


def lines(nodes):
    return (
        *(Line("footprint", case, "leaf_tables", f"leaf page tables of the data: {what.format(nodes)}",
               {"none": f"{TABLES * nodes} tables of 2 MiB each. RadixVM and ABIS count cores: the second core of a node has its own copy.",
                "some": "Each table is used by 2 nodes, 4 cores.", "full": f"Each table is used by {nodes} nodes, {CPUS * nodes} cores."}[case])
          for case, what in SHARINGS.items()),
        *(Line("footprint", case, "leaf_tables_share", f"the same for each byte of data: {what.format(nodes)}",
               "A leaf table of 4 KiB maps 2 MiB of data: 0.2 %.", "") for case, what in SHARINGS.items()),
        Line("footprint", "full", "other_tables", "all other page tables of the process: roots, upper tables, the program's own leaf tables",
             "A root and a few upper tables for each domain that ran, whatever the data."),
        Line("footprint", "full", "program_copies", "copies of the program's own leaf tables: code, stacks, kernel's data page", "All threads run the same code."),
    )


def on(nodes):
    return Bench(
        "footprint", "page tables for data that no, some and all nodes share (table 4)", vm.Machine(nodes, CPUS, "2G", append=["norandmaps"]),
        ("footprint",), steps(), lines(nodes), taken, check_on(nodes),
        "Table 4 of the Hydra paper: for each byte of a program Linux has 0.2 % of page tables, Mitosis 1.6 % (8 times), Hydra 0.28 to 0.42 % "
        "(1.4 to 2.2 times), and 1.55 % for XSBench, which shares all with all nodes (7.8 times). Their programs have 85 to 160 GB of data, ours has "
        f"{2 * TABLES * nodes} MiB: sharing decides the ratio, not size. Tables are counted, so an emulator shows all of it.",
        on=on, sizes=tuple(range(2, 17, 2)), why_fixed="pairs of nodes share, so their number has to be even")


BENCH = on(NODES)
