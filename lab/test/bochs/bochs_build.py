# SPDX-License-Identifier: GPL-2.0-only
"""Builds Bochs with a TLB that keeps entries by process-context identifier (PCID), and with Intel's virtualisation (VMX).

QEMU's emulator has neither. Bochs has PCID, but drops the whole TLB where a real processor would keep the TLB, so
that no missing flush can show; bochs-pcid.patch lets Bochs keep the TLB. bochs-vmx.patch mends an error of Bochs's VMX.
Debian's binary cannot be patched: the source comes from Debian, without the parts that the lab does not need.
"""
import hashlib
import os
import re
import shutil

from lab import children, paths, progress
from lab.errors import LabError
from lab.kernel import build

SOURCE = "http://deb.debian.org/debian/pool/main/b/bochs/bochs_3.0+dfsg.orig.tar.xz"
SHA256 = "78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b"
DOWNLOADER = "/usr/lib/apt/apt-helper"       # apt's own download program, which uses apt's proxies
PATCHES = [paths.REPO / "lab/test/bochs" / name for name in ("bochs-pcid.patch", "bochs-vmx.patch")]
OPTIONS = """
    --enable-smp --enable-x86-64 --enable-cpu-level=6 --enable-avx --enable-evex --enable-vmx=2 --enable-pci --enable-cdrom
    --enable-all-optimizations --disable-show-ips --disable-x86-debugger --disable-plugins --disable-docbook --with-nogui
""".split()
BUILD_STEPS = 472
STEP = re.compile(r"^(?:gcc|g\+\+) (?:.* )?-c .* (\S+\.cc?)\b")


def key():
    """The hash of all inputs of the program."""
    return hashlib.sha256(SHA256.encode() + b"".join(patch.read_bytes() for patch in PATCHES) + " ".join(OPTIONS).encode()).hexdigest()[:16]


def download():
    """The source archive, with checked content."""
    archive = paths.cache_dir("downloads") / SOURCE.rpartition("/")[2]
    if archive.exists() and hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256:
        return archive
    part = archive.with_name(f".{archive.name}.part")
    progress.say(f"downloading {SOURCE}")
    status, output = children.run([DOWNLOADER, "download-file", SOURCE, str(part), f"SHA256:{SHA256}"])
    if status:
        errors = [line for line in output.splitlines() if line.startswith("E:")]
        raise LabError(f"downloading {SOURCE} failed:\n    " + "\n    ".join(errors or output.splitlines()[-4:]),
                       f"Download it by other means and put it at {archive}.")
    part.rename(archive)
    return archive


def unpack(archive, directory):
    """Unpack the source into a new directory and apply the patches."""
    directory.mkdir()
    steps = (["tar", "-x", "-f", str(archive), "-C", str(directory), "--strip-components=1"],
             ["git", "apply", "-p1", "--whitespace=nowarn", *map(str, PATCHES)])
    for step in steps:
        # Not as a part of whatever repository the cache may lie in.
        status, output = children.run(step, cwd=directory, env=dict(os.environ, GIT_CEILING_DIRECTORIES=str(directory.parent)))
        if status:
            raise LabError(f"{' '.join(step)} failed:\n    " + "\n    ".join(output.splitlines()[-8:]))


def make(directory):
    """Configure and compile in the source directory."""
    log = paths.cache_dir("logs") / "bochs.log"

    def count(line):
        if step := STEP.match(line):
            bar.advance(1, step[1])
    with progress.counting("building Bochs", BUILD_STEPS) as bar:
        children.logged("configuring Bochs", ["./configure", *OPTIONS], log, cwd=directory)
        children.logged("building Bochs", ["nice", "-n", "5", "make", f"-j{build.cpus()}"], log, count, append=True, cwd=directory)


def program():
    """The path of the program, built if need be."""
    final = paths.cache() / "bochs" / key() / "bochs"
    if final.exists():
        return final
    with paths.locked("bochs"):
        if final.exists():
            return final
        home = paths.cache_dir("bochs")
        paths.need_space(home, 1, "build Bochs")
        paths.remove_parts(home)
        part = home / f".{key()}.part"
        unpack(download(), part)
        make(part)
        done = home / f".{key()}.done.part"
        done.mkdir()
        shutil.copy(part / "bochs", done / "bochs")
        done.rename(final.parent)
        shutil.rmtree(part)
        return final
