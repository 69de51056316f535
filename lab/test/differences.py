# SPDX-License-Identifier: GPL-2.0-only
"""Compares two runs of the same tests: a case that passes on stock has to pass with Hydra.

A run is {program: {case: Outcome}}. The cases of a program are the printed results, and one case for the end of the program,
with the program's name. Cases keep their names whether they pass or fail.
"""
import collections
import dataclasses
import re

from rich.table import Table

from lab.machine import ktap
from lab.machine.ktap import Outcome
from lab.test import suites

SKIPPED = 4                  # exit status: kselftest's, and stress-ng's for unsupported stressors
STRICT = "machine"           # the suite of which nothing may fail with Hydra, whatever stock does

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_RUN = re.compile(r"^# \[RUN\] (.*)")
_INFO = re.compile(r"^# \[INFO\] (.*)")
# pagemap_ioctl puts counts into the name; mrelease_test how much memory a child needed, so as not to end too early.
_MEASURED = re.compile(r"(transact_test \w+|reaping a child) .*")
_RESULT = re.compile(r"^((?:not )?ok \d+)([^#]*)(#.*)?$")

# Programs with results in other words: the pattern of one result (name, word), and the words that say passed, failed,
# skipped.
WORDS = [(re.compile(r"^Testing (.+?)\.\.\.(?!\d)(.*)$", re.M), "done", "failed", "skipped"),                    # uffd-unit-tests
         (re.compile(r"^(test +\d+) (PASSED|FAILED)", re.M), "PASSED", "FAILED", "SKIPPED"),              # protection_keys
         (re.compile(r"^(done) \(all tests (OK)\)", re.M), "OK", "FAILED", "SKIPPED"),                     # the same
         (re.compile(r"^Run test: (.+)\n((?:(?!Run test:).*\n?)*)", re.M), "OK", "Fail", "Skip")]         # khugepaged
NO_WORKER = re.compile(r"^stress-ng: .*No stress workers invoked", re.M)


def numbered(outcomes):
    """{name: Outcome}; a repeated name gets a number."""
    seen, cases = collections.Counter(), {}
    for outcome in outcomes:
        seen[outcome.name] += 1
        name = outcome.name if seen[outcome.name] == 1 else f"{outcome.name} ({seen[outcome.name]})"
        cases[name] = dataclasses.replace(outcome, name=name)
    return cases


def named_by_run(text):
    """Some programs print '# [RUN] what', or INFO, and then a description that depends on the result: the case is named
    after 'what'."""
    lines, what = [], None
    naming = _RUN if "\n# [RUN]" in text else _INFO
    for line in _MEASURED.sub(r"\1", text).splitlines():
        if match := naming.match(line):
            what = match[1].replace("#", "")
        elif what and (match := _RESULT.match(line)):
            line = f"{match[1]} {what} {match[3] or ''}"
        lines.append(line)
    return "\n".join(lines)


def in_words(program, text):
    """Results of programs without TAP. A repeated result counts once: children inherit unwritten output."""
    found = []
    for pattern, good, bad, skip in WORDS:
        for match in pattern.finditer(text):
            words = match[2]
            result = "failed" if bad in words else "skipped" if skip in words else "passed" if good in words else "failed"
            outcome = Outcome(f"{program}: {match[1]}", result, "" if result == "passed" else words.strip())
            if outcome not in found:
                found.append(outcome)
    return found


def cases(program, text, status, limit):
    """The cases of one program that ended."""
    text = _COLOUR.sub("", text)
    tail = "\n".join(text.strip().splitlines()[-8:])
    if status == SKIPPED or (not status and NO_WORKER.search(text)):
        end = Outcome(program, "skipped", tail)
    elif status == 124:
        end = Outcome(program, "failed", f"it did not end within {limit} s; its last words:\n{tail}")
    else:
        end = Outcome(program, "failed", f"exit status {status}; its last words:\n{tail}") if status else \
            Outcome(program, "passed")
    return numbered([end, *ktap.parse(named_by_run(text), program), *in_words(program, text)])


def read(output, limit):
    """The run in the marked output of one boot, with the programs that began."""
    text = output.replace("\r", "")
    marks = list(suites.MARK.finditer(text))
    run = {}
    for begin, end in zip(marks, [*marks[1:], None]):
        if begin[1] != "begin":
            continue
        if end and end[1] == "end" and end[2] == begin[2]:
            run[begin[2]] = cases(begin[2], text[begin.end():end.start()], int(end[3]), limit)
        else:
            words = "\n".join(text[begin.end():end.start() if end else None].strip().splitlines()[-8:])
            run[begin[2]] = numbered([Outcome(begin[2], "failed", f"it never ended; its last words:\n{words}")])
    return run


