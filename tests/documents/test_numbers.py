# SPDX-License-Identifier: GPL-2.0-only
"""The numbers of docs/lab.md, compared with what the measurements assert, and those of README.md and docs/hydractl.md with docs/lab.md.

Each row of a table takes the place of what its measurement counted, and has to keep the measurement's limits. A cell that is
changed has to break one, unless UNCOMPARED lists the cell: then no measurement asserts the number.
"""
import re

import pytest
import test_bench_operations
import test_benches
import test_measure

from lab import paths, policies
from lab.bench import choice, core, operations, patterns
from lab.measure import limits
from lab.meter import steps_limits, steps_samples
from lab.papers import quoted

README = (paths.REPO / "README.md").read_text(encoding="utf-8")
LAB = (paths.REPO / "docs/lab.md").read_text(encoding="utf-8")
TOOL = (paths.REPO / "docs/hydractl.md").read_text(encoding="utf-8")
GUIDE = (paths.REPO / "kernel/Documentation/admin-guide/mm/hydra.rst").read_text(encoding="utf-8")
# The sections whose measurements have limits; the others are in the report of ./hydra papers only.
LIMITED = ("The demo", "Beside the papers' figures", "Nested page tables", "Allocators")
EVERY = {begin: source for part in LIMITED for begin, source in quoted.SECTIONS[part].items()}
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


def value(cell):
    """The first number of a cell."""
    return quoted.numbers(cell)[0]


def rows_of(text, known):
    """{the first words of a row: {column: its number}}."""
    return {begin: {column: value(cell) for column, cell in cells.items()} for table in quoted.quoted(text, known) for _, begin, cells in table.rows}


SHOWN = {begin: cells for part in LIMITED for begin, cells in rows_of(quoted.section(LAB, part), quoted.SECTIONS[part]).items()}


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
        for column in numbers:
            if tuple(entry[field] for field in ("row", "case", "policy", "metric")) == (where.row, where.case, where.column(column), where.metric):
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
    shown = rows_of(README, EVERY)
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
    ((_, rows),) = [(heading, rows) for heading, rows in quoted.tables(LAB) if heading[0] == "operation"]
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
    ((_, advice),) = [(heading, rows) for heading, rows in quoted.tables(README) if heading[0] == "the program"]
    (example,) = [cells[-1] for cells in advice if cells[0].startswith(begin)]
    seen = [float(number.replace(",", "")) for number in re.findall(rf"({quoted.NUMBER.pattern})(?: interrupts for each allocation and free)? (?:with|by)|: (\d+)$", example)
            for number in number if number]
    row, columns = ADVICE[begin]
    heading, cells = next((heading, cells) for heading, rows in quoted.tables(LAB) for cells in rows if cells[0].startswith(row))
    allowed = [[float(number.replace(",", "")) for number in quoted.NUMBER.findall(cells[heading.index(column)])] for column in columns]
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
