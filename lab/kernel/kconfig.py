# SPDX-License-Identifier: GPL-2.0-only
"""Kernel configuration fragments: read, merged (later ones win), and compared with the result of Kconfig."""
import re

from lab import paths
from lab.errors import LabError

CONFIGS = paths.REPO / "lab/kernel/configs"
LAYERS = {"lab": ["lab"], "debug": ["lab", "debug"], "kcsan": ["lab", "kcsan"], "off": ["lab", "off"]}

_SET = re.compile(r"^CONFIG_(\w+)=(.*)$")
_UNSET = re.compile(r"^# CONFIG_(\w+) is not set$")


def parse(text, name="config"):
    """{'NUMA': 'y', 'KVM': 'n', …}; anything but options, comments and empty lines is an error."""
    options = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if match := _SET.match(line):
            options[match[1]] = match[2]
        elif match := _UNSET.match(line):
            options[match[1]] = "n"
        elif line and not line.startswith("#"):
            raise LabError(f"{name}, line {number}: not a kernel option: {line}", "Write CONFIG_NAME=value.")
    return options


def merged(config, own=()):
    """The options of a configuration, with a user's own merged on top."""
    options = {}
    for layer in LAYERS[config]:
        path = CONFIGS / f"{layer}.config"
        options.update(parse(path.read_text(encoding="utf-8"), path.name))
    return {**options, **dict(own)}


def users_fragment(name):
    """The options of a file of the user's, to merge on top of a configuration; {} without a file."""
    if name is None:
        return {}
    try:
        with open(name, encoding="utf-8") as source:
            return parse(source.read(), name)
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"cannot read the configuration {name}: {getattr(error, 'strerror', None) or 'it is no text'}", status=2) from error


def text(options):
    return "".join(f"CONFIG_{name}={value}\n" for name, value in options.items())


def refused(wanted, made):
    """The options Kconfig did not take over, as (name, wanted, got)."""
    return [(name, value, made.get(name, "n")) for name, value in wanted.items() if made.get(name, "n") != value]
