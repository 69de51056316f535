# SPDX-License-Identifier: GPL-2.0-only
"""Runs the lab in a system of another Debian release: with the release's own compiler, source of Linux and configurations.

Repository and cache are this machine's.
"""
import json
import subprocess

from lab import children, paths, setup
from lab.errors import LabError
from lab.kernel import source
from lab.machine import programs
from lab.package import chroot, flavours, kernels, releases

CALL = """import importlib, json, sys
sys.path.insert(0, sys.argv[1])
print(json.dumps(getattr(importlib.import_module(sys.argv[2]), sys.argv[3])(*sys.argv[4:])))"""


def run(release, command, shared=()):
    """Run a command of the lab in a system of the release; returns what the command printed. Its messages are seen."""
    users = source.users_tree()
    given = {"HYDRA_CACHE": paths.cache(), "PYTHONPYCACHEPREFIX": paths.cache() / "pycache", **({"HYDRA_LINUX_SRC": users} if users else {})}
    with chroot.unpacked(chroot.archive(release, "build", (*setup.BUILDING, *setup.PACKAGING))) as root:
        words = chroot.entered(root, command, [paths.REPO, paths.cache(), *([users] if users else []), *shared], **given)
        with children.leashed(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
            printed = child.stdout.read().decode()
            if child.wait():
                raise LabError(f"the lab failed in a {releases.title(release)}: see above")
    return printed


def call(release, function, *words):
    """What a function of the lab, given words, returns in the release: texts, or nothing."""
    if release == releases.here():
        return function(*words)
    return json.loads(run(release, ["python3", "-c", CALL, paths.REPO, function.__module__, function.__name__, *words]))


def selftests():
    """The self tests, compiled for this machine's release; returns their files."""
    with kernels.workshop(flavours.FLAVOURS[0]) as shop:
        return list(map(str, programs.selftests(shop.tree)))
