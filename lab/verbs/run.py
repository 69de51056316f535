# SPDX-License-Identifier: GPL-2.0-only
"""./hydra run: a command of the user, on the kernel, in a machine."""
import argparse

from lab import policies
from lab.verbs.kernel import add_config
from lab.verbs.verb import Verb

DESCRIPTION = """\
Boot an emulated NUMA machine with the kernel of this repository and run CMD in it as root, in the same directory. The
host's files are visible there, so CMD must be installed on the host. Changes to them are not kept: what CMD is to leave it
writes into the directory $HYDRA_OUT, and --out DIR names where that goes. CMD's output is streamed, its exit status is
returned; 127 if there is no such command. If the kernel crashes, hangs or warns, its report is printed and the exit
status is 70; on --timeout it is 124.

  ./hydra run -- numactl --hardware
  ./hydra run --shell                                  # a shell in the machine; Ctrl-] ends the machine
  ./hydra run --out results -- sh -c './my-test >$HYDRA_OUT/log'
  ./hydra run --nodes 8 -- hydractl status
  ./hydra run --policy hydra,prefetch=4 -- stress-ng --mmap 4 -t 10
  ./hydra run --config debug --append pti=on -- ./my-test

For experiments (docs/researchers.md):

  ./hydra run --nodes 4 --distance 31 -- numactl --hardware
  ./hydra run --nodes 2 --distances 10,21,21,10 -- ./my-test
  ./hydra run --config-file my.config -- ./my-test     # my.config: lines CONFIG_NAME=value
  ./hydra run --qemu-args '-device edu' -- ./my-test
  ./hydra run --kvm -- ./my-test                       # times that mean something, where the host has KVM"""


def options(parser):
    parser.add_argument("--nodes", type=int, default=4, help="NUMA nodes (default 4)")
    parser.add_argument("--cpus-per-node", type=int, default=2, help="CPUs on each (default 2)")
    parser.add_argument("--memory", default="2G", help="memory of the whole machine, divided evenly among its nodes (default 2G)")
    far = parser.add_mutually_exclusive_group()
    far.add_argument("--distance", type=int, metavar="D", help="the distance between any two nodes, 11 to 254 (a node's to itself is 10)")
    far.add_argument("--distances", metavar="D,D,…", help="each node's distances to all nodes, row after row, e.g. of two nodes 10,21,21,10")
    add_config(parser)
    parser.add_argument("--config-file", metavar="FILE",
                        help="kernel options (lines CONFIG_NAME=value) on top of --config: builds a kernel of its own; an option that Kconfig "
                             "does not take over is an error that names the option")
    parser.add_argument("--qemu-args", default="", metavar="'ARGS'",
                        help="more options for QEMU, split as a shell does, e.g. --qemu-args '-device edu'")
    parser.add_argument("--kvm", action="store_true",
                        help="let the host's processor run the machine (KVM), not QEMU's emulator; refused with the reason where KVM does not work")
    parser.add_argument("--append", action="append", default=[], metavar="ARGS",
                        help="kernel parameters, e.g. --append 'pti=on hydra=hydra' (may be repeated)")
    parser.add_argument("--policy", metavar="POLICY", help=f"run CMD through 'hydractl run --policy …': {', '.join(policies.NAMES)}; settings may follow, as in "
                        "hydra,prefetch=4")
    policies.add_settings(parser, "the same")
    parser.add_argument("--timeout", type=float, metavar="S",
                        help="end the machine after S seconds (default 3600; of a shell, a day)")
    parser.add_argument("--out", metavar="DIR", help="bring what CMD writes to $HYDRA_OUT to DIR when the machine has ended")
    parser.add_argument("--shell", action="store_true", help="run CMD (default: bash) on this terminal")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="the command and its arguments, after --")


def run(arguments):
    from lab.machine import run as machines
    return machines.run_verb(arguments)


VERB = Verb("run", "run a command on a NUMA machine with this kernel", DESCRIPTION, options, run, usage="./hydra run [options] -- CMD [ARG …]")
