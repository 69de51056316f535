# SPDX-License-Identifier: GPL-2.0-only
"""The Debian package of hydractl."""
from lab import paths, progress, setup
from lab.machine import programs


def build():
    """The package of the present sources, as a list of one file."""
    setup.ensure_packages(setup.PACKAGING)
    with progress.waiting("building the package hydractl"):
        directory = programs.build("package-hydractl", lambda part: [paths.REPO / "debian/build-in", part])
    return sorted(directory.glob("*.deb"))
