# SPDX-License-Identifier: GPL-2.0-only
"""./hydra test: the stages in their order, a summary, and the line "N passed, N failed"."""
import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lab import build, faults, modes, pcid, progress, races, stages, suites
from lab import linux_suites as linux
from lab.errors import LabError
from lab.ktap import Outcome


def attempt(name, suite, *arguments):
    """A suite that cannot even run is a failure, and the next one gets its turn."""
    try:
        return suite(*arguments) or [Outcome(name, "failed", "no test ran")]
    except LabError as error:
        return [Outcome(name, "failed", str(error))]


def host(arguments):
    return {"host": attempt("host tests", suites.pytest, "not machine", "host tests", arguments.long)}


def machine(_):
    return {"machine": attempt("machine tests", suites.pytest, "machine", "machine tests")}


def selftests(arguments):
    return {"KUnit and self tests": attempt("self tests", suites.in_machine, "lab", arguments.only or "")}


def in_modes(arguments):
    try:
        return modes.run(arguments.long)
    except LabError as error:
        return {"modes": [Outcome("modes", "failed", str(error))]}


def debug(arguments):
    return {"KUnit and self tests [debug kernel]": attempt("self tests", suites.in_machine, "debug", arguments.only or "")}


def injected(arguments):
    return {"injected faults [debug kernel]": attempt("injected faults", faults.run, arguments.only or "")}


def linux_suites(arguments):
    return {"Linux's own tests": attempt("Linux's own tests", linux.outcomes, None, "lab", arguments.long)}


def linux_suites_debug(arguments):
    return {"Linux's own tests [debug kernel]": attempt("Linux's own tests", linux.outcomes, None, "debug", arguments.long)}


def data_races(_):
    return {"data races [KCSAN kernel]": attempt("data races", races.run)}


def pressure(_):
    return {"data under pressure": attempt("pressure", suites.long_pressure)}


def oracle(_):
    return {"oracle, a million operations": attempt("oracle", suites.long_oracle)}


def with_pcid(_):
    try:
        return pcid.run()
    except LabError as error:
        return {"PCID": [Outcome("PCID", "failed", str(error))]}


RUN = {"host": host, "machine": machine, "selftests": selftests, "modes": in_modes, "debug": debug, "faults": injected,
       "suites": linux_suites, "races": data_races, "pressure": pressure, "oracle": oracle,
       "suites-debug": linux_suites_debug, "pcid": with_pcid}


def summary(groups, durations, seconds):
    """Print the suites and what failed; returns (passed, failed)."""
    out = Console(highlight=False, soft_wrap=True)
    grid = Table(title=f"Tests ({seconds / 60:.1f} min)", title_justify="left", title_style="bold")
    for heading, side in (("suite", "left"), ("passed", "right"), ("failed", "right"), ("skipped", "right"), ("min", "right")):
        grid.add_column(heading, justify=side)
    everything = [outcome for outcomes in groups.values() for outcome in outcomes]
    for name, outcomes in groups.items():
        counts = [sum(outcome.result == result for outcome in outcomes) for result in ("passed", "failed", "skipped")]
        grid.add_row(name, str(counts[0]), f"[bold red]{counts[1]}[/]" if counts[1] else "0", str(counts[2]),
                     f"{durations[name] / 60:.1f}" if name in durations else "")
    for outcome in everything:
        if outcome.result == "skipped":
            out.print(f"skipped: {escape(outcome.name)}  {escape(outcome.why)}")
    for outcome in everything:
        if outcome.failed:
            out.print(f"[bold red]FAILED[/] {escape(outcome.name)}")
            out.print(escape("\n".join("    " + line for line in outcome.why.splitlines()[:60])))
    out.print(grid)
    return sum(outcome.result == "passed" for outcome in everything), sum(outcome.failed for outcome in everything)


def chosen(arguments):
    """The stages to run: those named, or with a word only the self tests, else all that are due."""
    if arguments.stage:
        return list(dict.fromkeys(arguments.stage))
    if arguments.only:
        return ["selftests"]
    return [name for name, stage in stages.STAGES.items() if arguments.long or not stage.long]


def test_verb(arguments):
    start = time.monotonic()
    groups, durations, broken = {}, {}, set()
    for name in chosen(arguments):
        config = stages.STAGES[name].config
        if config and config not in broken:
            try:
                build.kernel(config)
            except LabError as error:
                broken.add(config)
                groups[f"kernel build ({config})"] = [Outcome(f"building the kernel ({config})", "failed", str(error))]
        if config in broken:
            continue
        begun = time.monotonic()
        progress.say(f"stage {name}: {stages.STAGES[name].what}")
        made = RUN[name](arguments)
        groups.update(made)
        durations[next(reversed(made))] = time.monotonic() - begun
    passed, failed = summary(groups, durations, time.monotonic() - start)
    progress.say("all tests passed" if not failed else "see the failures above; logs are under HYDRA_CACHE/logs and runs")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0
