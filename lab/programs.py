# SPDX-License-Identifier: GPL-2.0-only
"""Builds the programs of this repository (tool, workloads, self tests) into the cache."""
import os
import re

from lab import children, paths
from lab.errors import LabError

SOURCES = {"hydractl": "tools/hydractl", "workloads": "workloads", "selftests": "kernel/tools/testing/selftests/hydra"}


def build(name, **variables):
    """Make one of SOURCES; returns the directory its programs are in."""
    out = paths.cache_dir("programs", name)
    log = paths.cache_dir("logs") / f"{name}.log"
    command = ["make", "-C", str(paths.REPO / SOURCES[name]), *(f"{key}={value}" for key, value in variables.items())]
    with paths.locked(f"programs-{name}"):
        status, output = children.run(command)
    log.write_text(output, encoding="utf-8")
    if status:
        errors = [line for line in output.splitlines() if "error" in line.lower() or "***" in line]
        raise LabError(f"building {SOURCES[name]} failed:\n    " + "\n    ".join(errors[:12] or output.splitlines()[-8:]),
                       f"The whole log: {log}")
    return out


def hydractl():
    return build("hydractl", O=paths.cache() / "programs" / "hydractl") / "hydractl"


def workloads():
    return build("workloads", O=paths.cache() / "programs" / "workloads")


def steps_plugin():
    """The plugin of QEMU that counts instructions; QEMU's own package has no header for it, so it needs none."""
    out = paths.cache_dir("programs", "steps-plugin") / "steps.so"
    part = out.with_name(f".steps.{os.getpid()}.part")
    with paths.locked("programs-steps-plugin"):
        status, output = children.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(part),
                                       str(paths.REPO / "lab" / "steps_plugin.c")])
        if status:
            raise LabError("building lab/steps_plugin.c failed:\n    " + "\n    ".join(output.splitlines()[:12]))
        part.rename(out)     # a machine that runs keeps the one it has
    return out


def selftests(kernel_tree, everything=False):
    """Build the self tests with the test harness of a kernel tree; returns their paths.

    Everything: also those that only run on a kernel in which allocations can be made to fail.
    """
    harness = kernel_tree / "tools/testing/selftests"
    out = build("selftests", OUTPUT=paths.cache() / "programs" / "selftests", KSELFTEST_DIR=harness)
    status, listed = children.run(["make", "-s", "-C", str(paths.REPO / SOURCES["selftests"]), f"OUTPUT={out}",
                                   f"KSELFTEST_DIR={harness}", "emit_tests", *(["emit_extended"] if everything else [])])
    names = re.findall(r"^\S*:(\S+)$", listed, re.M)
    if status or not names:
        raise LabError(f"{SOURCES['selftests']} does not say which tests it has:\n    {listed}")
    return [out / name for name in names]
