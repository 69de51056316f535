# SPDX-License-Identifier: GPL-2.0-only
"""./hydra kernel: build the kernel."""
from lab.kernel import kconfig
from lab.verbs.verb import Verb

DESCRIPTION = """\
Take Debian's linux-source-6.12 (or the tree HYDRA_LINUX_SRC names), lay the files of kernel/ over it, apply the
patches of kernel/hooks/, build, and print where the bzImage is. Some ten minutes on two cores the first time; seconds
when nothing changed; a minute or so after a change to one .c file."""


def options(parser):
    add_config(parser)


def add_config(parser):
    """For each verb with a kernel of the user's choice."""
    parser.add_argument("--config", choices=list(kconfig.LAYERS), default="lab",
                        help="lab: lean; debug: with the kernel's own checkers, and injected faults; kcsan: looks for data races; off: without Hydra")


def run(arguments):
    from lab.kernel import build
    print(build.kernel(arguments.config))
    return 0


VERB = Verb("kernel", "build the kernel", DESCRIPTION, options, run)
