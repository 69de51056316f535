# SPDX-License-Identifier: GPL-2.0-only
"""./hydra demo: every measurement, shown, drawn, and compared with what is expected."""
import time

from lab import paths, progress
from lab.bench import core, nested, walks
from lab.measure import demo_lines, limits, measure, report, values

TITLE = "What Linux, Hydra and its neighbours do, one mechanism under five policies"
OF_MACHINES = ((nested.BRIEF, "Virtual machines: one tree of nested page tables for all nodes, or a tree for each"),
               (walks.BRIEF, "A virtual machine that sees its nodes: last entries of 2D page walks, with replicas of no tables, of the nested ones, of both"))
QUIET_NOTE = "Where nothing is shared, times say little, and 'above' is no failure: ./hydra bench steps counts what Hydra costs there."


def demo_verb(arguments):
    start = time.monotonic()
    paths.try_output(arguments.json, arguments.png)
    entries = measure.measure(list(measure.ROWS))
    machines = [(one, title, core.run(one)) for one, title in OF_MACHINES]
    report.table(TITLE, demo_lines.LINES, entries)
    show_machines(machines)
    failed = report.verdicts(limits.check(entries) + [check for one, _, found in machines for check in core.checked(one, found)], QUIET_NOTE)
    report.picture(arguments.png or paths.cache() / "hydra-demo.png", TITLE, demo_lines.LINES, entries)
    if arguments.json:
        values.write_json(arguments.json, measure.published(entries) + [entry for *_, found in machines for entry in found])
    progress.say(f"the demo took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if failed else 0


def show_machines(machines):
    """The tables of virtual machines, the paper's numbers under each, and once what an emulator does not show."""
    out = report.printer()
    for one, title, found in machines:
        report.table(title, one.lines, found)
        out.print(f"[bold]The paper.[/] {one.paper}\n")
    out.print(f"{nested.NOT_HERE}\n")
