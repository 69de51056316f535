# SPDX-License-Identifier: GPL-2.0-only
"""What the command line knows of a verb."""
import argparse
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Verb:
    name: str
    help: str                # one line for ./hydra --help
    description: str         # for ./hydra VERB --help
    options: typing.Callable         # (parser): gives it the verb's options
    run: typing.Callable     # (arguments) -> exit status. Imports late: the modules need packages that setup installs
    usage: str | None = None         # in the place of argparse's
    check: typing.Callable = lambda arguments: None       # (arguments): LabError before a package is installed
    bare: typing.Callable = lambda arguments: False       # (arguments) -> whether it runs before setup

    def add_to(self, subparsers):
        self.options(subparsers.add_parser(self.name, formatter_class=argparse.RawDescriptionHelpFormatter, usage=self.usage, help=self.help,
                                           description=self.description))
