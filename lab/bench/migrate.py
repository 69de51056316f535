# SPDX-License-Identifier: GPL-2.0-only
"""A virtual machine with a tree of nested tables for each node migrates to hosts with other nodes and other settings."""
from lab import paths, policies
from lab.bench import walks
from lab.bench.core import Bench, Step
from lab.kernel import build
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import Line

NODES, TARGET_NODES = 4, 2
CPUS = 4                     # virtual ones, of lab/guest/guest_migrate.py
COLUMNS = ("linux", "hydra")             # of the source: its machine has one tree, or one for each node
LEAVES = "leaves"
# Where it arrives: the settings there, and what the host tells the machine's kernel
TARGETS = {"hydra": (("--policy", "hydra", "--replication", "eager"), ("--expose",)), "stock": (("--policy", "linux"), ())}
CASES = {LEAVES: f"the source, {NODES} nodes", "hydra": f"a target of {TARGET_NODES} nodes with Hydra, replication=eager", "stock": f"a target of {TARGET_NODES} nodes, as Linux"}
TARGET = vm.Machine(TARGET_NODES, 2, "2G", append=["nopku", "numa_balancing=disable"])
SOURCE = paths.REPO / "lab/guest/migrate_inner.c"
HERE = paths.REPO / "lab/guest/guest_migrate.py"
INITRD = "migrate-initrd"
EIO = 5                      # of the guest's kernel, if the host does not tell


def stream(column):
    return f"stream-{column}"


def steps():
    def command(what, column, nodes, *more):
        return ("python3", "-I", HERE.name, "--what", what, "--stream", stream(column), "--nodes", str(nodes), "--image", "bzImage", "--initrd", INITRD,
                "--processor", vm.INNER_PROCESSOR, "--parameters", f"{vm.INNER_PARAMETERS} {vm.NOT_KVMS_GUEST}", *more)
    for column in COLUMNS:
        yield Step(LEAVES, column, ("--policy", column), command("source", column, NODES))
    for case, (settings, more) in TARGETS.items():
        for column in COLUMNS:
            yield Step(case, column, settings, command("target", column, TARGET_NODES, *more), TARGET)


