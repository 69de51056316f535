# SPDX-License-Identifier: GPL-2.0-only
"""The numbers that docs/lab.md quotes, each with the measurement that it comes from. README.md and docs/hydractl.md take theirs from there.

The tests compare these numbers with what the measurements assert, the report of ./hydra papers with what the run has measured.
"""
import dataclasses
import re

from lab import paths, policies
from lab.measure import spread, values

DOCUMENT = paths.REPO / "docs/lab.md"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
DASH = "–"                   # between the ends of a range


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a row comes from: "demo", or a measurement of ./hydra bench; and which of its values."""
    name: str
    row: str
    case: str
    metric: str
    more: tuple = ()         # further metrics, if a cell has several numbers

    def metrics(self):
        return (self.metric, *self.more)

    def column(self, policy):
        """Under Hydra 'prefetch' has a column for each degree; the documents have that of policy hydra, 9."""
        return "H-9" if (self.name, policy) == ("prefetch", "hydra") else policy


def source(name, case, metric, *more):
    return Source(name, name, case, metric, more)


FAR, NEAR = "remote-spinners", "remote-and-local-spinners"
# {section: {the first words of a row: where its numbers come from}}
SECTIONS = {
    "The demo": {
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
    },
    "Beside the papers' figures": {
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
    },
    "Nested page tables": {
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
    },
    "Whole programs": {
        "Redis, four threads": source("programs", "redis-threads", "interrupts"),
        "Memcached stores": source("programs", "memcached", "interrupts"),
        "Memcached answers": source("programs", "memcached-mprotect", "interrupts"),
        "make compiles": source("programs", "make", "interrupts"),
        "pbzip2 compresses": source("programs", "pbzip2", "interrupts"),
        "a JVM": source("programs", "jvm", "interrupts"),
    },
    "Allocators": {
        "`mmap` and `munmap`, holds 16": source("allocators", "mmap stateful", "interrupts_per_op"),
        "`mmap` and `munmap`, holds none": source("allocators", "mmap stateless", "interrupts_per_op"),
        "glibc, holds 16": source("allocators", "glibc stateful", "interrupts_per_op"),
        "jemalloc, decay 0, holds 16": source("allocators", "jemalloc-0 stateful", "interrupts_per_op"),
        "jemalloc, decay 0, holds none": source("allocators", "jemalloc-0 stateless", "interrupts_per_op"),
        "jemalloc, default decay, holds 16": source("allocators", "jemalloc stateful", "interrupts_per_op"),
        "jemalloc, default decay, holds none": source("allocators", "jemalloc stateless", "interrupts_per_op"),
        "tcmalloc, either": source("allocators", "tcmalloc stateful", "interrupts_per_op"),
        "page tables, KiB: jemalloc": source("allocators", "jemalloc-0 stateful", "pagetable_kib"),
    },
    "What nodes no longer use": {
        "`decay`: interrupts": source("auto", "decay", "interrupts_before_per_op"),
        "`decay`: a minute later": source("auto", "decay", "interrupts_later_per_op"),
        "`decay`: leaf tables": source("auto", "decay", "leaf_tables_before", "leaf_tables_after", "leaf_tables_later"),
        "`thread`: near page walks": source("auto", "thread", "near_walks_share"),
        "`threads`: leaf tables": source("auto", "threads", "later_leaf_tables"),
        "`threads`: near page walks": source("auto", "threads", "near_walks_share"),
        "`migrated`: entries": source("auto", "migrated", "later_near_share"),
        "`apart`: interrupts": source("auto", "apart", "interrupts_per_op"),
        "`requests`: interrupts": source("auto", "requests", "alone_interrupts_per_request"),
        "`wander` (ten minutes): interrupts": source("wander", "settled", "interrupts_later_per_op"),
        "`wander`: leaf tables": source("wander", "settled", "leaf_tables_before", "leaf_tables_after", "leaf_tables_later"),
    },
}
# What the document calls a column.
COLUMNS = {**{called: policy for policy, called in policies.COLUMNS.items()}, "Linux: one nested tree": "linux", "Hydra: a tree for each node": "hydra",
           "no Hydra": "linux", "gPT alone": "gPT alone", "ePT alone": "ePT alone", "both": "both", "Hydra, `--filter accessed`": "node, accessed",
           "Hydra, `--filter auto`": "hydra, auto"}
# Tables with other measurements than those of SECTIONS, which ./hydra papers does not make: (section, what makes them).
ELSEWHERE = (("What policy auto costs", "./hydra bench auto"), ("What an operation costs", "./hydra bench steps"),
             ("Where calls on disjoint memory meet", "./hydra bench concurrent"))


def text():
    return DOCUMENT.read_text(encoding="utf-8")


def tables(markdown):
    """[(the cells of the heading, [the cells of each row])] of a text in Markdown."""
    made = []
    for block in re.findall(r"(?:^\|.*\n)+", markdown, re.M):
        heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        made.append((heading, rows))
    return made


def section(markdown, title):
    return re.search(rf"^(#+) {re.escape(title)}$.*?(?=^#{{1,3}} |\Z)", markdown, re.M | re.S)[0]


def numbers(cell):
    """Those of a cell, as they are written: with their decimals; of percent the shares."""
    made = [float(found.replace(",", "")) for found in NUMBER.findall(cell)]
    return [number / 100 for number in made] if "%" in cell else made


def unit(cell):
    """What the last digit of a cell's numbers stands for."""
    decimals = max(len(found.partition(".")[2]) for found in NUMBER.findall(cell))
    return 10 ** -(decimals + 2 * ("%" in cell))


