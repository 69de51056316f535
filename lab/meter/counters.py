# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench refcache: figure 8 of RadixVM by lines: what two CPUs take from each other that count references of one object.

Two threads on two nodes take a reference and give it back, one after the other, by each kind of counter: see
kernel/lib/refcache/pairs.h. As in lab/meter/concurrent.py, a line counts that both touch and at least one writes.
"""
from lab import paths
from lab.errors import LabError
from lab.measure import report, values
from lab.measure.limits import Check
from lab.meter import concurrent

NAME = "refcache"
WHAT = "lines of memory that a get and a put on each of two CPUs move, by kind of counter"
OPTIONS = ("--counters",)
LINES = {"nothing": 0, "atomic": 1, "percpu_ref": 0, "refcache": 0}     # what is expected


def lines(found):
    """{counter: lines in more than half of the samples}."""
    return {counter: sum(concurrent.usual(found["linux", counter, counter]).values()) for counter in LINES}


def entries_of(found):
    return [dict(zip(values.FIELDS, (NAME, counter, "linux", "lines", number, "lines"))) for counter, number in lines(found).items()]


def check(found):
    for counter, number in lines(found).items():
        yield Check(NAME, f"{counter}: {LINES[counter]} lines", f"{number}", number == LINES[counter])
        taken = len(found["linux", counter, counter].samples)
        yield Check(NAME, f"{counter}: {concurrent.SAMPLES} samples", f"{taken}", taken == concurrent.SAMPLES)


def show(found):
    out = report.printer()
    table = report.titled("lines that a get and a put on each of two CPUs move")
    table.add_column("counter")
    table.add_column("lines", justify="right")
    table.add_column("most", justify="right")
    for counter, number in lines(found).items():
        table.add_row(counter, str(number), str(max(sample.total() for sample in found["linux", counter, counter].samples)))
    out.print(table)


def measure():
    return concurrent.measure(2, NAME, ("plainly",), OPTIONS)


def bench(arguments):
    if arguments.nodes not in (None, [2]):
        raise LabError(f"--nodes {' '.join(map(str, arguments.nodes))}: '{NAME}' has 2 nodes", status=2)
    paths.try_output(arguments.json, arguments.csv)
    found = measure()
    show(found)
    entries = entries_of(found)
    if arguments.json:
        values.write_json(arguments.json, entries)
    if arguments.csv:
        values.write_csv(arguments.csv, entries)
    return 1 if report.verdicts(list(check(found))) else 0


def listing():
    return f"{NAME:10} 2 nodes x 2 CPUs: {WHAT}"
