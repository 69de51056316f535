# SPDX-License-Identifier: GPL-2.0-only
"""./hydra test: all tests."""
from lab.test import stages
from lab.verbs.verb import Verb

DESCRIPTION = """\
Ends with a line "N passed, N failed"; a kernel warning counts as a failure, and so does a suite in which no test ran.
The stages, in their order:

""" + stages.described() + """

  ./hydra test                                  what is to pass before every change lands
  ./hydra test --long                           everything, some hours
  ./hydra test --only coherence                 one self test program
  ./hydra test --only oracle --arguments="--seed 7"  the same random numbers again; seeds are in the summary
  ./hydra test --stage suites --seed 7          the part and the policy of Linux's own tests that 7 draws
  ./hydra test --stage injected --only sharer   the injected faults with this word in their name"""


def options(parser):
    parser.add_argument("--long", action="store_true", help="everything that there is time for only now and then")
    parser.add_argument("--stage", action="append", type=stages.name, choices=list(stages.STAGES), metavar="STAGE", help="only this stage (may be repeated)")
    parser.add_argument("--only", metavar="WORD", default="", help="only what has WORD in its name: self tests, or of another stage's tests, modes or rules")
    parser.add_argument("--arguments", metavar="WORDS", default="", help="what to give to the self tests that --only chooses")
    parser.add_argument("--seed", type=int, metavar="N", help="the number that draws the part which a short run takes of the stages " + ", ".join(stages.SHARES) + "; without, any number does, and is told at the end")


def run(arguments):
    from lab.test import test
    return test.test_verb(arguments)


VERB = Verb("test", "run all tests", DESCRIPTION, options, run)
