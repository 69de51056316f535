# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench: one measurement, alone."""
from lab import policies
from lab.verbs.verb import Verb

DESCRIPTION = """\
Boot a NUMA machine and make one measurement, every policy in the same boot. There are three kinds:

  rows of the demo     one of the demo's rows, alone
  a paper's figure     counts beside a figure of the papers on Mitosis, Hydra, RadixVM and ABIS. What is exact is
                       compared with what is expected, and the exit status is 1 if a count differs
  the meter (steps)    counts what operations execute (instructions, locked ones, allocations, callbacks of RCU, cache
                       lines of other CPUs), on a kernel without Hydra, on one that does not use it, and under Hydra;
                       concurrent finds the lines at which calls on disjoint memory meet, refcache those that
                       counters of references move

Counts are exact and repeat. Times are an emulator's: they are shown as ratios to Linux's in the same boot.
docs/lab.md says what each measurement means.

  ./hydra bench --list
  ./hydra bench munmap --json munmap.json
  ./hydra bench footprint --csv footprint.csv --png footprint.png
  ./hydra bench steps
  ./hydra bench steps --nodes 2 --rows minor-fault,mprotect-4k --functions 8
  ./hydra bench concurrent --json concurrent.json
  ./hydra bench steps --nodes 1 2 4 8 16 --json steps.json --plot steps.png --cross-check

For experiments (docs/researchers.md):

  ./hydra bench pipeline --nodes 4 --policies linux,hydra --runs 5 --csv pipeline.csv
  ./hydra bench --workload 'stress-ng --mmap 8 --mmap-ops 200' --policies linux,hydra,hydra,filter=accessed --runs 5 --png mmap.png

--workload runs a command of yours in a shell, under each policy in turn, and counts: interrupts for TLB shootdowns of the
whole machine, the TLB's events of /proc/vmstat (if the kernel has CONFIG_DEBUG_TLBFLUSH), page tables at the peak, and what
hydractl stat counts of the program and its children. A first run is not counted: it reads the files."""


def options(parser):
    parser.add_argument("name", nargs="?", metavar="NAME", help="which one (see --list)")
    parser.add_argument("--list", action="store_true", help="list the measurements and end")
    parser.add_argument("--json", metavar="FILE", help="write the values as JSON")
    parser.add_argument("--csv", metavar="FILE", help="write the values as CSV, a line for each (not with 'steps')")
    parser.add_argument("--png", metavar="FILE", help="draw the values (with 'steps': --plot)")
    parser.add_argument("--workload", metavar="'CMD'", help="measure this command instead of NAME; it must be installed on the host")
    parser.add_argument("--nodes", type=int, nargs="+", metavar="N",
                        help="another number of nodes; a measurement that cannot have it says why (with 'steps' several machines: 1, 2, 4, 8, 16 "
                             "nodes, default 2 16)")
    parser.add_argument("--policies", metavar="P,P", help="only these columns, and Linux, with which all are compared. With --workload a policy "
                        "may have settings, as in linux,hydra,prefetch=4,filter=entry")
    parser.add_argument("--runs", type=int, metavar="N", help="repeat all N times in one boot, every second time backwards. Of times the table has the "
                        "median and the spread, of counts the least and the greatest; files have the values of each run")
    own = parser.add_argument_group("only with --workload")
    own.add_argument("--cpus-per-node", type=int, metavar="N", help="CPUs on each node (default 2)")
    own.add_argument("--memory", metavar="SIZE", help="memory of the whole machine (default 2G)")
    own.add_argument("--timeout", type=float, metavar="S", help="end the machine after S seconds, all runs together (default 3600)")
    policies.add_settings(own, "a setting of each policy but Linux")
    only = parser.add_argument_group("only with 'steps'")
    only.add_argument("--rows", metavar="ROW,ROW", help="only these operations")
    only.add_argument("--samples", type=int, metavar="N", help="so many of each, fewer of the large ones (default 40)")
    only.add_argument("--functions", type=int, nargs="?", const=10, metavar="N",
                      help="name the N functions (10) that make the difference to Linux")
    only.add_argument("--plot", metavar="FILE", help="draw the ratios")
    only.add_argument("--cross-check", action="store_true", help="compare with the processor's clock, which counts instructions, too")


def run(arguments):
    from lab.bench import verb
    return verb.bench_verb(arguments)


VERB = Verb("bench", "one measurement, alone", DESCRIPTION, options, run, bare=lambda arguments: arguments.list)
