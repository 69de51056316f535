# SPDX-License-Identifier: GPL-2.0-only
"""Builds the programs of this repository (tool, workloads, self tests) into the cache.

Like a kernel, a build is kept under the hash of all inputs: two clones with different sources never run each other's
programs, and a running machine keeps its programs.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import time

from lab import children, paths
from lab.errors import LabError

INTERFACE = "kernel/include/uapi/linux/hydra.h"
RULES = tuple(f"kernel/arch/x86/mm/hydra/{name}_rules.h" for name in ("auto", "process"))    # of policy auto
SELFTESTS = "kernel/tools/testing/selftests/hydra"
SHARED = ("vm_util.c", "vm_util.h", "hydra_util.c", "hydra_util.h", "linux_uapi.h")    # by a workload and the self tests
# By program: the directory of the Makefile, and further inputs.
SOURCES = {"hydractl": ("tools/hydractl", INTERFACE, *RULES), "workloads": ("workloads", "tools/hydractl", INTERFACE),
           "nested": ("workloads", "tools/hydractl", INTERFACE, *(f"{SELFTESTS}/{name}" for name in SHARED)),
           "package-hydractl": ("debian", "tools/hydractl", "tools/bpftrace", "tools/libvirt", "kernel/Documentation/admin-guide/mm", INTERFACE, *RULES, *(f"docs/{name}.md" for name in ("hydractl", "monitoring", "virtual-machines"))),
           "selftests": (SELFTESTS, INTERFACE), "libkvm": (f"{SELFTESTS}/Makefile",), "kernel-headers": ("kernel/include/uapi",),
           "steps-plugin": ("lab/meter/steps_plugin.c", "lab/meter/plugin_interface.h"),
           "conflicts-plugin": ("lab/meter/conflicts_plugin.c", "lab/meter/plugin_interface.h"),
           "misses-plugin": ("lab/meter/misses_plugin.c", "lab/meter/plugin_interface.h", "lab/meter/tlb_model.h"), "java": ("workloads/Allocating.java",)}
# Of the kernel tree: the test harness, the library of KVM's tests, and what "make headers" installs.
HARNESS_PLACE = "tools/testing/selftests"
HARNESS = tuple(f"{HARNESS_PLACE}/{name}" for name in ("lib.mk", "kselftest.h", "kselftest_harness.h"))
KVM = (*HARNESS, *(f"{HARNESS_PLACE}/kvm/{name}" for name in ("Makefile", "lib", "include")))
UAPI = ("include/uapi", "arch/x86/include/uapi")
KEEP = 6                      # builds of each program
KEEP_SECONDS = 86400          # and builds used since: a machine may still run one


def files_below(path):
    return sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]


def content_key(name, more=(), repository=paths.REPO):
    """The hash of a program's sources, of more files outside of the repository, and of the compiler."""
    digest = hashlib.sha256(subprocess.run(["gcc", "--version"], capture_output=True, check=False).stdout)
    ours = [found for source in SOURCES[name] for found in files_below(repository / source)]
    for path, shown in [*((path, path.relative_to(repository)) for path in ours), *((path, path) for path in more)]:
        digest.update(f"{shown}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build(name, command, more=()):
    """The directory of a program's build; if missing, made by a command (a function of the directory)."""
    home = paths.cache_dir("programs")
    key = content_key(name, more)
    final = home / f"{name}-{key}"
    if final.exists():
        os.utime(final)
        return final
    with paths.locked(f"programs-{name}"):
        if final.exists():
            return final
        paths.need_space(home, 0.25, f"build {SOURCES[name][0]}")
        part = home / f".{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        children.logged(f"building {SOURCES[name][0]}", command(part), paths.cache_dir("logs") / f"{name}.log")
        if content_key(name, more) == key:
            part.rename(final)
            remove_old(home, name)
            return final
    return build(name, command, more)       # the sources were edited while make ran


def remove_old(home, name):
    builds = [path for path in home.iterdir() if re.fullmatch(re.escape(name) + "-[0-9a-f]{16}", path.name)]
    for old in sorted(builds, key=lambda path: path.stat().st_mtime, reverse=True)[KEEP:]:
        if time.time() - old.stat().st_mtime > KEEP_SECONDS:
            shutil.rmtree(old, ignore_errors=True)


def make(name, **variables):
    """The command that builds one of SOURCES."""
    given = [f"{key}={value}" for key, value in variables.items()]
    return ["make", f"-j{len(os.sched_getaffinity(0))}", "-C", paths.REPO / SOURCES[name][0], *given]


def hydractl():
    return build("hydractl", lambda out: make("hydractl", O=out)) / "hydractl"


def workloads():
    return build("workloads", lambda out: make("workloads", O=out))


def plugin(name):
    """A plugin of QEMU, which needs no header of QEMU: QEMU's package has none."""
    return build(f"{name}-plugin", lambda out: ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
                                                out / f"{name}.so", paths.REPO / f"lab/meter/{name}_plugin.c"]) / f"{name}.so"


