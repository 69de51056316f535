# SPDX-License-Identifier: GPL-2.0-only
"""The command line: the table of verbs, and what is around each of them."""
import argparse
import sys

from lab import paths, setup
from lab.errors import LabError, from_system
from lab.verbs import bench, demo, here, kernel, package, papers, run, series, test

VERBS = {one.VERB.name: one.VERB for one in (demo, bench, papers, here, kernel, run, series, package, test)}      # in the order of --help

INTRO = """\
Hydra for Linux: page tables replicated per NUMA node, and TLB shootdowns only for the nodes that share a mapping.

Start here:
  ./hydra demo       what Hydra does, measured on an emulated NUMA machine (sets up and builds all it needs)
  ./hydra test       all tests

To work on it:
  ./hydra kernel     build the kernel, print where its image is
  ./hydra run -- CMD run a command on that kernel
  ./hydra bench NAME one measurement, alone, or a paper's figure; --list lists them
  ./hydra papers     the papers' tables and figures, and ours, in one report
  ./hydra series DIR write the patches a maintainer of Linux would be sent

For a server:
  ./hydra package DIR  build Debian packages of the kernel and of hydractl
  ./hydra here         measure on this machine, if it runs Hydra, and write one report
"""

ENDING = """\
Each verb explains itself: ./hydra VERB --help.

Environment:
  HYDRA_CACHE      where downloads, kernel trees, builds and logs live (default: hydra in the user's cache directory)
  HYDRA_LINUX_SRC  a 6.12.y kernel tree to use instead of Debian's linux-source-6.12 (copied, never changed)
"""


class Parser(argparse.ArgumentParser):
    """An option whose value is options of another program takes a value that begins with a dash; an error shows the verb's own usage."""

    of_verb = {}             # the parsers of the verbs, by name

    def parse_args(self, args=None, namespace=None):
        words, joined = list(sys.argv[1:] if args is None else args), []
        while words and words[0] != "--":
            word = words.pop(0)
            taken = word == "--qemu-args" and words and words[0] != "--"
            joined.append(f"{word}={words.pop(0)}" if taken else word)
        made, unknown = self.parse_known_args(joined + words, namespace)
        if unknown:
            self.of_verb[made.verb].error(f"unrecognized arguments: {' '.join(unknown)}")
        return made


def parser():
    top = Parser(prog="./hydra", description=INTRO, epilog=ENDING, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    top.of_verb = verbs.choices
    for verb in VERBS.values():
        verb.add_to(verbs)
    return top


def dispatch(arguments):
    return VERBS[arguments.verb].run(arguments)


def main(argv):
    if not argv:
        parser().print_help()
        return 2
    arguments = parser().parse_args(argv)
    try:
        try:
            paths.check_cache()
            VERBS[arguments.verb].check(arguments)
            if not VERBS[arguments.verb].bare(arguments):
                setup.ensure(argv)
            from lab import children
            children.die_by_exception()
            return dispatch(arguments)
        except OSError as error:
            raise from_system(error) from error
    except LabError as error:
        print(f"hydra: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("\nhydra: interrupted", file=sys.stderr)
        return 130
