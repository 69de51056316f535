# SPDX-License-Identifier: GPL-2.0-only
"""Make a bare Debian able to run the lab: Debian packages, and a Python environment in the cache.

Standard library only: setup runs before any package is installed.
"""
import hashlib
import os
import shlex
import shutil
import subprocess
import sys

from lab import children, paths
from lab.errors import LabError

# What compiles Linux and hydractl.
BUILDING = """
    bc bison build-essential ccache cpio flex git kmod libelf-dev libjson-c-dev libncurses-dev libnuma-dev libssl-dev linux-source-6.12
    rsync xz-utils
""".split()

# Every Debian package of the lab, the tool and the tests. apache2-bin is the server without a service.
PACKAGES = BUILDING + """
    apache2-bin bash-completion e2fsprogs gcc-multilib help2man libcap-dev iproute2 libfuse-dev liburing-dev numactl python3-venv
    qemu-system-x86 spin stress-ng sudo udev wrk
""".split()

# What only the tests in Bochs use (./hydra test --long).
BOCHS_PACKAGES = "bochsbios isolinux syslinux-common vgabios xorriso".split()

# What ./hydra package and its tests use besides. dwarves: Debian's kernels have BTF. zstd: Debian's compression of packages.
PACKAGING = "debhelper dwarves help2man lintian linux-config-6.12 mmdebstrap python3-rich zstd".split()

# What ./hydra here uses: a server needs no emulator, and no source of Linux.
HERE = "build-essential git libjson-c-dev libncurses-dev libnuma-dev python3-venv".split()

REQUIREMENTS = paths.REPO / "lab/requirements.txt"


def missing_packages(packages=None):
    """The packages of a list (PACKAGES) still to install."""
    packages = PACKAGES if packages is None else packages
    try:
        query = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\\n", *packages],
                               capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError("this is not a Debian system (no dpkg-query): the lab needs Debian 12 or 13") from error
    installed = {line.split()[1] for line in query.stdout.splitlines() if line.startswith("installed ")}
    return [name for name in packages if name not in installed]


def install_command(packages):
    """The command that installs the packages."""
    return ["apt-get", "install", "-y", "--no-install-recommends", *packages]


def run_apt(arguments, log):
    """Run apt-get or dpkg and keep the output in a log; on a terminal, the last line is shown."""
    def show(line):
        if sys.stderr.isatty():
            print(f"\r\033[K  {line.strip()[:70]}", end="", file=sys.stderr, flush=True)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8")
    plain = ["-o", "Dpkg::Use-Pty=0"] if arguments[0] != "dpkg" else []
    children.logged(shlex.join(arguments), [*arguments, *plain], log, show, append=True, env=environment)
    show("")


def ensure_packages(packages=None):
    missing = missing_packages(packages)
    if not missing:
        return
    if os.geteuid() != 0:
        raise LabError(f"Debian packages are missing: {' '.join(missing)}",
                       "As root, run:  " + shlex.join(install_command(missing)))
    with paths.locked("setup"):
        missing = missing_packages(packages)
        if not missing:
            return
        paths.need_space("/", 3, "install Debian packages")
        log = paths.cache_dir("logs") / "apt.log"
        print(f"hydra: installing {len(missing)} Debian packages: {' '.join(missing)}", file=sys.stderr)
        run_apt(["dpkg", "--configure", "-a"], log)      # apt refuses to work after an installation that was cut off
        run_apt(["apt-get", "update"], log)
        run_apt(install_command(missing), log)
        missing = missing_packages(packages)
        if missing:
            raise LabError(f"apt-get succeeded, yet these packages are not installed: {' '.join(missing)}",
                           f"See {log}.")


def unpacked(package):
    """The directory with the files of a Debian package that is not installed, because it would start a service."""
    final = paths.cache_dir("unpacked") / package
    with paths.locked("setup"):
        if not final.exists():
            paths.remove_parts(final.parent)
            part = paths.cache_dir("unpacked", f".{package}.part")
            log = paths.cache_dir("logs") / "apt.log"
            for command in (["apt-get", "download", package], ["sh", "-c", f"exec dpkg-deb --extract {package}_*.deb files"]):
                children.logged(shlex.join(command), command, log, append=True, cwd=part)
            (part / "files").rename(final)
            shutil.rmtree(part)
    return final


def environment_dir():
    """Named after the list of packages, so that a changed list makes a new environment."""
    key = REQUIREMENTS.read_text(encoding="utf-8") + sys.version
    return paths.cache() / ("venv-" + hashlib.sha256(key.encode()).hexdigest()[:12])


def ensure_environment():
    """The Python environment; the stamp is written last."""
    directory = environment_dir()
    stamp = directory / "complete"
    if stamp.exists():
        return directory
    with paths.locked("setup"):
        if stamp.exists():
            return directory
        print("hydra: making a Python environment (virtme-ng, rich, matplotlib, jinja2, pytest)", file=sys.stderr)
        paths.need_space(paths.cache_dir(), 1, "install Python packages")
        shutil.rmtree(directory, ignore_errors=True)
        log = paths.cache_dir("logs") / "pip.log"
        steps = ([sys.executable, "-m", "venv", str(directory)],
                 [str(directory / "bin" / "pip"), "install", "--disable-pip-version-check", "-r", str(REQUIREMENTS)])
        for number, step in enumerate(steps, 1):
            print(f"  step {number} of {len(steps)}: {' '.join(step[1:4])} …", file=sys.stderr)
            children.logged(shlex.join(step), step, log, append=number > 1)
        stamp.touch()
        return directory


def ensure(arguments):
    """Install all packages that the verb needs, then run the program again inside the Python environment."""
    ensure_packages(HERE if arguments[:1] == ["here"] else None)
    directory = ensure_environment()
    os.environ["PATH"] = f"{directory / 'bin'}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
    if os.path.realpath(sys.prefix) != os.path.realpath(directory):
        python = str(directory / "bin" / "python3")
        sys.stdout.flush()
        os.execv(python, [python, str(paths.REPO / "hydra"), *arguments])
