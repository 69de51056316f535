# SPDX-License-Identifier: GPL-2.0-only
"""The command line: the verbs, their arguments, and the text of --help."""
import argparse
import sys

from lab import paths, setup
from lab.errors import LabError, from_system
from lab.kernel import kconfig
from lab.package import flavours
from lab.test import stages

INTRO = """\
Hydra for Linux: page tables replicated per NUMA node, and TLB shootdowns only for the nodes that share a mapping.

Start here:
  ./hydra demo       what Hydra does, measured on an emulated NUMA machine (sets up and builds all it needs)
  ./hydra test       all tests

To work on it:
  ./hydra kernel     build the kernel, print where its image is
  ./hydra run -- CMD run a command on that kernel
  ./hydra bench NAME one measurement, alone, or a paper's figure; --list lists them
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
    raw = argparse.RawDescriptionHelpFormatter
    top = Parser(prog="./hydra", description=INTRO, epilog=ENDING, formatter_class=raw)
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    top.of_verb = verbs.choices

    demo = verbs.add_parser("demo", formatter_class=raw, help="show what Hydra does, in numbers", description="""\
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
Linux's in the same boot.""")
    demo.add_argument("--json", metavar="FILE", help="write the measured values as a list of {row, case, policy, metric, value, unit}")
    demo.add_argument("--png", metavar="FILE", help="where the picture goes (default: hydra-demo.png in HYDRA_CACHE)")

    bench = verbs.add_parser("bench", formatter_class=raw, help="one measurement, alone", description="""\
Boot a NUMA machine and make one measurement, every policy in the same boot. There are three kinds:

  rows of the demo     one of the demo's rows, alone
  a paper's figure     counts beside a figure of the papers on Mitosis, Hydra, RadixVM and ABIS. What is exact is
                       compared with what is expected, and the exit status is 1 if a count differs
  the meter (steps)    counts what operations execute (instructions, locked ones, allocations, callbacks of RCU, cache
                       lines of other CPUs), on a kernel without Hydra, on one that does not use it, and under Hydra

Counts are exact and repeat. Times are an emulator's: they are shown as ratios to Linux's in the same boot.
docs/lab.md says what each measurement means.

  ./hydra bench --list
  ./hydra bench munmap --json munmap.json
  ./hydra bench footprint --csv footprint.csv --png footprint.png
  ./hydra bench steps
  ./hydra bench steps --nodes 2 --rows minor-fault,mprotect-4k --functions 8
  ./hydra bench steps --nodes 1 2 4 8 16 --json steps.json --plot steps.png --cross-check

For experiments (docs/researchers.md):

  ./hydra bench pipeline --nodes 4 --policies linux,hydra --runs 5 --csv pipeline.csv
  ./hydra bench --workload 'stress-ng --mmap 8 --mmap-ops 200' --policies linux,hydra,hydra:filter=accessed --runs 5 --png mmap.png

--workload runs a command of yours in a shell, under each policy in turn, and counts: interrupts for TLB shootdowns of the
whole machine, the TLB's events of /proc/vmstat (if the kernel has CONFIG_DEBUG_TLBFLUSH), page tables at the peak, and what
hydractl stat counts of the program and its children. A first run is not counted: it reads the files.""")
    bench.add_argument("name", nargs="?", metavar="NAME", help="which one (see --list)")
    bench.add_argument("--list", action="store_true", help="list the measurements and end")
    bench.add_argument("--json", metavar="FILE", help="write the values as JSON")
    bench.add_argument("--csv", metavar="FILE", help="write the values as CSV, a line for each (not with 'steps')")
    bench.add_argument("--png", metavar="FILE", help="draw the values (with 'steps': --plot)")
    bench.add_argument("--workload", metavar="'CMD'", help="measure this command instead of NAME; it must be installed on the host")
    bench.add_argument("--nodes", type=int, nargs="+", metavar="N",
                       help="another number of nodes; a measurement that cannot have it says why (with 'steps' several machines: 1, 2, 4, 8, 16 "
                            "nodes, default 2 16)")
    bench.add_argument("--policies", metavar="P,P", help="only these columns, and Linux, with which all are compared. With --workload a policy "
                       "may have settings, as in hydra:prefetch=4:filter=entry")
    bench.add_argument("--runs", type=int, metavar="N", help="repeat all N times in one boot, every second time backwards. Of times the table has the "
                       "median and the spread, of counts the least and the greatest; files have the values of each run")
    own = bench.add_argument_group("only with --workload")
    own.add_argument("--cpus-per-node", type=int, metavar="N", help="CPUs on each node (default 2)")
    own.add_argument("--memory", metavar="SIZE", help="memory of the whole machine (default 2G)")
    own.add_argument("--timeout", type=float, metavar="S", help="end the machine after S seconds, all runs together (default 3600)")
    only = bench.add_argument_group("only with 'steps'")
    only.add_argument("--rows", metavar="ROW,ROW", help="only these operations")
    only.add_argument("--samples", type=int, metavar="N", help="so many of each, fewer of the large ones (default 40)")
    only.add_argument("--functions", type=int, nargs="?", const=10, metavar="N",
                      help="name the N functions (10) that make the difference to Linux")
    only.add_argument("--plot", metavar="FILE", help="draw the ratios")
    only.add_argument("--cross-check", action="store_true", help="compare with the processor's clock, which counts instructions, too")

    here = verbs.add_parser("here", formatter_class=raw, help="the measurements on this machine, with one report", description="""\
On a machine that runs a kernel with Hydra: the rows of the demo and the measurements of ./hydra bench on the machine's own nodes,
under each policy in runs that take turns, as root. The report is one HTML file, which can be sent: charts, medians with the
least and the greatest value, ratios of times to Linux's, what the processor's counters say of page walks (if perf is
installed), and a description of the machine. What cannot run on this machine is named with the reason. No limit is tested,
and no setting of the machine is changed. Each finished run is in the JSON file at once.

  ./hydra here                                          # all that can run here
  ./hydra here munmap pipeline --policies linux,hydra --runs 9
  ./hydra here --workload 'my-program --threads 32' --out report.html
  ./hydra run --out results -- ./hydra here prefetch    # the same in the emulator, whose times mean little""")
    here.add_argument("names", nargs="*", metavar="NAME", help="which ones (default: all; ./hydra bench --list says what they are)")
    here.add_argument("--runs", type=int, default=5, metavar="N", help="how often each is measured (default 5)")
    here.add_argument("--policies", metavar="P,P", help="only these policies, and Linux, with which all are compared")
    here.add_argument("--workload", metavar="'CMD'", help="measure this command, too: its time, its CPU time, the machine's interrupts for TLB shootdowns")
    here.add_argument("--out", metavar="FILE", help="the report (default: hydra-here-DATE-TIME.html)")
    here.add_argument("--json", metavar="FILE", help="the values (default: the report's name with .json)")
    here.add_argument("--values-only", action="store_true", help="keep the values, and draw no report: the same call with --resume draws it. Drawing is slow "
                      "in the emulator")
    here.add_argument("--resume", action="store_true", help="go on with the measurement whose values --json names")

    kernel = verbs.add_parser("kernel", formatter_class=raw, help="build the kernel", description="""\
Take Debian's linux-source-6.12 (or the tree HYDRA_LINUX_SRC names), lay the files of kernel/ over it, apply the
patches of kernel/hooks/, build, and print where the bzImage is. Some ten minutes on two cores the first time; seconds
when nothing changed; a minute or so after a change to one .c file.""")
    add_config(kernel)

    run = verbs.add_parser("run", formatter_class=raw, usage="./hydra run [options] -- CMD [ARG …]",
                           help="run a command on a NUMA machine with this kernel", description="""\
Boot an emulated NUMA machine with the kernel of this repository and run CMD in it as root, in the same directory. The
host's files are visible there, so CMD must be installed on the host. Changes to them are not kept: what CMD is to leave it
writes into the directory $HYDRA_OUT, and --out DIR names where that goes. CMD's output is streamed, its exit status is
returned; 127 if there is no such command. If the kernel crashes, hangs or warns, its report is printed and the exit
status is 70; on --timeout it is 124.

  ./hydra run -- numactl --hardware
  ./hydra run --shell                                  # a shell in the machine; Ctrl-] ends the machine
  ./hydra run --out results -- sh -c './my-test >$HYDRA_OUT/log'
  ./hydra run --nodes 8 -- hydractl status
  ./hydra run --policy hydra -- stress-ng --mmap 4 -t 10
  ./hydra run --config debug --append pti=on -- ./my-test

For experiments (docs/researchers.md):

  ./hydra run --nodes 4 --distance 31 -- numactl --hardware
  ./hydra run --nodes 2 --distances 10,21,21,10 -- ./my-test
  ./hydra run --config-file my.config -- ./my-test     # my.config: lines CONFIG_NAME=value
  ./hydra run --qemu-args '-device edu' -- ./my-test
  ./hydra run --kvm -- ./my-test                       # times that mean something, where the host has KVM""")
    run.add_argument("--nodes", type=int, default=4, help="NUMA nodes (default 4)")
    run.add_argument("--cpus-per-node", type=int, default=2, help="CPUs on each (default 2)")
    run.add_argument("--memory", default="2G", help="memory of the whole machine, divided evenly among its nodes (default 2G)")
    far = run.add_mutually_exclusive_group()
    far.add_argument("--distance", type=int, metavar="D", help="the distance between any two nodes, 11 to 254 (a node's to itself is 10)")
    far.add_argument("--distances", metavar="D,D,…", help="each node's distances to all nodes, row after row, e.g. of two nodes 10,21,21,10")
    add_config(run)
    run.add_argument("--config-file", metavar="FILE",
                     help="kernel options (lines CONFIG_NAME=value) on top of --config: builds a kernel of its own; an option that Kconfig "
                          "does not take over is an error that names the option")
    run.add_argument("--qemu-args", default="", metavar="'ARGS'",
                     help="more options for QEMU, split as a shell does, e.g. --qemu-args '-device edu'")
    run.add_argument("--kvm", action="store_true",
                     help="let the host's processor run the machine (KVM), not QEMU's emulator; refused with the reason where KVM does not work")
    run.add_argument("--append", action="append", default=[], metavar="ARGS",
                     help="kernel parameters, e.g. --append 'pti=on hydra=hydra' (may be repeated)")
    run.add_argument("--policy", choices=["linux", "hydra", "mitosis", "radixvm", "abis", "hydra-nofilter"], help="run CMD through 'hydractl run --policy …'")
    run.add_argument("--timeout", type=float, metavar="S",
                     help="end the machine after S seconds (default 3600; of a shell, a day)")
    run.add_argument("--out", metavar="DIR", help="bring what CMD writes to $HYDRA_OUT to DIR when the machine has ended")
    run.add_argument("--shell", action="store_true", help="run CMD (default: bash) on this terminal")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="the command and its arguments, after --")

    series = verbs.add_parser("series", formatter_class=raw, help="write the patches a maintainer of Linux would be sent", description="""\
Make a series of patches out of kernel/: what prepares Linux comes first, what is policy last, and every step compiles.
They carry the author and the Signed-off-by that git knows you by; the cover letter has the measured tables. Before they
are written, they are applied with git am to Linux's own text, and the result is compared with what the lab builds.

  ./hydra series /tmp/hydra
  ./hydra series /tmp/hydra --results demo.json --results steps.json
  git -C LINUX am --empty=drop /tmp/hydra/*.patch          # LINUX: a clone of Linux at a 6.12.y release
  ./hydra test --stage series                              # compile after each patch, with Hydra off and on""")
    series.add_argument("directory", metavar="DIR", help="where the patches go: a new or an empty directory")
    series.add_argument("--results", action="append", default=[], metavar="FILE",
                        help="measured tables for the cover letter: what demo --json or bench --json has written, instead of "
                             "those of README.md (may be repeated)")

    package = verbs.add_parser("package", formatter_class=raw, help="build Debian packages of the kernel and of hydractl", description="""\
Write Debian packages to DIR: linux-image-…-hydra and linux-headers-…-hydra, a kernel with Debian's own configuration
of the same version and CONFIG_HYDRA_MM, and hydractl. Debian's options stay as they are: an option that gets lost is an
error that names the option. A build of the kernel takes hours on two cores; after an interruption, the next call goes
on. Nothing is installed on this machine but the Debian packages that the build needs.

  ./hydra package /tmp/packages                          # hydractl, and the kernel for a server (amd64)
  ./hydra package /tmp/packages --flavour cloud-amd64    # the smaller kernel for virtual machines
  ./hydra package /tmp/packages --only hydractl
  ./hydra package /tmp/packages --config my.config       # a configuration of your own, of Linux 6.12""")
    package.add_argument("directory", metavar="DIR", help="where the packages go")
    package.add_argument("--flavour", action="append", choices=flavours.FLAVOURS,
                         help="amd64 (default) or cloud-amd64 (may be repeated)")
    package.add_argument("--config", metavar="FILE", help="a configuration to use instead of Debian's")
    package.add_argument("--only", choices=["hydractl", "kernel"], help="build only this")

    test = verbs.add_parser("test", formatter_class=raw, help="run all tests", description="""\
Ends with a line "N passed, N failed"; a kernel warning counts as a failure, and so does a suite in which no test ran.
The stages, in their order:

""" + stages.described() + """

  ./hydra test                                  what is to pass before every change lands
  ./hydra test --long                           everything, some hours
  ./hydra test --only coherence                 one self test program
  ./hydra test --only oracle --arguments="--seed 7"  the same random numbers again; seeds are in the summary
  ./hydra test --stage suites --seed 7          Linux's own tests under the same policy again
  ./hydra test --stage faults --only sharer     the injected faults with this word in their name""")
    test.add_argument("--long", action="store_true", help="everything that there is time for only now and then")
    test.add_argument("--stage", action="append", choices=list(stages.STAGES), metavar="STAGE", help="only this stage (may be repeated)")
    test.add_argument("--only", metavar="WORD", default="", help="only what has WORD in its name: self tests, or of another stage's tests, modes or rules")
    test.add_argument("--arguments", metavar="WORDS", default="", help="what to give to the self tests that --only chooses")
    test.add_argument("--seed", type=int, metavar="N", help="the number that draws the policy for Linux's own tests (stage suites), the third of the self tests (stage debug) and of the rules to break (stage faults); see the summary")
    return top