def steps_plugin():
    """It counts instructions."""
    return plugin("steps")


def conflicts_plugin():
    """It finds the lines at which operations of two CPUs meet."""
    return plugin("conflicts")


def misses_plugin():
    """It counts page walks by a model of TLBs."""
    return plugin("misses")


def java():
    """The directory of the classes of workloads/, for which a Java compiler has to be there."""
    return build("java", lambda out: ["javac", "-d", out, paths.REPO / SOURCES["java"][0]])


def selftest_names(everything=False):
    """The names of the self test programs, from the Makefile, without a compilation.

    Everything: also programs that need a kernel with fault injection of allocations.
    """
    text = (paths.REPO / SELFTESTS / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    names, more = (" ".join(re.findall(rf"^{variable} *[:+]?= *(.*)$", text, re.M)).split()
                   for variable in ("TEST_GEN_PROGS", "TEST_GEN_PROGS_EXTENDED"))
    if not names:
        raise LabError(f"{SELFTESTS}/Makefile does not say which tests it has")
    return names + (more if everything else [])


def tree_files(kernel_tree, names):
    return [found for name in names for found in files_below(pathlib.Path(kernel_tree) / name)]


def of_tree(kernel_tree):
    """The variables of our Makefiles that say where the test harness and the headers of a kernel tree are."""
    headers = build("kernel-headers", lambda part: ["make", "-C", kernel_tree, f"O={part}", "headers"], tree_files(kernel_tree, UAPI)) / "usr/include"
    return {"KSELFTEST_DIR": pathlib.Path(kernel_tree) / HARNESS_PLACE, "KHDR_INCLUDES": f"-isystem {headers}"}


def libkvm(kernel_tree):
    """The library of KVM's self tests."""
    variables = of_tree(kernel_tree)
    return build("libkvm", lambda part: [*make("selftests", OUTPUT=part, **variables), part / "kvm/libkvm.a"], tree_files(kernel_tree, (*UAPI, *KVM))) / "kvm/libkvm.a"


def nested(kernel_tree):
    """The workload that makes a virtual machine."""
    library, variables = libkvm(kernel_tree), of_tree(kernel_tree)
    return build("nested", lambda part: [*make("nested", O=part, LIBKVM=library, **variables), part / "nested"], [library]) / "nested"


def selftests(kernel_tree, everything=False):
    """Build the self tests with the test harness of a kernel tree; returns the paths. Everything: see selftest_names()."""
    library, variables = libkvm(kernel_tree), of_tree(kernel_tree)
    out = build("selftests", lambda part: make("selftests", OUTPUT=part, LIBKVM=library, **variables), [library, *tree_files(kernel_tree, HARNESS)])
    return [out / name for name in selftest_names(everything)]
