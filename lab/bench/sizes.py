# SPDX-License-Identifier: GPL-2.0-only
"""What mmap, munmap and mprotect execute by size, counted by the meter: Hydra's figures 2b and 9, and vMitosis's table 5."""
from lab import policies
from lab.bench import operations
from lab.bench.core import Bench
from lab.machine import vm
from lab.measure.limits import Check
from lab.measure.values import FIELDS, Line
from lab.meter import steps
from lab.meter.steps_samples import Disagreement

NODES, SAMPLES = operations.NODES, operations.SAMPLES
COLUMNS = ("linux", "mitosis", "hydra")
SIZES = {"4k": "4 KiB", "64k": "64 KiB", "512k": "512 KiB", "4m": "4 MiB"}
CALLS = {"mprotect": "mprotect", "unmap": "munmap", "map-unmap": "mmap, touch, munmap"}
MAP = "mmap, touch"          # what is left of all three without munmap
LOOK_UP = 1.2                # of Linux's instructions: a small call pays for the look for sharers


def case_of(call, size):
    return f"{call}-{size}"


def values_of(results):
    """The meter's numbers; what has no number is left out."""
    made = []
    for size in SIZES:
        for policy in COLUMNS:
            found = {}
            for call in CALLS:
                try:
                    found[call] = results.get(NODES, f"{policy}-apart", case_of(call, size), "instructions").value
                except Disagreement:
                    continue
            if {"unmap", "map-unmap"} <= found.keys():
                found["map"] = found["map-unmap"] - found["unmap"]
            made += [dict(zip(FIELDS, ("sizes", case_of(call, size), policy, "instructions", number, "instructions"))) for call, number in found.items()]
    return made


def counted():
    rows = tuple(case_of(call, size) for call in CALLS for size in SIZES)
    return values_of(steps.measure(steps.Plan(nodes=(NODES,), policies=tuple(f"{policy}-apart" for policy in COLUMNS), rows=rows, samples=SAMPLES, access_samples=0)))


def lines():
    for call, called in {**CALLS, "map": MAP}.items():
        for size, words in SIZES.items():
            yield Line("sizes", case_of(call, size), "instructions", f"instructions of {called} of {words}", "")


def check(values, columns):
    for call, called in CALLS.items():
        for size, words in SIZES.items():
            linux, mitosis, hydra = (values.get("sizes", case_of(call, size), column, "instructions") for column in COLUMNS)
            yield Check("sizes", f"{called} of {words}, Hydra: at most {LOOK_UP:g} of Linux's instructions, and no more than {policies.called('mitosis')}'s",
                        f"{hydra / linux:.3f}, {hydra / mitosis:.3f}", hydra <= LOOK_UP * linux and hydra <= mitosis)


BENCH = Bench(
    "sizes", "instructions of mmap, munmap and mprotect by size (figures 2b and 9; table 5 of vMitosis)",
    vm.Machine(NODES, 2, f"{steps.NODE_MIB * NODES}M"), ("steps",), (), tuple(lines()), None, check,
    "Figure 9 of the Hydra paper: without busy threads mmap takes as long under all three; munmap and mprotect longer under Mitosis, and as long as Linux under "
    "Hydra. vMitosis, table 5: with four copies, mprotect is done 0.84 (4 KiB) and 0.29 (4 MiB) times as often as on Linux. Nothing is shared here: the other threads are busy, one on "
    "each other node, so interrupts differ, too, which the instructions of the caller do not show.", counted=counted,
    why_fixed="its limits are those of four nodes")
