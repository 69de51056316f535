# SPDX-License-Identifier: GPL-2.0-only
"""./hydra demo: the demo: all that can be seen of Hydra in some minutes."""
from lab.verbs.verb import Verb

DESCRIPTION = """\
Boot NUMA machines on the Hydra kernel and measure four things, each under five policies: that of Linux, those that
have the page tables and interrupts of Mitosis, RadixVM and ABIS, and Hydra:
  mprotect  a page protected and unprotected in a loop: CPUs interrupted by each operation
  munmap    a page mapped, touched and unmapped in a loop, at the same address under each policy
  apache    the Apache web server under load, its threads on one CPU of each node, and on all CPUs
  locality  the share of page-table entries that each node reaches in its own memory
One table shows them, with plain words under each row that say which column wins. Each is also measured where nothing is
shared, for what Hydra costs then. Every column of a row is measured in the same boot. At the end the values are compared with what is expected; the exit status is 1 if one differs (the times where
nothing is shared are reported only).

The machine is emulated. Its counts are exact. Its times say nothing of a real machine: they are shown only as ratios to
Linux's in the same boot."""


def options(parser):
    parser.add_argument("--json", metavar="FILE", help="write the measured values as a list of {row, case, policy, metric, value, unit}")
    parser.add_argument("--png", metavar="FILE", help="where the picture goes (default: hydra-demo.png in HYDRA_CACHE)")


def run(arguments):
    from lab.bench import demo
    return demo.demo_verb(arguments)


VERB = Verb("demo", "show what Hydra does, in numbers", DESCRIPTION, options, run)
