# SPDX-License-Identifier: GPL-2.0-only
"""./hydra papers: the papers' tables and figures, and ours."""
from lab.verbs.verb import Verb

DESCRIPTION = """\
Make the measurements that show what the papers on Hydra, ABIS, RadixVM and vMitosis show, and write one HTML file: for each of
their 33 tables and figures the paper's numbers, ours, what of them is exact, what is a model's, and what an emulator cannot
show and why. Beside it are the values as JSON and CSV, and a JSON file of each measurement.

What is measured is kept: after Ctrl-C, a failure, or a change of the kernel or of programs, the same call makes what is missing.

  ./hydra papers --quick                    # some 15 minutes: the measurements that take little
  ./hydra papers                            # some 90 minutes
  ./hydra papers --only hydra,vmitosis
  ./hydra papers --costs here.json          # prices of a machine that ./hydra here has measured
  ./hydra papers --against ../earlier-run   # compares with another run: exit status 1 if a value is outside of the spread that the report states

Times are those of a cost model, and are called so: a price for each count, which the report lists with its source. Verdicts that
flip when prices are halved or doubled are named."""


def options(parser):
    parser.add_argument("--only", metavar="P,P", help="only these papers: hydra, abis, radixvm, vmitosis")
    parser.add_argument("--quick", action="store_true", help="only measurements that take little; the report names the others")
    parser.add_argument("--out", metavar="DIR", help="where the files go (default: hydra-papers)")
    parser.add_argument("--against", metavar="DIR", help="the directory of another run, whole or quick, whose values are compared with this one's")
    parser.add_argument("--costs", metavar="FILE", help="the JSON file of ./hydra here: its prices in the place of the papers'")


def run(arguments):
    from lab.papers import papers
    return papers.papers_verb(arguments)


VERB = Verb("papers", "the papers' tables and figures, and ours, in one report", DESCRIPTION, options, run)
