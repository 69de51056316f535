# SPDX-License-Identifier: GPL-2.0-only
"""./hydra series: the patches for Linux."""
from lab.verbs.verb import Verb

DESCRIPTION = """\
Make a series of patches out of kernel/: what prepares Linux comes first, what is policy last, and every step compiles.
They carry the author and the Signed-off-by that git knows you by; the cover letter has the measured tables. Before they
are written, they are applied with git am to Linux's own text, and the result is compared with what the lab builds.

  ./hydra series /tmp/hydra
  ./hydra series /tmp/hydra --results demo.json --results steps.json
  git -C LINUX am --empty=drop /tmp/hydra/*.patch          # LINUX: a clone of Linux at a 6.12.y release
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
