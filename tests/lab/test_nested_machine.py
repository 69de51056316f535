# SPDX-License-Identifier: GPL-2.0-only
"""KVM in the lab's machine: the lab's kernel boots in a virtual machine there, with nested paging. (Needs the built kernel.)"""
import pathlib
import re
import shlex
import subprocess

import pytest

from lab.kernel import build
from lab.machine import initramfs, programs, vm

pytestmark = pytest.mark.machine

HERE = pathlib.Path(__file__).resolve().parent
# nopku: see suites.selftests(). Exits for missing entries of the nested tables are counted by KVM's own trace event.
MACHINE = vm.Machine(nodes=2, cpus_per_node=2, append=["nopku"])
# While the inner machine runs: each vCPU on a node of its own, and what KVM says of the nested trees.
WATCH = """
echo "nested paging: $(cat /sys/module/kvm_amd/parameters/npt)"
events=/sys/kernel/tracing/events/kvm/kvm_exit
echo 'exit_reason == 0x400' >$events/filter && echo 1 >$events/enable || exit
{hydractl} run -- {command} -name debug-threads=on </dev/null &
pid=$!
while kill -0 $pid 2>/dev/null; do
    for thread in /proc/$pid/task/*; do
        case $(cat $thread/comm 2>/dev/null) in
        "CPU 0/KVM") taskset -pc 0-1 ${{thread##*/}} ;;
        "CPU 1/KVM") taskset -pc 2-3 ${{thread##*/}} ;;
        esac >/dev/null 2>&1
    done
    {hydractl} vm $pid >/tmp/seen 2>/dev/null && {hydractl} vm --tables $pid >/tmp/tables 2>/dev/null &&
        cat /proc/$pid/hydra_vm_check >/tmp/check && cat /tmp/seen /tmp/tables /tmp/check >/tmp/last
    sleep 0.3
done
wait $pid
status=$?
cat /tmp/last
echo "exits for missing entries: $(grep -c 'reason npf' /sys/kernel/tracing/trace)"
exit $status
"""


@pytest.fixture
def initrd(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["gcc", "-static", "-O2", "-Wall", "-Werror", "-o", root / "init", HERE / "guest_inner.c"], check=True)
    initramfs.pack(root, tmp_path / "initrd")
    return tmp_path / "initrd"


def inner_machine_was_well(output):
    warnings = re.findall(r"^.*WARNING: (?:.*\n){1,20}", output, re.M)
    assert not warnings, warnings[0]
    said = re.findall(r"^.*inner machine.*\n.*", output, re.M)
    assert re.search(r"^inner machine: 2 CPUs of KVMKVMKVM$", output, re.M), said or output[-4000:]


def test_a_virtual_machine_of_qemu_has_a_tree_for_each_node(initrd):
    inner = vm.inner_command(build.kernel("lab"), initrd)
    script = WATCH.format(hydractl=programs.hydractl(), command=shlex.join(inner))
    result, output = vm.collect(["sh", "-c", script], MACHINE, 1200)
    assert (result.status, result.trouble) == (0, ""), output[-2000:]
    inner_machine_was_well(output)
    assert "nested paging: Y" in output
    assert int(re.search(r"^exits for missing entries: (\d+)$", output, re.M)[1]) > 100

    def number(key):
        return int(re.search(rf"^  {key} +(\d+)$", output, re.M)[1])
    assert number("active") == 1 and number("fallbacks") == 0
    assert number("moves") >= 2 and number("copied") > 0
    # The columns of 'hydractl vm --tables': domain, node, vcpus, local_leaves, remote_leaves
    rows = re.findall(r"^  ([01]) +\1 +(\d+) +(\d+) +(\d+) *$", output, re.M)
    assert len(rows) == 2 and all(int(local) > 0 and int(remote) == 0 for _, _, local, remote in rows), output[-2000:]
    assert re.findall(r"^tables .* violations (\d+)$", output, re.M) == ["0"]
