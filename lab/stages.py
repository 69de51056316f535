# SPDX-License-Identifier: GPL-2.0-only
"""The stages of ./hydra test, in their order: what --help and the runner both need to know."""
import dataclasses


@dataclasses.dataclass
class Stage:
    what: str
    config: str = ""         # the kernel it needs
    long: bool = False       # only with --long


STAGES = {
    "host": Stage("the lab, the tool's parsing, the model (no virtual machine)"),
    "machine": Stage("the lab with real virtual machines", "lab"),
    "selftests": Stage("KUnit and the kernel self tests", "lab"),
    "modes": Stage("self tests with 4 and 5 levels, isolated tables, huge pages, odd machines", "lab"),
    "suites": Stage("Linux's own tests and stress-ng, on stock and with Hydra for every process", "lab"),
    "debug": Stage("self tests on the debug kernel: KASAN, lockdep, page-table checks", "debug"),
    "faults": Stage("rules broken one by one on the debug kernel: does a test notice?", "debug"),
    "races": Stage("self tests on a kernel that looks for data races (KCSAN)", "kcsan", long=True),
    "pressure": Stage("data under pressure for hours, 10000 changes of the policy", "debug", long=True),
    "oracle": Stage("a million operations of the stale-translation oracle", "lab", long=True),
    "suites-debug": Stage("Linux's own tests on the debug kernel", "debug", long=True),
    "pcid": Stage("self tests and an injected fault on an emulated processor with PCID (Bochs)", "debug", long=True),
}


def described():
    return "\n".join(f"  {name:13} {stage.what}{' (only with --long)' if stage.long else ''}" for name, stage in STAGES.items())
