# SPDX-License-Identifier: GPL-2.0-only
"""The bpftrace scripts name tracepoints and fields that the kernel has."""
import re

import pytest

from lab import paths

EVENTS = (paths.REPO / "kernel/include/trace/events/hydra.h").read_text(encoding="utf-8")
LINUX = {("raw_syscalls", "sys_enter"): {"id", "args"}, ("raw_syscalls", "sys_exit"): {"id", "ret"}, ("mmap_lock", "mmap_lock_start_locking"): {"mm", "write"},
         ("mmap_lock", "mmap_lock_acquire_returned"): {"mm", "write", "success"}}
FIELDS = LINUX | {("hydra", name): set(re.findall(r"__field\([\w ]+, (\w+)\)", body))
          for name, body in re.findall(r"^TRACE_EVENT\((\w+),(.*?)TP_fast_assign", EVENTS, re.M | re.S)}


def unknown(text):
    """What the probes of a script use and the kernel lacks."""
    probes = re.findall(r"^tracepoint:(\w+):(\w+)\n(.*?)^\}", text, re.M | re.S)
    assert len(probes) == text.count("tracepoint:") > 0
    return ([event for system, event, _ in probes if (system, event) not in FIELDS] +
            [f"{event}.{field}" for system, event, body in probes for field in re.findall(r"args->(\w+)", body) if field not in FIELDS.get((system, event), ())])


@pytest.mark.parametrize("script", sorted((paths.REPO / "tools/bpftrace").glob("*.bt")), ids=lambda path: path.name)
def test_scripts_use_fields_that_exist(script):
    text = script.read_text(encoding="utf-8")
    assert unknown(text) == []


def test_a_field_that_does_not_exist_is_noticed():
    assert unknown("tracepoint:hydra:hydra_flush\n{\n\t@a = sum(args->targets + args->cost);\n}\n") == ["hydra_flush.cost"]
    assert unknown("tracepoint:hydra:hydra_flash\n{\n\t@a = sum(args->targets);\n}\n") == ["hydra_flash", "hydra_flash.targets"]