def add_config(verb):
    verb.add_argument("--config", choices=list(kconfig.LAYERS), default="lab",
                      help="lab: lean; debug: with the kernel's own checkers, and injected faults; kcsan: looks for data races; off: without Hydra")


def dispatch(arguments):
    """Import late: the modules need packages that setup installs."""
    if arguments.verb == "kernel":
        from lab.kernel import build
        print(build.kernel(arguments.config))
        return 0
    if arguments.verb == "run":
        from lab.machine import run
        return run.run_verb(arguments)
    if arguments.verb == "bench":
        from lab.measure import verbs
        return verbs.bench_verb(arguments)
    if arguments.verb == "here":
        from lab.measure import here
        return here.here_verb(arguments)
    if arguments.verb == "series":
        from lab.kernel import series
        return series.series_verb(arguments)
    if arguments.verb == "package":
        from lab.package import verb
        return verb.package_verb(arguments)
    if arguments.verb == "demo":
        from lab.measure import verbs
        return verbs.demo_verb(arguments)
    from lab.test import test
    return test.test_verb(arguments)


def main(argv):
    if not argv:
        parser().print_help()
        return 2
    arguments = parser().parse_args(argv)
    try:
        try:
            paths.check_cache()
            if arguments.verb == "here":
                from lab.measure import this_machine
                this_machine.refuse()       # before a package is installed
            if not (arguments.verb == "bench" and arguments.list):       # what a list takes is there
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
