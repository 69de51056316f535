# SPDX-License-Identifier: GPL-2.0-only
"""KVM in the lab's machine: the lab's kernel boots in a virtual machine there, with nested paging. (Needs the built kernel.)"""
import pathlib
import re
import shlex
import subprocess

import pytest

from lab.kernel import build
from lab.machine import nested, vm
from lab.test.bochs import initramfs

pytestmark = pytest.mark.machine

HERE = pathlib.Path(__file__).resolve().parent
# nopku: see suites.selftests(). Exits for a missing entry of the nested tables are counted by KVM's own trace event.
MACHINE = vm.Machine(nodes=2, cpus_per_node=2, append=["nopku"])
SCRIPT = """
echo "nested paging: $(cat /sys/module/kvm_amd/parameters/npt)"
cd /sys/kernel/tracing || exit
echo 'exit_reason == 0x400' >events/kvm/kvm_exit/filter && echo 1 >events/kvm/kvm_exit/enable || exit
{command} </dev/null
status=$?
echo "faults in nested tables: $(grep -c 'reason npf' trace)"
exit $status
"""


@pytest.fixture
def initrd(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["gcc", "-static", "-O2", "-Wall", "-Werror", "-o", root / "init", HERE / "guest_inner.c"], check=True)
    initramfs.pack(root, tmp_path / "initrd")
    return tmp_path / "initrd"


def test_the_kernel_boots_in_a_virtual_machine_with_nested_paging(initrd):
    inner = nested.command(build.kernel("lab"), initrd)
    result, output = vm.collect(["sh", "-c", SCRIPT.format(command=shlex.join(inner))], MACHINE, 1200)
    assert (result.status, result.trouble) == (0, ""), output[-2000:]
    assert "nested paging: Y" in output
    assert "inner machine: 2 CPUs of KVMKVMKVM" in output
    assert "WARNING: " not in output
    assert int(re.search(r"^faults in nested tables: (\d+)$", output, re.M)[1]) > 100
