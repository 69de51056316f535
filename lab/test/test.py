# SPDX-License-Identifier: GPL-2.0-only
"""./hydra test: the stages in their order, a summary, and the line "N passed, N failed"."""
import random
import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lab import progress
from lab.errors import LabError
from lab.kernel import build, series_steps
from lab.machine import programs
from lab.machine.ktap import Outcome
from lab.meter import steps_verbs
from lab.package import releases
from lab.test import faults, kvm_suites, linux_suites as linux, load, modes, packages, pcid, races, server, stages, suites


# By stage: the name of the outcomes, and the suite; a suite of several parts returns a dict.
RUN = {
    "host": ("host", lambda a: suites.pytest("not machine", "host tests", a.only)),
    "machine": ("machine", lambda a: suites.machine_tests(a.only, a.long, a.seed)),
    "off": ("without Hydra", lambda _: [Outcome(f"{name} without Hydra", "passed") for name in build.touched_without_hydra()]),
    "packages": ("packages", lambda a: packages.run(a.long, a.seed)),
    "server": ("packages on Debian 12 and 13", lambda a: server.run(a.only)),
    "series": ("each patch of the series", lambda _: [Outcome(name, "failed" if why else "passed", why) for name, why in series_steps.each_step()]),
    "selftests": ("KUnit and self tests", lambda a: suites.lab(a.only, a.arguments, a.long, suites.left_to_debug(a.seed) if "debug" in a.stage else ())),
    "steps": ("counted steps", lambda a: steps_verbs.stage(a.only)),
    "modes": ("modes", lambda a: modes.run(a.long, a.only, a.seed)),
    "suites": ("Linux's own tests", lambda a: linux.outcomes("lab", a.long, a.only, a.seed)),
    "vm": ("virtual machines", lambda a: kvm_suites.run(a.long, a.only, a.arguments)),
    "debug": ("KUnit and self tests [debug kernel]", lambda a: suites.debug(a.only, a.arguments, a.long, a.seed)),
    "injected": ("injected faults [debug kernel]", lambda a: faults.run(a.only, a.long, a.seed)),
    "races": ("data races [KCSAN kernel]", lambda _: races.run()),
    "oracle": ("oracle, a million operations", lambda a: suites.long_oracle(a.only)),
    "suites-debug": ("Linux's own tests [debug kernel]", lambda a: linux.outcomes("debug", a.long, a.only, a.seed)),
    "load": ("an hour under auto [debug kernel]", lambda _: load.run()),
    "pcid": ("PCID", lambda a: pcid.run(a.only)),
}


# By stage, the names that --only picks from, as far as known before a build.
NAMES = {
    "selftests": lambda _: programs.selftest_names(),
    "debug": lambda _: programs.selftest_names(everything=True),
    "modes": lambda a: [mode.name for mode in modes.MODES if a.long or not mode.long],
    "injected": lambda _: [name for name, _, _ in faults.tries(long=True)],
    "steps": lambda _: steps_verbs.row_names(),
    "suites": lambda _: linux.names(),
    "suites-debug": lambda _: linux.names(),
    "vm": lambda a: kvm_suites.names(a.long),
    "oracle": lambda _: [name for *_, name in suites.oracle_runs()],
    "server": lambda _: list(releases.TITLES),
    "pcid": lambda _: [*(boot.name for boot in pcid.BOOTS), pcid.FAULTS],
}


def check_only(stage, arguments):
    """Before any build, refuse a word that no name of a stage contains, and list the names."""
    word = arguments.only
    names = NAMES[stage](arguments) if word and stage in NAMES else []
    picked = [name for name in names if word in name or (stage.startswith("suites") and linux.is_variant(word, name))]
    if names and not picked:
        raise LabError(f"--only {word}: no name of the stage {stage} contains this word",
                       "The names are:\n    " + ("\n    " if len(names) < 100 else " ").join(names), status=2)


def attempt(title, suite, arguments):
    """A dict of outcomes. A suite that cannot run is a failure; later stages run nevertheless."""
    try:
        made = suite(arguments)
    except LabError as error:
        made = [Outcome(title, "failed", str(error))]
    groups = made if isinstance(made, dict) else {title: made}
    return {name: outcomes or [Outcome(name, "failed", "no test ran")] for name, outcomes in groups.items()}


