# SPDX-License-Identifier: GPL-2.0-only
"""./hydra package: Debian packages."""
from lab.package import flavours, releases
from lab.verbs.verb import Verb

DESCRIPTION = """\
Write Debian packages to DIR: linux-image-…-hydra and linux-headers-…-hydra, a kernel with Debian's own configuration
of the same version and CONFIG_HYDRA_MM, and hydractl. Debian's options stay as they are: an option that gets lost is an
error that names the option. A build of the kernel takes hours on two cores; after an interruption, the next call goes
on. Nothing is installed on this machine but the Debian packages that the build needs. For another release than this
machine's, the lab runs in a system of that release, with its compiler, source and configuration.

  ./hydra package /tmp/packages                          # hydractl, and the kernel for a server (amd64)
  ./hydra package /tmp/packages --flavour cloud-amd64    # the smaller kernel for virtual machines
  ./hydra package /tmp/packages --release trixie         # for Debian 13
  ./hydra package /tmp/packages --only hydractl
  ./hydra package /tmp/packages --config my.config       # a configuration of your own, of Linux 6.12"""


def options(parser):
    parser.add_argument("directory", metavar="DIR", help="where the packages go")
    parser.add_argument("--flavour", action="append", choices=flavours.FLAVOURS,
                        help="amd64 (default) or cloud-amd64 (may be repeated)")
    parser.add_argument("--release", choices=list(releases.TITLES), help="for which Debian (default: this machine's)")
    parser.add_argument("--config", metavar="FILE", help="a configuration to use instead of Debian's")
    parser.add_argument("--only", choices=["hydractl", "kernel"], help="build only this")


def run(arguments):
    from lab.package import verb
    return verb.package_verb(arguments)


VERB = Verb("package", "build Debian packages of the kernel and of hydractl", DESCRIPTION, options, run, bare=lambda _: True)
