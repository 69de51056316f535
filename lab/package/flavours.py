# SPDX-License-Identifier: GPL-2.0-only
"""Debian's configurations of the kernel with Hydra added, and the error that names the options that got lost.

Imports only what is there before setup, since the command line has the names of the flavours.
"""
import lzma
import re

from lab import paths
from lab.errors import LabError
from lab.kernel import kconfig

FLAVOURS = ["amd64", "cloud-amd64"]
DEBIANS = "/usr/src/linux-config-6.12/config.amd64_none_{}.xz"       # of the package linux-config-6.12
ADDED = {"HYDRA_MM": "y"}
OF_KVM = {"KVM_HYDRA": "y"}   # where KVM is there, also as a module
# Options without a line in Debian's files, since Debian signs modules later, with a key which is not in the source. Each build
# makes a key of its own, and signs with the key.
OURS = {"MODULE_SIG_ALL": "y"}
TOOLCHAIN = re.compile(r"(?:CC|GCC|AS|LD|RUSTC|RUSTC_LLVM|PAHOLE)_VERSION(?:_TEXT)?")     # Kconfig asks the tools themselves
SHOWN = 40                    # lost options that a message names


def debians_options(flavour):
    with lzma.open(DEBIANS.format(flavour), "rt", encoding="utf-8") as file:
        return kconfig.parse(file.read(), f"Debian's configuration of {flavour}")


def users_options(path):
    try:
        return kconfig.parse(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise LabError(f"cannot read the configuration {path}: {error.strerror}", status=2) from error


def with_hydra(options, flavour):
    """All options for Kconfig: those given, without what the tools decide, and Hydra's; the release's name ends in -hydra."""
    kept = {name: value for name, value in options.items() if not TOOLCHAIN.fullmatch(name)}
    ours = {name: value for name, value in OURS.items() if kept.get("MODULE_SIG") == "y" and name not in kept}
    kvm = OF_KVM if {kept.get("KVM_INTEL"), kept.get("KVM_AMD")} & {"y", "m"} else {}
    return {**kept, **ours, **ADDED, **kvm, "LOCALVERSION": f'"-{flavour}-hydra"'}


def needs():
    """What Hydra's own Kconfig depends on: {'NUMA': True, 'PREEMPT_RT': False, …}."""
    text = (paths.REPO / "kernel/arch/x86/mm/hydra/Kconfig").read_text(encoding="utf-8")
    line = re.search(r"^config HYDRA_MM\n(?:\t.*\n)*?\tdepends on (.*)$", text, re.M)[1]
    return {name.lstrip("!"): not name.startswith("!") for name in line.split(" && ")}


def unmet(made):
    """What Hydra needs and a configuration lacks, as lines for people."""
    return [f"CONFIG_{name}={made.get(name, 'n')}: Hydra needs {'y' if wanted else 'n'}"
            for name, wanted in needs().items() if (made.get(name, "n") == "y") != wanted]


def complain(config, refused, made):
    """The error for a configuration that Kconfig changed: what Hydra lacks, else each option that was lost."""
    if lacking := unmet(made):
        raise LabError(f"the configuration '{config}' lacks what Hydra needs:\n    " + "\n    ".join(lacking),
                       "Set these options, and what they depend on, or take another configuration.")
    lines = [f"CONFIG_{name}={value} became {got}" for name, value, got in refused]
    more = f"\n    and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    raise LabError(f"this Linux does not have these options of the configuration '{config}':\n    " +
                   "\n    ".join(lines[:SHOWN]) + more, "Take a configuration of the same version, or remove the options.")
