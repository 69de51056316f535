# SPDX-License-Identifier: GPL-2.0-only
"""./hydra here: the measurements, on this machine."""
from lab import policies
from lab.verbs.verb import Verb

DESCRIPTION = """\
On a machine that runs a kernel with Hydra: the rows of the demo and the measurements of ./hydra bench on the machine's own nodes,
under each policy in runs that take turns, as root. The report is one HTML file, which can be sent: charts, medians with the
least and the greatest value, ratios of times to Linux's, what the processor's counters say of page walks (if perf is
installed), and a description of the machine. What cannot run on this machine is named with the reason. No limit is tested,
and no setting of the machine is changed. Each finished run is in the JSON file at once.

  ./hydra here                                          # all that can run here
  ./hydra here munmap pipeline --policies linux,hydra --runs 9
  ./hydra here --workload 'my-program --threads 32' --out report.html
  ./hydra run --out results -- ./hydra here prefetch    # the same in the emulator, whose times mean little"""


def options(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones (default: all; ./hydra bench --list says what they are)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how often each is measured (default 5)")
    parser.add_argument("--policies", metavar="P,P", help="only these policies, and Linux, with which all are compared. With --workload a policy "
                        "may have settings, as in linux,hydra,prefetch=4")
    parser.add_argument("--workload", metavar="'CMD'", help="measure this command, too: its time, its CPU time, the machine's interrupts for TLB shootdowns")
    policies.add_settings(parser, "with --workload, a setting of each policy but Linux")
    parser.add_argument("--out", metavar="FILE", help="the report (default: hydra-here-DATE-TIME.html)")
    parser.add_argument("--json", metavar="FILE", help="the values (default: the report's name with .json)")
    parser.add_argument("--values-only", action="store_true", help="keep the values, and draw no report: the same call with --resume draws it. Drawing is slow "
                        "in the emulator")
    parser.add_argument("--resume", action="store_true", help="go on with the measurement whose values --json names")


def check(_):
    """Standard library only."""
    from lab.here import this_machine
    this_machine.refuse()


def run(arguments):
    from lab.here import here
    return here.here_verb(arguments)


VERB = Verb("here", "the measurements on this machine, with one report", DESCRIPTION, options, run, check=check)