@dataclasses.dataclass
class Verdict:
    program: str
    name: str
    kind: str                # passed, only with Hydra, fails on both, unsteady, skipped
    stock: str               # the result there; "absent" if there was none
    hydra: str
    why: str = ""

    @property
    def suite(self):
        return self.program.partition(":")[0]


def judge(stock, hydra, suite=""):
    """What two results of one case mean."""
    if suite == STRICT and hydra != "passed":
        return "only with Hydra"
    if hydra == "passed":
        return "unsteady" if stock == "failed" else "passed"
    if stock == "passed" or (hydra == "failed" and stock != "failed"):
        return "only with Hydra"
    return "fails on both" if stock == "failed" else "skipped"


def result(run, program, name):
    outcome = run.get(program, {}).get(name)
    return outcome.result if outcome else "absent"


def compare(stock, hydra, again=None):
    """Verdicts on all cases of two runs; again: the two runs of the programs in which there was a difference."""
    verdicts = []
    for program in {**stock, **hydra}:
        for name in {**stock.get(program, {}), **hydra.get(program, {})}:
            verdicts.append(verdict(program, name, stock, hydra, again))
    return verdicts


def verdict(program, name, stock, hydra, again):
    suite = program.partition(":")[0]
    one, other = result(stock, program, name), result(hydra, program, name)
    found = Verdict(program, name, judge(one, other, suite), one, other)
    if found.kind != "passed":
        whole = hydra.get(program, stock.get(program, {}))
        outcome = whole.get(name) or (whole.get(program) if program in hydra else None)
        found.why = outcome.why if outcome else "it did not run"
    if found.kind == "only with Hydra" and again and suite != STRICT:
        second = [result(run, program, name) for run in again]
        story = f"stock: {one}, then {second[0]}; with Hydra: {other}, then {second[1]}"
        if judge(*second) != "only with Hydra":
            found.kind = "unsteady"
        found.why = f"{story}\n{found.why}"
    return found


def unclear(run):
    """The programs of which something does not pass."""
    return [program for program, cases in run.items()
            if program.partition(":")[0] != STRICT and any(case.result != "passed" for case in cases.values())]


def suspects(verdicts):
    """The programs to run once more."""
    return list(dict.fromkeys(entry.program for entry in verdicts if entry.kind == "only with Hydra" and entry.suite != STRICT))


def outcomes(verdicts, most=12):
    """For the test summary: every passed case, and for each program one line for each other kind of result."""
    found = [Outcome(f"Linux's {entry.name}", "passed") for entry in verdicts if entry.kind == "passed"]
    groups = collections.defaultdict(list)
    for entry in verdicts:
        if entry.kind != "passed":
            groups[entry.program, entry.kind].append(entry)
    for (program, kind), entries in groups.items():
        listed = [f"{entry.name} (stock: {entry.stock}, with Hydra: {entry.hydra}): {entry.why}" for entry in entries[:most]]
        rest = [f"and {len(entries) - most} more"] if len(entries) > most else []
        words = "\n".join([*listed, *rest])
        if kind == "only with Hydra":
            found.append(Outcome(f"Linux's {program}", "failed", words))
        else:
            found.append(Outcome(f"Linux's {program}", "skipped", f"{kind}, {len(entries)} of its cases: {words.splitlines()[0]}"))
    return found


def table(verdicts, title):
    grid = Table(title=title, title_justify="left", title_style="bold")
    columns = ["passed on stock", "passed with Hydra", "fails on both", "only with Hydra", "unsteady", "skipped"]
    for heading in ("suite", *columns):
        grid.add_column(heading, justify="left" if heading == "suite" else "right")
    for suite in dict.fromkeys(entry.suite for entry in verdicts):
        mine = [entry for entry in verdicts if entry.suite == suite]
        counts = [sum(entry.stock == "passed" for entry in mine), sum(entry.hydra == "passed" for entry in mine),
                  *(sum(entry.kind == kind for entry in mine) for kind in columns[2:])]
        cells = [str(count) for count in counts]
        grid.add_row(suite, *cells[:3], f"[bold red]{cells[3]}[/]" if counts[3] else "0", *cells[4:])
    return grid
