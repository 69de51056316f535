# SPDX-License-Identifier: GPL-2.0-only
"""Finished packages: in the cache under the hash of all inputs, and copied whole to the user's directory."""
import os
import shutil

from lab import paths

KEEP = 4                      # builds of each kind


def find(kind, key):
    """The packages of an earlier build with the same inputs; an empty list if there are none."""
    directory = paths.cache() / "packages" / f"{kind}-{key}"
    if not directory.exists():
        return []
    os.utime(directory)
    return sorted(directory.glob("*.deb"))


def keep(kind, key, packages):
    """Copy packages to the cache; all of them or none. Returns the copies."""
    home = paths.cache_dir("packages")
    part, final = home / f".{kind}-{key}.part", home / f"{kind}-{key}"
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir()
        for package in packages:
            shutil.copyfile(package, part / package.name)
        shutil.rmtree(final, ignore_errors=True)
        part.rename(final)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    builds = sorted(home.glob(f"{kind}-" + "[0-9a-f]" * 16), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in builds[KEEP:]:
        shutil.rmtree(old)
    return sorted(final.glob("*.deb"))


def deliver(packages, directory):
    """Copy packages to the user's directory; a file has its name when it is complete. Returns the copies."""
    copies = []
    for package in packages:
        copy = directory / package.name
        part = copy.with_name(f".{package.name}.{os.getpid()}.part")
        try:
            shutil.copyfile(package, part)
            os.replace(part, copy)
        finally:
            part.unlink(missing_ok=True)
        copies.append(copy)
    return copies
