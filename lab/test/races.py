# SPDX-License-Identifier: GPL-2.0-only
"""Data races: the self tests on a kernel with KCSAN. Linux has many intended races; a race with a function of
arch/x86/mm/hydra or arch/x86/kvm/hydra is Hydra's, and a failure."""
import dataclasses
import re
import subprocess

from lab.errors import LabError
from lab.kernel import build
from lab.machine import programs
from lab.machine.ktap import Outcome
from lab.test import suites

TESTS = ["coherence", "huge", "shootdown", "bystanders", "filters", "events", "reclaim", "oracle", "vm_move", "vm_bystanders", "vm_follow"]
FAULT, FAULT_TEST = "count-plainly", "oracle"        # where all CPUs of a node work at once
SECONDS = 400                # for one program: the kernel is slow on purpose
SKIPPED = 400                # accesses between two watched accesses; Linux's default 4000 suits real processors
WATCH_US = 500               # microseconds of watching an access, where KCSAN must find a race; Linux: 80
OBJECTS = ["arch/x86/mm/hydra", "arch/x86/kvm/hydra"]

_TIME = r"^(?:\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? )?"
_REPORT = re.compile(f"{_TIME}BUG: KCSAN: (.*?)\\s*$", re.M)
_ACCESS = re.compile(r"\b(?:read|write|read-write)(?P<marked> \(marked\))? to 0x[0-9a-f]+ of \d+ bytes by ")
_FRAME = re.compile(f"{_TIME}\\s*([\\w.]+)\\+0x")
_LINE = re.compile(f"{_TIME}={{20,}}\\s*$", re.M)
_PART = re.compile(r"\.(?:part|constprop|isra|cold)\.?\d*")


def functions(objects):
    """The functions of our files, from the symbols of the objects."""
    files = [path for directory in OBJECTS for path in (objects / directory).glob("*.o")]
    if {str(path.parent.relative_to(objects)) for path in files} != set(OBJECTS):
        raise LabError(f"there are no objects of Hydra in {objects}", "Remove that directory, and build again.")
    listed = subprocess.run(["nm", "--defined-only", *map(str, files)], capture_output=True, text=True, check=True).stdout
    return {_PART.sub("", name) for name in re.findall(r"^[0-9a-f]+ [tT] (\S+)$", listed, re.M)}


def reports(log):
    """(title, lines) of each report in a kernel's log."""
    log = log.replace("\r", "")
    found = []
    for match in _REPORT.finditer(log):
        end = _LINE.search(log, match.end())
        found.append((match[1], log[match.start():end.start() if end else match.end() + 3000].splitlines()))
    return found


def plain(lines, names):
    """Whether one of the functions makes an access that is not marked (READ_ONCE() and so on): else the race is with Linux's plain access."""
    for line, frame in zip(lines, lines[1:]):
        access, function = _ACCESS.search(line), _FRAME.match(frame)
        if access and function and not access["marked"] and _PART.sub("", function[1]) in names:
            return True
    return False


def ours(found, names):
    """The reports of a plain access by one of the functions."""
    return [(title, lines) for title, lines in found
            if {_PART.sub("", word) for word in re.findall(r"[\w.]+", title)} & names and plain(lines, names)]


def judge(found, names):
    """Outcomes of all reports: reports of Linux's races show that KCSAN works, a report of a race of Hydra is a failure."""
    if not found:
        return [Outcome("KCSAN finds races of Linux's own", "failed", "not one: it does not work, so the rest shows nothing")]
    mine = ours(found, names)
    return [Outcome("KCSAN finds races of Linux's own", "passed"), *(
        Outcome(title, "failed", "\n".join(lines)) for title, lines in mine
    ), *([] if mine else [Outcome("no data race with a function of Hydra", "passed")])]


def judge_injected(found, names):
    """Outcomes under an injected fault that causes races: KCSAN must report them."""
    mine = ours(found, names)
    return [Outcome(f"injected fault {FAULT}", "passed" if mine else "failed",
                    mine[0][0] if mine else f"no data race with a function of Hydra among {len(found)}")]


def run():
    """The self tests under KCSAN, and one test with an injected race; a list of outcomes."""
    build.kernel("kcsan")
    names = functions(build.objects_of(build.tree(), "kcsan"))
    where = {test.name: test for test in programs.selftests(build.tree())}
    machine = dataclasses.replace(suites.MACHINE, config="kcsan", append=[f"kcsan.skip_watch={SKIPPED}"])
    patient = dataclasses.replace(machine, append=[*machine.append, f"kcsan.udelay_task={WATCH_US}"])
    found = suites.selftests([where[name] for name in TESTS], machine, "KCSAN", seconds=SECONDS,
                             judge_log=lambda log: judge(reports(log), names))
    return found + suites.selftests([where[FAULT_TEST]], patient, f"KCSAN, {FAULT}", seconds=3 * SECONDS, broken=FAULT,
                                    arguments="--policy hydra", judge_log=lambda log: judge_injected(reports(log), names))
