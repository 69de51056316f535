# SPDX-License-Identifier: GPL-2.0-only
"""./hydra test: every suite, a summary, and the line "N passed, N failed"."""
import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lab import build, progress, suites
from lab.errors import LabError
from lab.ktap import Outcome


def attempt(name, suite, *arguments):
    """A suite that cannot even run is a failure, and the next one gets its turn."""
    try:
        return suite(*arguments) or [Outcome(name, "failed", "no test ran")]
    except LabError as error:
        return [Outcome(name, "failed", str(error))]


def summary(groups, seconds):
    """Print the suites and what failed; returns (passed, failed)."""
    out = Console(highlight=False, soft_wrap=True)
    grid = Table(title=f"Tests ({seconds / 60:.1f} min)", title_justify="left", title_style="bold")
    for heading, side in (("suite", "left"), ("passed", "right"), ("failed", "right"), ("skipped", "right")):
        grid.add_column(heading, justify=side)
    everything = [outcome for outcomes in groups.values() for outcome in outcomes]
    for name, outcomes in groups.items():
        counts = [sum(outcome.result == result for outcome in outcomes) for result in ("passed", "failed", "skipped")]
        grid.add_row(name, str(counts[0]), f"[bold red]{counts[1]}[/]" if counts[1] else "0", str(counts[2]))
    for outcome in everything:
        if outcome.result == "skipped":
            out.print(f"skipped: {escape(outcome.name)}  {escape(outcome.why)}")
    for outcome in everything:
        if outcome.failed:
            out.print(f"[bold red]FAILED[/] {escape(outcome.name)}")
            out.print(escape("\n".join("    " + line for line in outcome.why.splitlines()[:60])))
    out.print(grid)
    return sum(outcome.result == "passed" for outcome in everything), sum(outcome.failed for outcome in everything)


def test_verb(arguments):
    start = time.monotonic()
    groups = {}
    if not arguments.only:
        groups["host"] = attempt("host tests", suites.pytest, "not machine", "host tests")
    for config in ("lab", "debug") if arguments.debug else ("lab",):
        try:
            build.kernel(config)
        except LabError as error:
            groups[f"kernel build ({config})"] = [Outcome("building the kernel", "failed", str(error))]
            continue
        if config == "lab" and not arguments.only:
            groups["machine"] = attempt("machine tests", suites.pytest, "machine", "machine tests")
        name = f"KUnit and self tests ({config})"
        groups[name] = attempt(name, suites.in_machine, config, arguments.only or "")
    passed, failed = summary(groups, time.monotonic() - start)
    progress.say("all tests passed" if not failed else "see the failures above; logs are under HYDRA_CACHE/logs and runs")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0