@dataclasses.dataclass(frozen=True)
class Table:
    columns: dict            # {policy: what the document calls it}
    rows: tuple              # of (title, the first words of it that SECTIONS has, {policy: its cell})


def quoted(markdown, known):
    """The tables of a text that have columns of a measurement. A cell without a number is left out."""
    for heading, rows in tables(markdown):
        policy_of = [COLUMNS.get(cell) for cell in heading]
        made = []
        for title, *cells in rows if any(policy_of) else []:
            names = [begin for begin in known if title.startswith(begin)]
            assert len(names) == 1, f"the row '{title}' is {len(names)} of those that lab/papers/quoted.py knows"
            made.append((title, names[0], {policy: cell for policy, cell in zip(policy_of[1:], cells) if policy and numbers(cell)}))
        if made:
            yield Table({policy: called for policy, called in zip(policy_of, heading) if policy}, tuple(made))


# --- Beside a run

EQUAL, WITHIN, OTHER, MISSING = "equal", "within the spread", "different", "not in this run"


@dataclasses.dataclass(frozen=True)
class Judged:
    cell: str                # of the document
    seen: str                # in the run
    verdict: str


def covered(cell, seen, allowed):
    """The verdict on a cell, from the values of its metrics. A cell with one number stands for all of them, one with a dash for a range."""
    shown, half = numbers(cell), unit(cell) / 2 + spread.TINY
    if DASH in cell:
        ends = [(min(shown), max(shown))] * len(seen)
    elif len(shown) in (1, len(seen)):
        ends = [(number, number) for number in (shown * len(seen) if len(shown) == 1 else shown)]
    else:
        return OTHER
    if all(least - half <= value <= most + half for (least, most), value in zip(ends, seen)):
        return EQUAL
    return WITHIN if all(allowed.covers(min(max(value, least), most), value) for (least, most), value in zip(ends, seen)) else OTHER


def judge(cell, source, policy, get):
    """get: a function of row, case, policy and metric; KeyError: not measured."""
    try:
        seen = [get(source.row, source.case, source.column(policy), metric) for metric in source.metrics()]
    except KeyError:
        return Judged(cell, "", MISSING)
    return Judged(cell, ", ".join(values.number(value, source.metric) for value in seen), covered(cell, seen, spread.allowed(source.row, source.metric)))
