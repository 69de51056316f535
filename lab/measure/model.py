# SPDX-License-Identifier: GPL-2.0-only
"""The cost model: one table of prices makes time of counts. What it gives is a model's, and is called so wherever it is shown.

./hydra bench auto and ./hydra papers use it. A verdict holds if it stays the same with all prices halved and doubled, that of an
instruction excepted.
"""
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Price:
    ns: float                # on a real machine
    what: str
    source: str


LOADED = ("estimated: a far read then costs three times as much more than a near one. In vMitosis's figure 1 two idle tables far away cost 0.2 to 0.8 of the time, "
          "two busy ones 0.8 to 2.1")
# By what is counted. The instructions of handlers are counted: an interrupt and a fault have only what hardware takes.
PRICES = {
    "instructions": Price(0.33, "an instruction", "estimated: three in a ns; workloads/auto_policy.h has it, too"),
    "sent": Price(500, "an interrupt, for the CPU that sends it and waits", "estimated, between 180 (20,800 cycles for 47 other CPUs: ABIS) and 2,600 "
                  "(500,000 cycles for 79: RadixVM, section 5.5)"),
    "taken": Price(1000, "an interrupt, for the CPU that takes it", "estimated: the way into the kernel and back"),
    "faults": Price(700, "a page fault", "estimated, with the caches that it empties; RadixVM has 500 for a whole fault of a copy (1,200 cycles, section 5.3)"),
    "near_walks": Price(50, "a page walk that reads a table of the CPU's own node", "vMitosis, table 4: a line within a socket"),
    "far_walks": Price(125, "a page walk that reads a table of another node", "vMitosis, table 4: a line of another socket"),
    "near_lines": Price(50, "a line of data of the CPU's own node", "vMitosis, table 4"),
    "far_lines": Price(125, "a line of data of another node", "vMitosis, table 4"),
    "loaded_walks": Price(275, "a page walk that reads a table of another node which other programs keep busy (I)", LOADED),
    "loaded_lines": Price(275, "a line of data of such a node", LOADED),
}
OTHER_PRICES = {"halved": 0.5, "doubled": 2}
ALIKE = 0.02                 # ratios that differ from 1 by less say nothing
FASTER, SLOWER, AS_FAST = "faster", "slower", "as fast"


def ns(counts, times=1, prices=None):
    """What counts cost. times: all prices but that of an instruction are so many times as high."""
    prices = prices or PRICES
    return sum(number * prices[metric].ns * (1 if metric == "instructions" else times) for metric, number in counts.items())


def loaded(counts):
    """The same if other programs keep the other nodes busy."""
    return {metric.replace("far_", "loaded_"): number for metric, number in counts.items()}


def interrupts(number):
    """Their counts, for all CPUs together."""
    return {"sent": number, "taken": number}


def verdict(ratio):
    return AS_FAST if abs(ratio - 1) < ALIKE else FASTER if ratio < 1 else SLOWER


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The modelled time for each of Linux's, at the prices of the table and at the others."""
    usual: float
    halved: float
    doubled: float

    def flips(self):
        """The prices at which the verdict is another, each with that verdict."""
        others = (("halved", self.halved), ("doubled", self.doubled))
        return [f"{verdict(value)} with prices {called}" for called, value in others if verdict(value) != verdict(self.usual)]

    def __str__(self):
        flips = f"; the verdict flips: {' and '.join(self.flips())}" if self.flips() else ""
        return f"{self.usual:.2f} (model; prices halved {self.halved:.2f}, doubled {self.doubled:.2f}{flips})"


def ratio(counts, base, prices=None):
    """Of two sets of counts; None if the second costs nothing."""
    if not ns(base, prices=prices):
        return None
    return Ratio(*(ns(counts, times, prices) / ns(base, times, prices) for times in (1, *OTHER_PRICES.values())))


# --- Prices of a machine that ./hydra here has measured

def median(document, *where):
    """Of all runs; None if it was not measured."""
    seen = [entry["value"] for entry in document["values"] if (entry["row"], entry["case"], entry["policy"], entry["metric"]) == where]
    return statistics.median(seen) if seen else None


def sent_price(document):
    """What Linux's mprotect takes longer for each CPU that it interrupts."""
    busy, quiet, number = (median(document, "mprotect", *where) for where in (("remote-spinners", "linux", "us_per_op"), ("quiet", "linux", "us_per_op"),
                                                                              ("remote-spinners", "linux", "interrupts_per_op")))
    return 1000 * (busy - quiet) / number if None not in (busy, quiet, number) and number else None


def far_price(document):
    """What a read takes longer whose walk reads a table of another node: each reads another page, and under neither policy is there a fault."""
    linux, mitosis = (median(document, "prefetch", "first", policy, "us_per_op") for policy in ("linux", "mitosis"))
    return 1000 * (linux - mitosis) if None not in (linux, mitosis) else None


def of_machine(document):
    """The table, with what the JSON file of ./hydra here tells in the place of the papers' numbers. What makes no sense, as in an emulator, is left out."""
    made = dict(PRICES)
    if (sent := sent_price(document)) and sent > 0:
        made["sent"] = dataclasses.replace(PRICES["sent"], ns=sent,
                                           source="./hydra here: mprotect, threads busy on the other nodes, less quiet, for each interrupt")
    if (more := far_price(document)) and more > 0:
        made["far_walks"] = dataclasses.replace(PRICES["far_walks"], ns=PRICES["near_walks"].ns + more,
                                                source="a near one, and by ./hydra here what a read of prefetch takes longer under Linux than under Mitosis")
    return made