def taken(step, seen):
    made = [(name, seen[name], unit) for name, unit in (("trees", "trees"), ("tables", "tables"), ("fallbacks", "times"), ("dropped", "trees"), ("written", "pages"), ("wrong", "pages"), ("pooled", "pages"), ("refused", "pages"),
                                                        ("away", "pages"), ("error", "errno"), ("violations", "violations"), ("inner_violations", "violations"))]
    if step.case == LEAVES:
        made += [("rounds", seen["rounds"], "rounds"), ("stream_kib", seen["stream"] // 1024, "KiB")]
        return made + [(f"{phase}_{name}", number, unit) for phase in ("running", "stopped")
                       for name, number, unit in ((name, seen[phase][name], unit) for name, unit in UNITS.items())]
    places = seen["places"]
    mapped = sum(sum(place.values()) for place in places)
    return made + [("told_no_more", seen["told_no_more"], "lines"), ("hypercalls", seen["hypercalls"], "hypercalls"), ("hypercalls_later", seen["hypercalls_later"], "hypercalls"),
                   ("all_there", int(sum(seen["vcpus"]) == CPUS and mapped == CPUS * seen["pages"] and not any(place.get("unmapped") for place in places)), "machines"),
                   ("both_local_share", sum(place.get("ll", 0) for place in places) / mapped, "share")]


# What is done for the machine in each phase of the source
UNITS = {"exits": "exits", "pf_taken": "exits", "entries": "entries", "holds": "times", "pages": "pages", "tables": "tables", "copied": "entries"}


def check(values, columns):
    def get(case, column, metric):
        return values.get("migrate", case, column, metric)

    def one(text, seen, passed):
        return Check("migrate", text, str(seen), passed)
    for column in columns:
        called = policies.called(column)
        trees = NODES if column == "hydra" else 1
        seen = [get(LEAVES, column, metric) for metric in ("trees", "fallbacks", "dropped")]
        yield one(f"{CASES[LEAVES]}, {called}: trees exactly {trees} when it has left, none given up, none dropped", seen, seen == [trees, 0, 0])
        for case in CASES:
            seen = [get(case, column, metric) for metric in ("violations", "inner_violations", "wrong")]
            yield one(f"{CASES[case]}, from {called}: no violation in host and machine, no page with a wrong number", seen, seen == [0, 0, 0])
        seen = [get(LEAVES, column, metric) for metric in ("stopped_exits", "stopped_pf_taken", "stopped_tables", "stopped_copied")]
        yield one(f"{CASES[LEAVES]}, {called}: while the machine stands, no exit, no table and no copy", seen, seen == [0] * 4)
        entries, pages = (get(LEAVES, column, metric) for metric in ("stopped_entries", "stopped_pages"))
        yield one(f"{CASES[LEAVES]}, {called}: while it stands, at most {trees} changed entries for each page that is sent: each tree's", f"{entries} for {pages}", 0 < entries <= trees * pages)
        for case in TARGETS:
            before, now = (get(where, column, "written") for where in (LEAVES, case))
            yield one(f"{CASES[case]}, from {called}: the machine goes on writing", f"{now} after {before}", now > before)
            seen = get(case, column, "all_there")
            yield one(f"{CASES[case]}, from {called}: each of {CPUS} CPUs reaches all data", seen, seen == 1)
        seen = [get("hydra", column, metric) for metric in ("trees", "fallbacks")]
        yield one(f"{CASES['hydra']}, from {called}: a tree for each of its {TARGET_NODES} nodes, none given up", seen, seen == [TARGET_NODES, 0])
        seen = [get("hydra", column, metric) for metric in ("error", "away", "hypercalls_later", "told_no_more")]
        yield one(f"{CASES['hydra']}, from {called}: the host tells where the CPUs are, the pools of their groups are there, and no question follows", seen, seen == [0] * 4)
        before, now = (get(case, column, "refused") for case in (LEAVES, "hydra"))
        yield one(f"{CASES['hydra']}, from {called}: no free page leaves the pools, also if QEMU did not send it", f"{now - before}", now == before)
        share = get("hydra", column, "both_local_share")
        yield one(f"{CASES['hydra']}, from {called}: both last entries on each walker's node", f"{100 * share:.4g} %", share == 1)
        seen = [get("stock", column, metric) for metric in ("trees", "error", "told_no_more", "hypercalls", "hypercalls_later")]
        yield one(f"{CASES['stock']}, from {called}: one tree; one question without an answer, which the log tells, and no page is asked for", seen, seen == [1, EIO, 1, 1, 0])
    if "hydra" in columns:
        more, linux = (get(LEAVES, column, "stopped_holds") for column in ("hydra", "linux"))
        yield one("while it stands, Hydra: slots_lock is taken for the log at most as often as under Linux", f"{more} and {linux}", more <= linux)


LINES = (
    Line("migrate", LEAVES, "trees", "trees of nested tables at the source", "", ""),
    Line("migrate", LEAVES, "tables", "nested tables at the source, before", "", ""),
    Line("migrate", LEAVES, "running_pf_taken", "exits for entries, from the beginning of the log until the machine stops", ""),
    Line("migrate", LEAVES, "running_entries", "changed entries meanwhile", ""),
    Line("migrate", LEAVES, "running_tables", "tables more meanwhile", "", ""),
    Line("migrate", LEAVES, "running_holds", "ioctls for the log meanwhile, which hold slots_lock", "", ""),
    Line("migrate", LEAVES, "stopped_holds", "ioctls for the log while the machine stands", ""),
    Line("migrate", LEAVES, "stopped_entries", "changed entries while it stands", ""),
    Line("migrate", LEAVES, "stopped_pages", "pages sent while it stands", "", ""),
    Line("migrate", LEAVES, "stopped_tables", "tables more while it stands", "", ""),
    Line("migrate", "hydra", "trees", f"trees at {CASES['hydra']}", "", ""),
    Line("migrate", "hydra", "both_local_share", "page walks there with both last entries on the walker's node, once the machine has asked again", "", ""),
    Line("migrate", "hydra", "hypercalls", "questions until then", "", ""),
    Line("migrate", "hydra", "refused", "free pages that left the pools of the machine's page tables until then, at the source and after", "", ""),
    Line("migrate", "stock", "trees", f"trees at {CASES['stock']}", "", ""),
    Line("migrate", "stock", "hypercalls", "questions there, without an answer", "", ""),
)

BENCH = Bench(
    "migrate", "a virtual machine migrates from 4 nodes to 2, with and without Hydra there",
    vm.Machine(NODES, 2, "3G", append=["nopku", "numa_balancing=disable"]), (), tuple(steps()), LINES, taken, check,
    "No paper migrates a machine that has copies of its nested tables. The columns are the source's: one tree, or one for each node. Columns differ by chance in how "
    "many pages the last round has. Not measurable in an emulator: the downtime, and how long locks are held.",
    made=lambda: [HERE, walks.HERE, walks.PART, build.kernel(), walks.initrd(SOURCE, INITRD)], machines=True, limit=2400,
    why_fixed="the machine has a CPU on each of 4 nodes, and goes to a host of 2")
