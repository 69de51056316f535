# SPDX-License-Identifier: GPL-2.0-only
"""The numbers of docs/lab.md, compared with what the measurements assert, and those of README.md and docs/hydractl.md with docs/lab.md.

Each row of a table takes the place of what its measurement counted, and has to keep the measurement's limits. A cell that is
changed has to break one, unless UNCOMPARED lists the cell: then no measurement asserts the number.
"""
import dataclasses
import re

import pytest
import test_bench_operations
import test_benches
import test_measure

from lab import paths, policies
from lab.bench import choice, core, operations, patterns
from lab.measure import limits
from lab.meter import steps_limits, steps_samples

README = (paths.REPO / "README.md").read_text(encoding="utf-8")
LAB = (paths.REPO / "docs/lab.md").read_text(encoding="utf-8")
TOOL = (paths.REPO / "docs/hydractl.md").read_text(encoding="utf-8")
GUIDE = (paths.REPO / "kernel/Documentation/admin-guide/mm/hydra.rst").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a row comes from: "demo", or a measurement of ./hydra bench; and which of its values."""
    name: str
    row: str
    case: str
    metric: str


def source(name, case, metric):
    return Source(name, name, case, metric)


FAR, NEAR = "remote-spinners", "remote-and-local-spinners"
# The first words of a row: where its numbers come from.
ROWS = {
    "`mprotect` of one page": Source("demo", "mprotect", FAR, "interrupts_per_op"),
    "`mprotect`, with one more": Source("demo", "mprotect", NEAR, "interrupts_per_op"),
    "`mmap`, touch, `munmap` of one page": Source("demo", "munmap", FAR, "interrupts_per_op"),
    "`mmap`, touch, `munmap`, with one more": Source("demo", "munmap", NEAR, "interrupts_per_op"),
    "Apache, a page": Source("demo", "apache", "quiet", "interrupts_per_request"),
    "Apache, server threads on all": Source("demo", "apache", "all-cpus", "interrupts_per_request"),
    "Apache, server threads on the two": Source("demo", "apache", "one-node", "interrupts_per_request"),
    "entries which a node reaches in its own memory, data": Source("demo", "locality", "shared", "local_leaf_share"),
    "KiB, data which all": Source("demo", "locality", "shared", "pagetable_kib"),
    "KiB, data which each": Source("demo", "locality", "private", "pagetable_kib"),
    "`footprint`: leaf tables": source("footprint", "none", "leaf_tables"),
    "`footprint`: pairs": source("footprint", "some", "leaf_tables"),
    "`footprint`: all nodes": source("footprint", "full", "leaf_tables"),
    "`prefetch`": source("prefetch", "first", "first_fills"),
    "`pipeline-64`: interrupts": source("pipeline-64", "local", "interrupts"),
    "`pipeline-64`: the thread on the next": source("pipeline-64", "pipeline", "other_node_interrupts"),
    "`pipeline-64`: all threads": source("pipeline-64", "global", "interrupts"),
    "`sharing`: interrupts": source("sharing", "sync", "interrupts_per_op"),
    "`sharing`: a thread's page of a file is reclaimed": source("sharing", "reclaim", "interrupts_per_op"),
    "`operations`": source("operations", "mprotect-4m, apart", "instructions_of_linux"),
    "`apps`: interrupts": source("apps", "jit-new", "interrupts_per_op"),
    "`apps`: a WebAssembly": source("apps", "wasm-own", "interrupts_per_op"),
    "`apps`: the memories": source("apps", "wasm-pool", "interrupts_per_op"),
    "`apps`: a thread writes": source("apps", "save", "interrupts_per_op"),
    "entries which a node reaches in its own memory (the node": source("nested", "shared", "local_share"),
    "the same after the machine": source("nested", "moved", "local_share"),
    "the same, the machine's memory": source("nested", "followed", "local_share"),
    "vCPUs flushed": source("nested", "dropped", "flushes_per_drop"),
    "leaf tables, all nodes": source("nested", "shared", "leaf_tables"),
    "leaf tables, two nodes": source("nested", "pair", "leaf_tables"),
    "leaf tables, each node": source("nested", "private", "leaf_tables"),
    "exits of each further": source("nested", "shared", "exits"),
    "pages of 2 MiB: entries": source("nested", "shared-huge", "local_share"),
    "pages of 2 MiB: vCPUs": source("nested", "dropped-huge", "flushes_per_drop"),
    "pages of 2 MiB: nested tables": source("nested", "shared-huge", "other_tables"),
    "pages of 2 MiB: all exits": source("nested", "shared-huge", "exits"),
    "data of all nodes alike": source("walks", "uniform", "both_local_share"),
    "... with both on other nodes": source("walks", "uniform", "both_remote_share"),
    "data set up by one thread": source("walks", "one", "least_local_share"),
    "vCPUs interrupted for a `munmap`": source("walks", "uniform", "interrupts_per_munmap"),
    "... and exits to the host": source("walks", "uniform", "exits_per_munmap"),
}
ALLOCATORS = {
    "`mmap` and `munmap`, holds 16": source("allocators", "mmap stateful", "interrupts_per_op"),
    "`mmap` and `munmap`, holds none": source("allocators", "mmap stateless", "interrupts_per_op"),
    "glibc, holds 16": source("allocators", "glibc stateful", "interrupts_per_op"),
    "jemalloc, decay 0, holds 16": source("allocators", "jemalloc-0 stateful", "interrupts_per_op"),
    "jemalloc, decay 0, holds none": source("allocators", "jemalloc-0 stateless", "interrupts_per_op"),
    "jemalloc, default decay, holds 16": source("allocators", "jemalloc stateful", "interrupts_per_op"),
    "jemalloc, default decay, holds none": source("allocators", "jemalloc stateless", "interrupts_per_op"),
    "tcmalloc, either": source("allocators", "tcmalloc stateful", "interrupts_per_op"),
    "page tables, KiB: jemalloc": source("allocators", "jemalloc-0 stateful", "pagetable_kib"),
}
# Numbers that no limit looks at.
UNCOMPARED = {
    # Apache's counts change with the load of the host.
    *(("Apache, a page", column) for column in ("linux", "mitosis", "radixvm", "abis")),
    *(("Apache, server threads on all", column) for column in ("mitosis", "radixvm")),
    *(("Apache, server threads on the two", column) for column in policies.POLICIES),
    # Under Linux some entries are local by chance: where the data were written.
    ("entries which a node reaches in its own memory, data", "linux"), ("entries which a node reaches in its own memory (the node", "linux"),
    ("pages of 2 MiB: entries", "linux"),
    # The others have no copies at all, as Hydra has none there.
    ("`operations`", "linux"), ("`operations`", "radixvm"), ("`operations`", "abis"),
    # The limit is that of the node with the least: then the average is as much.
    ("data of all nodes alike", "both"),
    *(("... with both on other nodes", column) for column in ("gPT alone", "ePT alone", "both")),
    # Of an allocator no more is asserted than that no policy interrupts more than Linux.
    ("tcmalloc, either", "linux"), *(("page tables, KiB: jemalloc", column) for column in policies.POLICIES),
    *(("data set up by one thread", column) for column in ("linux", "gPT alone", "ePT alone")),
}
# What the documents call a column.
COLUMNS = {**{called: policy for policy, called in policies.COLUMNS.items()}, "Linux: one nested tree": "linux", "Hydra: a tree for each node": "hydra",
           "no Hydra": "linux", "gPT alone": "gPT alone", "ePT alone": "ePT alone", "both": "both"}


def tables(text):
    """[(the cells of the heading, [the cells of each row])] of a text in Markdown."""
    made = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        made.append((heading, rows))
    return made


def value(cell):
    """The number of a cell: of percent the share; None if there is none."""
    found = NUMBER.search(cell)
    number = found and float(found[0].replace(",", ""))
    return number / 100 if found and "%" in cell else number


def section(text, title):
    return re.search(rf"^(#+) {re.escape(title)}$.*?(?=^#{{1,3}} |\Z)", text, re.M | re.S)[0]


def rows_of(text, known):
    """{the first words of a row: {column: its number}}; of the rows that have a column of a measurement."""
    made = {}
    for heading, rows in tables(text):
        columns = [COLUMNS.get(cell) for cell in heading]
        for title, *cells in rows if any(columns) else []:
            names = [begin for begin in known if title.startswith(begin)]
            assert len(names) == 1, f"the row '{title}' is {len(names)} of those that the test knows"
            made[names[0]] = {column: value(cell) for column, cell in zip(columns[1:], cells) if column and value(cell) is not None}
    return made


SHOWN = {}
for part in ("The demo", "Beside the papers' figures", "Nested page tables"):
    SHOWN |= rows_of(section(LAB, part), ROWS)
SHOWN |= rows_of(section(LAB, "Allocators"), ALLOCATORS)
EVERY = ROWS | ALLOCATORS


def said_by_64_cpus(step):
    def counts(case):
        return [patterns.expected(step.policy, case, 8, 8)] * 64
    if step.case != "pipeline":
        return {"same_node": counts(step.case), "other_node": []}
    return {"same_node": counts("same_node"), "other_node": counts("other_node")}


def good(name):
    """The values of a measurement that keep every limit."""
    if name == "demo":
        return test_measure.good_values()
    if name == "operations":
        return operations.values_of(test_bench_operations.results())
    if name == "pipeline-64":
        return core.entries_of(patterns.LARGE, [{"step": number, "said": said_by_64_cpus(step)} for number, step in enumerate(patterns.LARGE.steps)])
    return test_benches.entries(name)


def broken(where, numbers):
    """The limits that are broken if a measurement gives these numbers {column: number}."""
    entries, found = good(where.name), set()
    for entry in entries:
        column = "hydra" if entry["policy"] == "H-9" else entry["policy"]
        if (entry["row"], entry["case"], entry["metric"]) == (where.row, where.case, where.metric) and column in numbers:
            entry["value"] = numbers[column]
            found.add(column)
    assert found == set(numbers), f"not measured: {set(numbers) - found}"
    checks = limits.check(entries) if where.name == "demo" else core.checked(choice.BENCHES[where.name], entries)
    return [f"{check.text}: {check.seen}" for check in checks if check.asserted and not check.passed]


def test_good_values_break_nothing():
    assert [broken(where, {}) for where in EVERY.values() if broken(where, {})] == []


def test_each_row_is_shown():
    assert list(SHOWN) == list(EVERY)


def test_the_readme_shows_rows_of_the_lab():
    shown = rows_of(README, ROWS)
    assert len(shown) > 5
    assert [title for title, cells in shown.items() if cells != {column: SHOWN[title][column] for column in ("linux", "hydra")}] == []


@pytest.mark.parametrize("title", EVERY)
def test_a_row_keeps_the_limits_of_its_measurement(title):
    assert broken(EVERY[title], SHOWN[title]) == []


@pytest.mark.parametrize("title, column", [(title, column) for title in EVERY for column in SHOWN[title]])
def test_a_wrong_number_is_noticed(title, column):
    number = SHOWN[title][column]
    noticed = any(broken(EVERY[title], {**SHOWN[title], column: wrong}) for wrong in (number / 2, 9 * number + 9))
    assert noticed == ((title, column) not in UNCOMPARED)


# The rows of "What an operation costs", and the limits of its columns.
METER = {
    "page fault": "minor-fault", "page fault in a new page table": "fault-in-new-table", "write fault after `fork`": "write-after-fork",
    "`mmap`, touch, `munmap` of a page": "map-unmap-4k", "`mmap`, touch, `munmap` of a page, alone in its page table": "map-unmap-4k-alone",
    "`mprotect` of a page": "mprotect-4k", "`mprotect` of 4 MiB": "mprotect-4m", "`MADV_DONTNEED` of a page": "dontneed-4k", "`mremap` of 4 MiB": "mremap-4m",
    "`fork` and exit, 1 MiB": "fork-exit-1m", "`fork` and exit, 64 MiB": "fork-exit-64m", "`fork`, `execve` and exit": "fork-exec-exit",
    "switch between two processes": "switch-processes",
}
RATIOS = ("unused", "cost", "cost-split")
LEAST = 0.99                 # what allocators have at hand makes some rows less than Linux's


def meter_rows():
    ((_, rows),) = [(heading, rows) for heading, rows in tables(LAB) if heading[0] == "operation"]
    return {METER[title]: cells for title, *cells in rows}


def kept_by(name, row, number):
    """Is the number within the limit; of a limit that is not met yet, is it still beyond?"""
    (limit,) = [limit for limit in steps_limits.LIMITS if limit.name == name]
    most = limit.by_row.get(row, limit.limit)
    met = LEAST <= number <= most
    return met or (number > most if f"{name}: {row}" in steps_limits.NOT_YET else False)


@pytest.mark.parametrize("row", METER.values())
def test_instructions_keep_the_limits_of_the_meter(row):
    cells = meter_rows()[row]
    wrong = {name: cell for name, cell in zip(RATIOS, cells) if cell and not kept_by(name, row, value(cell))}
    assert len(cells) == len(RATIOS) and wrong == {}


@pytest.mark.parametrize("name, row, number", [("cost", "minor-fault", 1.031), ("unused", "dontneed-4k", 1.006), ("cost-split", "exit-64m", 1.031),
                                               ("cost", "switch-processes", 1.006), ("cost", "dontneed-4k", 0.9)])
def test_instructions_beyond_a_limit_are_noticed(name, row, number):
    assert kept_by(name, row, 1.0) and not kept_by(name, row, number)


def test_the_readme_says_what_the_costliest_operations_cost():
    cells = list(zip(*meter_rows().values()))
    most = [max(value(cell) for cell in column if cell) for column in cells]
    assert numbers(r"executes at most ([\d.]+) % more instructions in any operation", README) == [round(100 * (max(most[:2]) - 1), 1)]
    assert numbers(r"Threads on two nodes, memory of one: at most ([\d.]+) %", README) == [round(100 * (most[2] - 1), 1)]


def numbers(pattern, text):
    """Those of the one place in a text that the pattern describes."""
    (found,) = re.findall(pattern, " ".join(text.split()))
    return [float(number.replace(",", "")) for number in ([found] if isinstance(found, str) else found)]


def test_what_a_fill_costs_keeps_its_limit():
    (limit,) = [limit for limit in steps_limits.LIMITS if limit.name == "fill"]
    (seen,) = numbers(r"about ([\d,]+) instructions for 512 entries", README)
    assert 0.9 * limit.limit <= seen <= limit.limit


def test_what_accessed_costs_keeps_its_limits():
    apart, together = operations.KEPT["apart"], operations.KEPT["together"]
    assert numbers(r"instructions, nothing shared: ([\d.]+);", TOOL) <= [min(apart.values())]
    accessed, auto = numbers(r"instructions, all four nodes share: up to ([\d.]+) \(.*?\); `auto`, after its tries: ([\d.]+)\.", TOOL)
    assert accessed <= together[operations.FINE] and auto <= together[operations.AUTO]


def test_what_the_text_says_of_tables_is_what_the_tables_say():
    shared, private = (SHOWN[title]["hydra"] / SHOWN[title]["linux"] for title in ("KiB, data which all", "KiB, data which each"))
    assert re.search("about four times as much for data which all 4 nodes read", " ".join(README.split())) and round(shared) == 4
    assert numbers(r"some (\d+) % more for data which each node keeps private", README) == [round(100 * (private - 1))]
    assert numbers(r"executes ([\d.]+) times Linux's instructions on four nodes", GUIDE) == [round(SHOWN["`operations`"]["mitosis"], 1)]


# By first words of the README's advice: (the beginning of a row of docs/lab.md, its columns), in the order of the numbers.
ADVICE = {
    "runs on one node": ("make compiles", ("Linux", "Hydra")),
    "threads change memory of their own": ("pbzip2 compresses", ("Linux", "Hydra")),
    "the same, and many CPUs": ("pbzip2 compresses", ("ABIS",)),
    "uses jemalloc with decay 0": ("jemalloc, decay 0, holds 16", ("Linux", "Hydra")),
    "uses jemalloc with its default decay": ("jemalloc, default decay, holds 16", ("Linux", "Hydra")),
    "uses an allocator which keeps": ("tcmalloc, either", ("Linux",)),
    "threads use all page tables": ("Redis, four threads", ("Linux", "Hydra", "Hydra, `--filter accessed`", "ABIS")),
}


@pytest.mark.parametrize("begin", ADVICE)
def test_the_examples_of_the_advice_are_the_labs(begin):
    ((_, advice),) = [(heading, rows) for heading, rows in tables(README) if heading[0] == "the program"]
    (example,) = [cells[-1] for cells in advice if cells[0].startswith(begin)]
    seen = [float(number.replace(",", "")) for number in re.findall(rf"({NUMBER.pattern})(?: interrupts for each allocation and free)? (?:with|by)|: (\d+)$", example)
            for number in number if number]
    row, columns = ADVICE[begin]
    heading, cells = next((heading, cells) for heading, rows in tables(LAB) for cells in rows if cells[0].startswith(row))
    allowed = [[float(number.replace(",", "")) for number in NUMBER.findall(cells[heading.index(column)])] for column in columns]
    assert len(seen) >= len(columns) and all(min(ends) <= number <= max(ends) for number, ends in zip(seen, allowed)), (seen, allowed)


def test_the_limits_of_accessed_are_the_benchs():
    assert numbers(r"`\./hydra bench operations` asserts ([\d.]+) and ([\d.]+) at most", TOOL) == \
        [kept[operations.FINE] for kept in operations.KEPT.values()]


def test_what_the_meter_is_checked_by_is_what_the_lab_says():
    known = numbers(r"executes ([\d,]+) instructions more than the row `nothing`, (\d+) of them locked.*? and touches (\d+) lines", LAB)
    assert known == [steps_samples.KNOWN["instructions"], steps_samples.KNOWN["locked"], steps_samples.KNOWN_REMOTE]


def test_the_example_with_four_nodes_is_what_is_expected():
    text = (paths.REPO / "docs/researchers.md").read_text(encoding="utf-8")
    seen = numbers(r"local (\d+) interrupts under Linux and (\d+) under Hydra, to the next node (\d+) and (\d+), global (\d+) and (\d+)\.", text)
    assert seen == [patterns.expected(policy, case, 4, 2) for case in ("local", "other_node", "global") for policy in ("linux", "hydra")]


RULES = "".join((paths.REPO / "kernel/arch/x86/mm/hydra" / name).read_text(encoding="utf-8") for name in ("auto_rules.h", "process_rules.h"))


def rule(name):
    """A number of the kernel's rules for policy auto."""
    return numbers(rf"#define HYDRA_{name} (\d+)", RULES)[0]


