# SPDX-License-Identifier: GPL-2.0-only
"""Packs programs of the host, with their libraries, into an initial file system for a kernel."""
import os
import pathlib
import re
import shutil
import subprocess

from lab import children
from lab.errors import LabError

LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.M)
MISSING = re.compile(r"^\s*(\S+) => not found$", re.M)


def libraries(program):
    """The shared libraries of a program, with the loader; none for a script or a static program."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False,
                            env=dict(os.environ, LC_ALL="C.UTF-8"))
    missing = MISSING.findall(listed.stdout)
    if missing:
        raise LabError(f"{program} needs libraries that are not there: {' '.join(missing)}")
    return LIBRARY.findall(listed.stdout) if listed.returncode == 0 else []


def program(name):
    """The path of a program on the host."""
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not found:
        raise LabError(f"this machine has no program {name}, which the emulated one needs")
    return pathlib.Path(found)


def put(root, source, target):
    """Copy a file to the path target in the new file system."""
    copy = root / str(target).lstrip("/")
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, copy)


def lay(root, programs):
    """Copy programs and libraries to the same paths as on the host."""
    for path in programs:
        put(root, path, path)
        for library in libraries(path):
            put(root, library, library)


def pack(root, archive):
    """Write the directory as an archive for the kernel; not compressed, so that the kernel finds ACPI tables."""
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    listed = root.with_name(root.name + ".list")
    listed.write_text("".join(f"{name}\0" for name in names), encoding="utf-8")
    with open(listed, "rb") as source, open(archive, "wb") as sink, children.leashed(
            ["cpio", "--quiet", "--null", "--create", "--format=newc", "--owner=0:0"], cwd=root, stdin=source, stdout=sink,
            stderr=subprocess.PIPE) as cpio:
        words = cpio.stderr.read().decode(errors="replace").strip()
        if cpio.wait():
            raise LabError(f"packing {root} failed: {words}")
