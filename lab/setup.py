# SPDX-License-Identifier: GPL-2.0-only
"""Make a bare Debian 12 able to run the lab: Debian packages, and a Python environment in the cache.

Standard library only: this runs before anything is installed.
"""
import hashlib
import os
import shlex
import shutil
import subprocess
import sys

from lab import paths
from lab.errors import LabError

# Every Debian package the lab, the tool and the tests use. apache2-bin is the server without its service.
PACKAGES = """
    apache2-bin bc bison build-essential ccache cpio e2fsprogs flex gcc-multilib git kmod libcap-dev libelf-dev
    libfuse-dev libnuma-dev libssl-dev liburing-dev linux-source-6.12 numactl python3-venv qemu-system-x86 rsync spin
    stress-ng sudo udev wrk xz-utils
""".split()

# What only the tests in Bochs use (./hydra test --long).
BOCHS_PACKAGES = "bochsbios isolinux syslinux-common vgabios xorriso".split()

REQUIREMENTS = paths.REPO / "lab" / "requirements.txt"


def missing_packages(packages=None):
    """The packages of a list (PACKAGES) that are not installed."""
    packages = PACKAGES if packages is None else packages
    try:
        query = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\\n", *packages],
                               capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError("this is not a Debian system (no dpkg-query): the lab needs Debian 12") from error
    installed = {line.split()[1] for line in query.stdout.splitlines() if line.startswith("installed ")}
    return [name for name in packages if name not in installed]


def install_command(packages):
    """The one command that installs them."""
    return ["apt-get", "install", "-y", "--no-install-recommends", *packages]


class AptProgress:
    """Turns apt's status lines (dlstatus and pmstatus) into one line of progress."""

    def __init__(self, out):
        self.out = out
        self.shown = None

    def feed(self, line):
        kind, _, rest = line.partition(":")
        fields = rest.split(":", 2)
        if kind not in ("dlstatus", "pmstatus") or len(fields) != 3:
            return
        try:
            percent = int(float(fields[1]))
        except ValueError:
            return
        step = "downloading" if kind == "dlstatus" else "installing"
        if self.out.isatty():
            self.out.write(f"\r\033[K  {step} {percent:3d} %  {fields[2].strip()[:60]}")
        elif (step, percent // 20) != self.shown:
            self.out.write(f"  {step} {percent} %\n")
        self.shown = (step, percent // 20)
        self.out.flush()

    def close(self):
        if self.out.isatty() and self.shown:
            self.out.write("\r\033[K")
            self.out.flush()


def run_apt(arguments, log):
    """Run apt-get with its progress shown and its words kept in a log."""
    reader, writer = os.pipe()
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8")
    command = [arguments[0], "-o", f"APT::Status-Fd={writer}", "-o", "Dpkg::Use-Pty=0", *arguments[1:]]
    progress = AptProgress(sys.stderr)
    with open(log, "ab") as sink:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                                 pass_fds=[writer], env=environment)
        os.close(writer)
        with open(reader, encoding="utf-8", errors="replace") as status:
            for line in status:
                progress.feed(line)
        progress.close()
        if child.wait():
            words = log.read_text(encoding="utf-8", errors="replace").splitlines()
            errors = [line for line in words if line.startswith(("E:", "W:"))] or words[-5:]
            raise LabError(f"{shlex.join(arguments)} failed:\n    " + "\n    ".join(errors[-8:]),
                           f"Its whole output: {log}")


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
        run_apt(["apt-get", "update"], log)
        run_apt(install_command(missing), log)
        missing = missing_packages(packages)
        if missing:
            raise LabError(f"apt-get succeeded, yet these packages are not installed: {' '.join(missing)}",
                           f"See {log}.")


def environment_dir():
    """Named after what it holds, so that a changed list makes a new one."""
    key = REQUIREMENTS.read_text(encoding="utf-8") + sys.version
    return paths.cache() / ("venv-" + hashlib.sha256(key.encode()).hexdigest()[:12])


def ensure_environment():
    """The Python environment; its stamp is written last."""
    directory = environment_dir()
    stamp = directory / "complete"
    if stamp.exists():
        return directory
    with paths.locked("setup"):
        if stamp.exists():
            return directory
        print("hydra: making a Python environment (virtme-ng, rich, matplotlib, pytest)", file=sys.stderr)
        paths.need_space(paths.cache_dir(), 1, "install Python packages")
        shutil.rmtree(directory, ignore_errors=True)
        log = paths.cache_dir("logs") / "pip.log"
        steps = ([sys.executable, "-m", "venv", str(directory)],
                 [str(directory / "bin" / "pip"), "install", "--disable-pip-version-check", "-r", str(REQUIREMENTS)])
        with open(log, "wb") as sink:
            for number, step in enumerate(steps, 1):
                print(f"  step {number} of {len(steps)}: {' '.join(step[1:4])} …", file=sys.stderr)
                if subprocess.run(step, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                                  check=False).returncode:
                    words = log.read_text(encoding="utf-8", errors="replace").splitlines()[-6:]
                    raise LabError(f"{shlex.join(step)} failed:\n    " + "\n    ".join(words),
                                   f"Its whole output: {log}. The next call starts this step again.")
        stamp.touch()
        return directory


def ensure(arguments):
    """All that is needed, then this program again inside the Python environment."""
    ensure_packages()
    directory = ensure_environment()
    os.environ["PATH"] = f"{directory / 'bin'}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
    if os.path.realpath(sys.prefix) != os.path.realpath(directory):
        python = str(directory / "bin" / "python3")
        sys.stdout.flush()
        os.execv(python, [python, str(paths.REPO / "hydra"), *arguments])
