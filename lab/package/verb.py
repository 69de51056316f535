# SPDX-License-Identifier: GPL-2.0-only
"""./hydra package: the Debian packages of the kernel and of hydractl."""
import functools
import pathlib
import tempfile

from lab import paths, progress, setup
from lab.errors import LabError
from lab.kernel import kconfig
from lab.machine import programs
from lab.package import flavours, inside, kernels, releases, store

HYDRACTL = "hydractl"
INSTALL = "Install them on a {} with:  apt install {}"


def output_directory(name):
    """The directory of the packages, made before the build, so that a mistake shows at once."""
    directory = pathlib.Path(name).absolute()
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


def here(directory, wanted, given=None):
    """Put packages for this machine's release into a directory: kinds of HYDRACTL and flavours. Returns their files."""
    return [copy for kind in wanted for copy in store.deliver(of_hydractl() if kind == HYDRACTL else kernels.make(kind, given), directory)]


def elsewhere(release, directory, wanted, given=None):
    """The same for another release."""
    only = "kernel" if HYDRACTL not in wanted else HYDRACTL if wanted == [HYDRACTL] else None
    words = [f"--flavour={kind}" for kind in wanted if kind != HYDRACTL] + ([f"--only={only}"] if only else [])
    with tempfile.NamedTemporaryFile("w", dir=paths.cache_dir("systems"), suffix=".part") as config:
        if given is not None:
            config.write(kconfig.text(given))
            config.flush()
            words.append(f"--config={config.name}")
        printed = inside.run(release, [paths.REPO / "hydra", "package", directory, *words], [directory])
    return list(map(pathlib.Path, printed.splitlines()))


def make(release, directory, wanted, given=None):
    return (here if release == releases.here() else functools.partial(elsewhere, release))(directory, wanted, given)


def kinds_of(arguments):
    """What the words of the command line ask for: HYDRACTL and flavours."""
    kernel = dict.fromkeys(arguments.flavour or flavours.FLAVOURS[:1])
    return [*([HYDRACTL] if arguments.only != "kernel" else []), *(kernel if arguments.only != HYDRACTL else [])]


def package_verb(arguments):
    if arguments.only == HYDRACTL and (arguments.flavour or arguments.config):
        raise LabError("--only hydractl builds no kernel: --flavour and --config mean nothing there", status=2)
    if arguments.config and len(arguments.flavour or ()) > 1:
        raise LabError("--config is the configuration of one flavour: give --flavour once", status=2)
    given = flavours.users_options(pathlib.Path(arguments.config)) if arguments.config else None
    directory = output_directory(arguments.directory)
    setup.ensure_packages((*setup.BUILDING, *setup.PACKAGING))
    release = arguments.release or releases.here()
    packages = make(release, directory, kinds_of(arguments), given)
    for package in packages:
        print(package)
    if release == releases.here():           # in a system of another release, the lab there has said it
        progress.say(INSTALL.format(releases.title(release), " ".join(f"./{package.name}" for package in packages)) + f"  (in {directory})")
    return 0
