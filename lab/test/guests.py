# SPDX-License-Identifier: GPL-2.0-only
"""Self tests in virtual machines inside the lab's machine, with a tree of nested page tables for each node, while CPUs are regrouped.

The three kinds of the vMitosis paper: a machine that sees its nodes (NV), one that asks the host where its CPUs are (NO-P), and one that
groups its CPUs alone (NO-F). In the second, the host moves the virtual CPUs from node to node all the time; in the third, a
list changes all the time. A fourth has two virtual CPUs for each of the host's, and leaves flushes of those that do not run to the host.
"""
import dataclasses
import pathlib
import re
import shlex
import tempfile

from lab import children, paths, progress
from lab.errors import LabError
from lab.kernel import build
from lab.machine import console, initramfs, programs, vm
from lab.machine.ktap import Outcome
from lab.test import suites

NODES, MIB = 4, 192          # and memory of the inner machine on each node
MACHINE = vm.Machine(nodes=NODES, cpus_per_node=2, memory="3G", append=["nopku", "numa_balancing=disable"])
SECONDS = 600                # for one program; its CPUs are those of a machine in an emulated machine
TESTS = {"coherence": "-V whole_tables_running", "bystanders": "", "oracle": "--operations 300"}
OTHERS = ["sleep", "timeout", "cat", "mkswap", "mkfs.ext4"]


@dataclasses.dataclass
class Kind:
    name: str
    parameters: str = ""     # of the inner kernel
    sees_nodes: bool = False
    exposed: bool = False    # the host answers the inner kernel's questions, and moves its virtual CPUs
    regroup: tuple = ()      # what is written in turn to /sys/kernel/mm/hydra/regroup
    crowded: bool = False    # two virtual CPUs take turns on a CPU of the host, and the inner kernel knows that it is KVM's guest


KINDS = [Kind("NV", sees_nodes=True),
         Kind("NO-P", "hydra_groups=pv", exposed=True, regroup=("again",)),
         Kind("NO-F", "hydra_groups=0/1/2/3", regroup=("3/0/1/2", "2,3/0/1", "1/2/3/0", "0/1/2/3")),
         Kind("crowded", sees_nodes=True, crowded=True)]

# The inner machine's commands. Groups that are no others than before are not counted.
INNER = """
cd /sys/kernel/mm/hydra || exit
regroup() {{
    last=$(cat domains)
    while :; do
        for groups in {regroup}; do
            echo $groups >regroup
            now=$(cat domains)
            [ "$now" = "$last" ] || echo changed >>/tmp/changed
            last=$now
            sleep 0.1
        done
    done
}}
{start}
ARGUMENTS= BROKEN=none HELD= sh /guest_selftests.sh {seconds} {tests}
changed=0
while read -r _; do changed=$((changed + 1)); done </tmp/changed
[ ! -e pools ] || cat pools
echo "### regrouped $changed violations $(cat violations) left to the host $(cat left_to_host)"
"""

# In the lab's machine: each virtual CPU on a node of its own, at first or, if it moves, at all times on another one than before.
OUTER = """
echo never >/sys/kernel/mm/transparent_hugepage/enabled
python3 {held} || exit
{hydractl} run -- {command} -name debug-threads=on </dev/null &
pid=$!
turn=0 exposed=
while kill -0 $pid 2>/dev/null; do
    {expose}
    for thread in /proc/$pid/task/*; do
        read -r name <$thread/comm || continue
        case $name in
        CPU*KVM)
            number=${{name#CPU }}
            node=$(((${{number%/KVM}} / {crowd} * {crowd} + turn) % {nodes}))
            taskset -pc $((2 * node + 1)) ${{thread##*/}} ;;
        esac
    done >/dev/null 2>&1
    turn=$((turn + {moves}))
    cat /proc/$pid/hydra_vm_check >>/tmp/checks
    [ "$(grep -c "^domain.* vcpus 1 " /proc/$pid/hydra_vm_tables)" != {nodes} ] || echo spread >>/tmp/spread
    cat /proc/$pid/hydra_vm >/tmp/seen && cp /tmp/seen /tmp/last
    sleep 1
done 2>/dev/null
wait $pid
echo "### ended $?"
cat /tmp/last /tmp/checks /tmp/spread
echo "### host's violations $(cat /sys/kernel/mm/hydra/violations)"
"""