def test_the_thresholds_of_policy_auto_are_the_kernels():
    helped = "".join((paths.REPO / "tools/hydractl" / name).read_text(encoding="utf-8") for name in ("cmd_explain.c", "cmd_why.c"))
    percent = 100 / rule("QUIET_PART")
    for text, pattern in ((TOOL, r"From ([\d.]+) % on, policy `auto` would split"), (GUIDE, r"is split when its rent is ([\d.]+) %"), (GUIDE, r"rent below ([\d.]+) %"),
                          (helped, r"another policy saves ([\d.]+) %"), (helped, r"within nodes cost ([\d.]+) %"), (helped, r"small: less than ([\d.]+) %"),
                          (helped, r"flushes and walks across nodes cost ([\d.]+) %")):
        assert numbers(pattern, text) == [percent], pattern
    assert numbers(r"walks: few interrupts, but ([\d.]+) MiB of page tables", helped) == [rule("SAMPLE_TABLES") / 256]
    assert numbers(r"A \*purse\* of (\d+) %", GUIDE) == numbers(r"A purse of (\d+) %", helped) == [100 / rule("PURSE_PART")]


def test_the_prices_of_policy_auto_are_the_kernels():
    shown = re.findall(r"^``price_(\w+)``\s+(\d+)\s+\S", GUIDE, re.M)
    prices = {name.lower(): int(value) for name, value in re.findall(r"^#define HYDRA_PRICE_(\w+)\s+(\d+)", RULES, re.M)}
    assert {name: int(value) for name, value in shown} == prices and len(shown) == len(prices) == 9
