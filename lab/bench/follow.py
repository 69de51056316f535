# SPDX-License-Identifier: GPL-2.0-only
"""How long page tables stay behind when a program, or a virtual machine, has moved to another node: beside figure 6 of the vMitosis paper."""
from lab import paths, policies
from lab.bench.core import Bench, Step
from lab.kernel import build
from lab.machine import programs, vm
from lab.measure.limits import Check
from lab.measure.values import Line

NODES, PER_NODE = 4, 2
SECONDS = (0, 1, 2, 3, 4, 5, 10, 15, 16, 17, 18, 20, 25)     # after the move
LAST = SECONDS[-1]
HERE = paths.REPO / "lab/guest/guest_follow.py"
PROGRAM = ("--what", "program", "--seconds", str(LAST), "moved", "thread", "--seconds", str(LAST + 1))
MACHINE = ("--what", "machine", "--seconds", str(LAST), "nested", "--what", "followed")
# (case, column): its policy, and what runs. Under Linux the machine's one tree has tables=follow, under Hydra the new node has a tree of its own.
STEPS = {("program", "linux"): ("linux", PROGRAM), ("program", "hydra"): ("hydra", PROGRAM), ("machine", "linux"): ("linux", MACHINE), ("machine", "hydra"): ("hydra", MACHINE)}
OWN_PAGES = 0.02             # of the entries at most are those of the program's code, which may stay behind


def metric(second):
    return f"after_{second}_s_share"


def steps():
    return tuple(Step(case, column, ("--policy", policy), ("python3", "-I", HERE.name, *words)) for (case, column), (policy, words) in STEPS.items())


def taken(_, seen):
    return [(metric(second), seen["shares"][second], "share") for second in SECONDS]


def check(values, columns):
    def get(case, column, second):
        return values.get("follow", case, column, metric(second))
    for case, column in STEPS:
        if column in columns:
            what = f"{case}, {policies.called(column)}: entries in tables of the new node"
            first, last = get(case, column, 0), get(case, column, LAST)
            if (case, column) != ("machine", "hydra"):
                yield Check("follow", f"{what}, right after the move: less than a half", f"{100 * first:.1f} %", first < 0.5)
            if (case, column) == ("program", "linux"):
                yield Check("follow", f"{what}, {LAST} s later: as before, but for {100 * OWN_PAGES:g} %", f"{100 * last:.1f} %", abs(last - first) <= OWN_PAGES)
            else:
                yield Check("follow", f"{what}, {LAST} s later: at least {100 * (1 - OWN_PAGES):g} %", f"{100 * last:.1f} %", last >= 1 - OWN_PAGES)


def lines():
    for second in SECONDS:
        yield Line("follow", "program", metric(second), f"program of one thread: entries in tables of the new node, {second} s after it has moved", "", "most")
        yield Line("follow", "machine", metric(second), f"virtual machine: the same, {second} s after its memory and it have moved", "", "most")


BENCH = Bench(
    "follow", "page tables that follow a program, and a virtual machine, by seconds (vMitosis)", vm.Machine(NODES, PER_NODE, "2G", append=["nopku", "numa_balancing=disable"]),
    (), steps(), tuple(lines()), taken, check,
    "vMitosis (ASPLOS 2021), figure 6: Memcached has half of its throughput after a move, and all of it again some minutes later, when the tables have followed. "
    "There the data follows, too, which takes minutes. Here the program's data stays, and a machine's goes with it at once; "
    "the kernel looks for nested tables to move each second, where its default is 30.",
    made=lambda: [programs.workloads() / "moved", programs.nested(build.tree()), HERE], machines=True, why_fixed="its programs go to the last of 4 nodes")