def initrd(kind, tests, directory):
    """The inner machine's file system: the self tests, a shell, and what they need."""
    root = pathlib.Path(directory) / "root"
    root.mkdir()
    status, said = children.run(["gcc", "-static", "-O2", "-Wall", "-Werror", "-o", root / "init", paths.REPO / "lab/guest/guest_init.c"])
    if status:
        raise LabError(f"guest_init.c does not compile: {said[-1000:]}")
    initramfs.lay(root, map(initramfs.program, OTHERS))
    for source, target in ((initramfs.program("sh"), "/bin/sh"), *((test, f"/tests/{test.name}") for test in tests)):
        initramfs.put(root, source, target)
        for library in initramfs.libraries(source):
            initramfs.put(root, library, library)
    initramfs.put(root, paths.REPO / "lab/guest/guest_selftests.sh", "/guest_selftests.sh")
    words = [shlex.quote(f"/tests/{test.name} {TESTS[test.name]}".strip()) for test in tests]
    (root / "commands").write_text(INNER.format(regroup=" ".join(kind.regroup), start="regroup &" if kind.regroup else ": >/tmp/changed",
                                                seconds=SECONDS, tests=" ".join(words)), encoding="utf-8")
    initramfs.pack(root, pathlib.Path(directory) / "initrd")
    return pathlib.Path(directory) / "initrd"


def commands(kind, archive):
    """What the lab's machine runs."""
    inner = vm.inner_command(build.kernel("lab"), archive, f"{NODES},sockets={NODES}", f"{NODES * MIB}M", f"nopku numa_balancing=disable loglevel=5 {kind.parameters}",
                             knows=kind.crowded)
    for node in range(NODES if kind.sees_nodes else 0):
        inner += ["-object", f"memory-backend-ram,id=m{node},size={MIB}M,host-nodes={node},policy=bind", "-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    hydractl = shlex.quote(str(programs.hydractl()))
    expose = f"[ -n \"$exposed\" ] || {{ {hydractl} set --vm --expose $pid && exposed=yes; }} 2>/dev/null" if kind.exposed else ":"
    return OUTER.format(held=shlex.quote(vm.HELD_VMS), hydractl=hydractl, command=shlex.join(inner), expose=expose, nodes=NODES, moves=int(kind.exposed), crowd=1 + kind.crowded)


def judge(kind, text):
    """Outcomes of one machine, from its console and what the host's kernel says of it."""
    outcomes = suites.split_programs(text, list(TESTS), SECONDS)

    def verdict(name, good, why):
        outcomes.append(Outcome(name, "passed" if good else "failed", "" if good else why))
    for name, lines in console.trouble(text):
        outcomes.append(Outcome(f"the machine's kernel log: {name}", "failed", "\n".join(lines)))
    said = re.search(r"^### regrouped (\d+) violations (\d+) left to the host (\d+)", text, re.M)
    why = said[0] if said else "the machine did not come to its end"
    verdict("the machine's page tables", said and said[2] == "0", why)
    if kind.regroup:
        verdict("the machine's CPUs were regrouped", said and int(said[1]) >= 10, why)
    state = dict(re.findall(r"^(active|fallbacks|moves) (\d+)$", text, re.M))
    verdict("a nested tree for each node", state.get("active") == "1" and state.get("fallbacks") == "0", f"{state}")
    if kind.crowded:
        verdict("flushes left to the host", said and int(said[3]) >= 10, why)
    else:
        verdict("virtual CPUs on all nodes", len(re.findall("^spread$", text, re.M)) >= 5, "not seen five times")
    if kind.exposed:
        pools = re.findall(r"^group (\d+ pages \d+ .*)$", text, re.M)
        verdict("pages that the host has placed", len(pools) == NODES and not any(" pages 0 " in pool for pool in pools), f"{pools}")
        verdict("virtual CPUs move", int(state.get("moves", 0)) >= 20, f"{state}")
    checks = re.findall(r"^tables .* violations (\d+)$", text, re.M)
    verdict("nested page tables", len(checks) >= 5 and set(checks) == {"0"} and "### host's violations 0\n" in text, f"violations: {checks}")
    return [outcome.on(kind.name) for outcome in outcomes]


def run(only=""):
    """The self tests in a machine of each kind."""
    outcomes = []
    for kind in [kind for kind in KINDS if only in kind.name]:
        tests = [test for test in programs.selftests(build.tree()) if test.name in TESTS]
        with tempfile.TemporaryDirectory(dir=paths.cache_dir("programs")) as directory:
            script = commands(kind, initrd(kind, tests, directory))
            with progress.counting(f"self tests in a machine in the machine ({kind.name})", len(tests) + 1) as bar:
                result, text = vm.collect(["sh", "-c", script], MACHINE, vm.BOOT_LIMIT + SECONDS * (len(tests) + 1), suites.Watcher(bar), build.kernel("lab"))
        text = text.replace("\r", "")
        if took := suites.times(text):
            progress.say(f"seconds ({kind.name}): {took}")
        outcomes += judge(kind, text)
        if result.trouble:
            outcomes.append(Outcome("the machine", "failed", result.trouble).on(kind.name))
    return outcomes
