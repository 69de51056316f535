# SPDX-License-Identifier: GPL-2.0-only
"""./hydra package: the Debian packages of the kernel and of hydractl."""
import pathlib

from lab import paths, progress, setup
from lab.errors import LabError
from lab.machine import programs
from lab.package import flavours, kernels, store

INSTALL = "Install them on a Debian 12 with:  apt install {}"


def output_directory(name):
    """The directory of the packages, made before the build, so that a mistake shows at once."""
    directory = pathlib.Path(name)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".hydra-package.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise LabError(f"cannot write to the directory {directory}: {error.strerror}", status=2) from error
    return directory


def of_hydractl():
    """The package of the present sources of hydractl, as a list of one file."""
    setup.ensure_packages(setup.PACKAGING)
    with progress.waiting("building the package hydractl"):
        directory = programs.build("package-hydractl", lambda part: [paths.REPO / "debian/build-in", part])
    return sorted(directory.glob("*.deb"))


def package_verb(arguments):
    wanted = arguments.flavour or flavours.FLAVOURS[:1]
    if arguments.only == "hydractl" and (arguments.flavour or arguments.config):
        raise LabError("--only hydractl builds no kernel: --flavour and --config mean nothing there", status=2)
    if arguments.config and len(wanted) > 1:
        raise LabError("--config is the configuration of one flavour: give --flavour once", status=2)
    given = flavours.users_options(pathlib.Path(arguments.config)) if arguments.config else None
    directory = output_directory(arguments.directory)
    packages = []
    if arguments.only != "kernel":
        packages += store.deliver(of_hydractl(), directory)
    if arguments.only != "hydractl":
        for flavour in dict.fromkeys(wanted):
            packages += store.deliver(kernels.make(flavour, given), directory)
    for package in packages:
        print(package)
    progress.say(INSTALL.format(" ".join(f"./{package.name}" for package in packages)) + f"  (in {directory})")
    return 0
