# SPDX-License-Identifier: GPL-2.0-only
"""./hydra series: the patches for Linux."""
from lab.verbs.verb import Verb

DESCRIPTION = """\
Make series of patches out of kernel/, each with a cover letter in a directory of its own: the mechanism, KVM, and what
guests and hosts tell each other. What prepares Linux comes first, and every step compiles. The patches carry the author
and the Signed-off-by that git knows you by; the first cover letter has the measured tables. Before the patches are
written, they are applied with git am to Linux's own text, and the result is compared with what the lab builds.

  ./hydra series /tmp/hydra
  ./hydra series /tmp/hydra --results demo.json --results steps.json
  git -C LINUX am --empty=drop /tmp/hydra/*/*.patch        # LINUX: a clone of Linux at a 6.12.y release
  ./hydra test --stage series                              # compile after each patch, with Hydra off and on"""


def options(parser):
    parser.add_argument("directory", metavar="DIR", help="where the patches go: a new or an empty directory")
    parser.add_argument("--results", action="append", default=[], metavar="FILE",
                        help="measured tables for the cover letter: what demo --json or bench --json has written, instead of "
                             "those of README.md (may be repeated)")


def run(arguments):
    from lab.kernel import series
    return series.series_verb(arguments)


VERB = Verb("series", "write the patches a maintainer of Linux would be sent", DESCRIPTION, options, run)
