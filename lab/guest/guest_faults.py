# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the virtual machine: breaks one of Hydra's rules after the other and records what notices.

guest_faults.py LIMIT PLAN, where PLAN is JSON: a list of [name, rule, command, runs]. The command is run until the command
notices the broken rule, at most runs times. Prints one JSON object per line: {"rules": […]} all rules of the kernel;
{"begin": name, "run": number} ahead of each run of a command; {"name", "by", "run", "seconds", "words"} at the end of each
entry of the plan. "by" is what noticed: the command's first failed test, the invariant checker, the kernel's log; null:
nothing. "run" is the number of the last run.
"""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time

BREAK = pathlib.Path("/sys/kernel/mm/hydra/break")
VIOLATIONS = pathlib.Path("/sys/kernel/mm/hydra/violations")
FAILED = re.compile(r"^\s*not ok \d+ *-? *(.*)")
COMPLAINT = re.compile(r"BUG:|WARNING:|hydra: invariant")


def put(**fields):
    print(json.dumps(fields), flush=True)


def complaints():
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
    return [line for line in log.splitlines() if COMPLAINT.search(line)]


def kill_all(program):
    """Kill every process of a program: tests run in other process groups, and would continue under the next injected
    fault."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe") == os.path.realpath(program):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            pass                     # the process has ended, or is a kernel thread


def first_failure(command, limit):
    """Run a command until the first failed test, the end, or the limit; returns (what failed or '', the last words)."""
    end = time.monotonic() + limit
    lines, rest = [], b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        try:
            while (left := end - time.monotonic()) > 0:
                if not select.select([child.stdout], [], [], left)[0]:
                    break
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    status = child.wait()
                    return (f"exit status {status}" if status not in (0, 4) else "", lines[-6:])
                *whole, rest = (rest + data).split(b"\n")
                for line in (text.decode(errors="replace") for text in whole):
                    if match := FAILED.match(line):
                        return match[1], lines[-6:]
                    lines.append(line)
            return f"no end within {limit:g} s", lines[-6:]
        finally:
            kill_all(command[0])
            child.stdout.close()


def noticed(rule, command, limit):
    """Run a command while a rule is broken; returns (what noticed: None if nothing, the last words)."""
    said, violations = len(complaints()), VIOLATIONS.read_text()
    BREAK.write_text(rule)
    try:
        failure, words = first_failure(command, limit)
    finally:
        BREAK.write_text("none")
    program, new = os.path.basename(command[0]), complaints()[said:]
    if failure:
        return f"{program}: {failure}", words
    if VIOLATIONS.read_text() != violations:
        return f"the invariant checker, at the exit of {program}", new[:3]
    if new:
        return f"the kernel's log, after {program}", new[:3]
    return None, words


def attempt(name, rule, command, runs, limit):
    """Run a command until the command notices a broken rule: on a busy host, a test that depends on chance may miss one."""
    start, by, words, run = time.monotonic(), None, [], 0
    while not by and run < runs:
        run += 1
        put(begin=name, run=run)
        by, words = noticed(rule, command, limit)
    put(name=name, by=by, run=run, seconds=round(time.monotonic() - start, 1), words=words)


def main():
    limit, plan = float(sys.argv[1]), json.loads(sys.argv[2])
    put(rules=[word.strip("[]") for word in BREAK.read_text().split() if word.strip("[]") != "none"])
    for name, rule, command, runs in plan:
        attempt(name, rule, command, runs, limit)


if __name__ == "__main__":
    main()
