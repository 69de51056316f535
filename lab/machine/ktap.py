# SPDX-License-Identifier: GPL-2.0-only
"""Reads test results in the Test Anything Protocol: the self tests' output, and KUnit's part of the kernel log."""
import dataclasses
import re

_TIME = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")
_RESULT = re.compile(r"^( *)(not ok|ok) (\d+)(?: -)? ?([^#]*?) *(?:# *(\w+)(.*))?$")
_PLAN = re.compile(r"^( *)1\.\.(\d+)(?: *# *SKIP(.*))?")


@dataclasses.dataclass
class Outcome:
    name: str
    result: str              # passed, failed or skipped
    why: str = ""            # for failed ones: what was printed since the last result
    seeds: str = ""          # for the first result of a program that draws random numbers: the name and the seed

    @property
    def failed(self):
        return self.result == "failed"

    def on(self, label):
        """The outcome with the name of the machine, to tell machines apart."""
        return dataclasses.replace(self, name=f"{self.name} [{label}]", seeds=self.seeds and f"{self.seeds} [{label}]")


def parse(text, suite=""):
    """All results except sums of nested results; missing results of a plan are one failure."""
    outcomes, said, plans = [], [], {}
    counted = {}                     # results seen at each depth since the plan
    summed = 0                       # how many outcomes the sums so far are about
    nested_at = None                 # depth of the last result if nested ones belong to the next one above
    for line in text.replace("\r", "").splitlines():
        line = _TIME.sub("", line)
        if plan := _PLAN.match(line):
            depth = len(plan[1])
            plans[depth], counted[depth] = int(plan[2]), 0
            if plan[2] == "0":
                outcomes.append(Outcome(suite or "plan", "skipped", (plan[3] or "").strip()))
            continue
        match = _RESULT.match(line)
        if not match:
            said.append(line)
            continue
        depth = len(match[1])
        counted[depth] = counted.get(depth, 0) + 1
        is_sum = nested_at is not None and nested_at > depth
        nested_at = depth
        if is_sum:
            outcomes += unkept(plans, counted, depth, match[4] or suite)
            if match[2] == "not ok" and not any(outcome.failed for outcome in outcomes[summed:]):
                outcomes.append(Outcome(f"{suite}: {match[4]}".removeprefix(": "), "failed", "\n".join(said[-12:])))
            said, summed = [], len(outcomes)
            continue
        name = match[4].strip() or f"test {match[3]}"
        directive = (match[5] or "").upper()
        result = "failed" if match[2] == "not ok" and directive not in ("SKIP", "XFAIL") else \
            "skipped" if directive == "SKIP" else "passed"
        notes = [entry.strip().removeprefix("# ") for entry in said if entry.strip()][-12:]
        outcomes.append(Outcome(f"{suite}: {name}" if suite else name, result,
                                "\n".join(notes) if result == "failed" else (match[6] or "").strip()))
        said = []
    return outcomes + unkept(plans, counted, -1, suite)


def unkept(plans, counted, above, name):
    """Failures for plans deeper than a depth with missing results; forgets the plans."""
    missing = []
    for depth in [depth for depth in plans if depth > above]:
        promised, came = plans.pop(depth), counted.pop(depth, 0)
        if came < promised:
            missing.append(Outcome(f"{name or 'tests'}: results {came + 1} to {promised}", "failed",
                                   f"{promised} results were announced, {came} came"))
    return missing


def kunit(log):
    """The results of KUnit in a kernel log, from 'KTAP version' on."""
    lines = [_TIME.sub("", line) for line in log.replace("\r", "").splitlines()]
    start = next((n for n, line in enumerate(lines) if line.startswith("KTAP version")), None)
    if start is None:
        return []
    kept = [line for line in lines[start:] if re.match(r" *(?:ok|not ok|1\.\.|#|KTAP)", line)]
    return parse("\n".join(kept), "KUnit")
