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
    "debug": Stage("self tests on the debug kernel: KASAN, lockdep, page-table checks", "debug"),
    "faults": Stage("rules broken one by one on the debug kernel: does a test notice?", "debug"),
}


def described():
    return "\n".join(f"  {name:10} {stage.what}{' (only with --long)' if stage.long else ''}" for name, stage in STAGES.items())