def summary(groups, durations, seconds):
    """Print the suites and what failed; returns (passed, failed)."""
    out = Console(highlight=False, soft_wrap=True, emoji=False)
    grid = Table(title=f"Tests ({seconds / 60:.1f} min)", title_justify="left", title_style="bold")
    for heading, side in (("suite", "left"), ("passed", "right"), ("failed", "right"), ("skipped", "right")):
        grid.add_column(heading, justify=side)
    everything = [outcome for outcomes in groups.values() for outcome in outcomes]
    for name, outcomes in groups.items():
        counts = [sum(outcome.result == result for outcome in outcomes) for result in ("passed", "failed", "skipped")]
        grid.add_row(escape(name), str(counts[0]), f"[bold red]{counts[1]}[/]" if counts[1] else "0", str(counts[2]))
    for outcome in everything:
        if outcome.result == "skipped":
            out.print(f"skipped: {escape(outcome.name)}  {escape(outcome.why)}")
    for outcome in everything:
        if outcome.failed:
            out.print(f"[bold red]FAILED[/] {escape(outcome.name)}")
            out.print(escape("\n".join("    " + line for line in outcome.why.splitlines()[:60])))
    out.print(grid)
    if durations:
        out.print(minutes(durations))
    if seeds := [outcome.seeds for outcome in everything if outcome.seeds]:
        out.print(escape(f"seeds: {'; '.join(seeds)}"))
    return sum(outcome.result == "passed" for outcome in everything), sum(outcome.failed for outcome in everything)


def drawing(arguments):
    """The stages of which a number draws something."""
    asked = arguments.stage or (["selftests"] if arguments.only else list(stages.SHARES))
    return [] if arguments.long else [name for name in asked if name in (["suites"] if arguments.only else stages.SHARES)]


def chosen(arguments):
    """The stages to run: the stages of --stage; without --stage, the self tests if --only is given, else all due stages."""
    if arguments.arguments and not (arguments.only and set(arguments.stage or ["selftests"]) <= {"selftests", "vm", "debug"}):
        raise LabError("--arguments is for self tests chosen with --only, of the stages selftests, vm and debug", status=2)
    if arguments.seed is not None and not set(drawing(arguments)):
        raise LabError("--seed draws what a short run takes of the stages " + ", ".join(stages.SHARES) + ", and the policy of suites with --only; here it draws nothing",
                       "Other tests that draw random numbers take --arguments=\"--seed N\".", status=2)
    if arguments.stage:
        whole = [name for name in arguments.stage if arguments.only and not stages.STAGES[name].only]
        if whole:
            raise LabError(f"--only {arguments.only}: the stage {whole[0]} is run as a whole", status=2)
        return list(dict.fromkeys(arguments.stage))
    if arguments.only:
        return ["selftests"]
    return [name for name, stage in stages.STAGES.items() if arguments.long or not stage.long]


def minutes(durations):
    """The minutes of each stage, in order; the builds of kernels, which stages share, are one entry."""
    return "minutes: " + ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in durations.items())


def test_verb(arguments):
    start = time.monotonic()
    arguments.stage = names = chosen(arguments)
    if arguments.seed is None:
        arguments.seed = random.randrange(stages.SEEDS)
    drawn = f"drawn by the number {arguments.seed} (--seed {arguments.seed} takes the same): {', '.join(drawing(arguments))}" if drawing(arguments) else ""
    if drawn:
        progress.say(drawn)
    for name in names:
        check_only(name, arguments)
    groups, durations, broken = {}, {}, set()
    for name in names:
        config = stages.STAGES[name].config
        begun, built = time.monotonic(), build.SPENT["seconds"]
        if config and config not in broken:
            try:
                build.kernel(config)
            except LabError as error:
                broken.add(config)
                groups[f"kernel build ({config})"] = [Outcome(f"building the kernel ({config})", "failed", str(error))]
        if config not in broken:
            progress.say(f"stage {name}: {stages.STAGES[name].what}")
            groups.update(attempt(*RUN[name], arguments))
        built = build.SPENT["seconds"] - built
        durations["kernel builds"] = durations.get("kernel builds", 0) + built
        durations[name] = time.monotonic() - begun - built
    passed, failed = summary(groups, durations, time.monotonic() - start)
    if drawn:
        progress.say(drawn)
    progress.say("all tests passed" if not failed else "see the failures above; logs are under HYDRA_CACHE/logs and runs")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0
