# SPDX-License-Identifier: GPL-2.0-only
"""How many fills a random pass over another node's memory takes, by the degree of prefetching: the paper's figure 6."""
from lab import policies
from lab.bench.core import Bench, Step
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line

TABLES = 32
PAGES = TABLES * 512
DEGREES = range(10)
COLUMNS = {"linux": ("--policy", "linux"), "mitosis": ("--policy", "mitosis"),
           **{f"H-{degree}": ("--policy", "hydra", "--prefetch", str(degree)) for degree in DEGREES}}
PASSES = ("first", "second")


def steps():
    return tuple(Step("first", policy, settings, ("prefetch", "--tables", str(TABLES))) for policy, settings in COLUMNS.items())


def taken(_, seen):
    return [(f"{name}_{metric}", seen[name][metric], metric) for name in PASSES for metric in ("fills", "faults")] + \
        [("us_per_op", seen["first"]["seconds"] * 1e6 / seen["pages"], "us"), ("pages", seen["pages"], "pages"),
         ("domains", seen["domains"], "domains")]


def expected(policy):
    """Fills of the first pass."""
    return PAGES >> int(policy[2:]) if policy.startswith("H-") else 0


def check(values, columns):
    for policy in columns:
        def get(metric, policy=policy):
            return values.get("prefetch", "first", policy, metric)
        wanted, domains = expected(policy), 0 if policy == "linux" else 2
        at_once = f" ({PAGES} pages, {2 ** int(policy[2:])} at a time)" if wanted else ""
        seen = get("first_fills"), get("second_fills")
        yield Check("prefetch", f"{policies.called(policy)}: exactly {wanted} fills in the first pass{at_once}, none in the second", "{} and {}".format(*seen),
                    seen == (wanted, 0))
        yield Check("prefetch", f"{policies.called(policy)}: no other page faults in the first pass over {PAGES} pages; domains with tables of their own: "
                    f"{domains}", f"{get('first_faults')} faults, {get('pages')} pages, {get('domains')} domains",
                    (get("first_faults"), get("pages"), get("domains")) == (wanted, PAGES, domains))


LINES = [
    Line("prefetch", "first", "first_fills", "fills, first pass", ""), Line("prefetch", "first", "second_fills", "fills, second pass", ""),
    Line("prefetch", "first", "first_faults", "page faults, first pass", "", ""),
    Line("prefetch", "first", "us_per_op", "an emulator's time, first pass, Linux = 1", "", ""),
]

BENCH = Bench(
    "prefetch", "fills in a random pass over memory of another node, by degree of prefetching (figure 6)", vm.Machine(2, 2, "1G"),
    ("prefetch",), steps(), tuple(LINES), taken, check,
    "Figure 6 of the Hydra paper: the time of the first random pass over 1 GB of another node falls with the degree (H-0 to H-9) until it "
    "equals Mitosis, which has no fills. Later passes take the same time under all. Ours is 64 MiB. An emulator's TLB, caches and distances between "
    "nodes are not a real machine's: its times tell what the fills cost, and not what a walk of remote page tables costs.", across=True,
    why_fixed="a thread of one node reads what a thread of another has written, and others have no part in it")
