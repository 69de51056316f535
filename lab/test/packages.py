# SPDX-License-Identifier: GPL-2.0-only
"""./hydra test --stage packages: Debian's configurations take Hydra, and the package of hydractl comes and goes whole."""
import contextlib
import pathlib
import re
import subprocess
import tempfile

from lab import children, paths, progress, setup
from lab.errors import LabError
from lab.machine.ktap import Outcome
from lab.package import chroot, flavours, inside, kernels, releases, verb
from lab.test.stages import share

FILES = ["usr/bin/hydractl", "etc/default/hydra", "usr/lib/systemd/system/hydra.service", "usr/lib/systemd/system/hydra-record.service", "usr/libexec/hydra/boot-default",
         "usr/share/bash-completion/completions/hydractl", "usr/share/doc/hydractl/hydractl.md.gz", "usr/share/doc/hydractl/examples/flushes.bt",
         "etc/systemd/system/sysinit.target.wants/hydra.service"]
CHOICES = ["etc/default/hydra", "etc/systemd/system/sysinit.target.wants/hydra.service"]      # Debian keeps them until a purge
APT = ["apt-get", "-o", "Dpkg::Use-Pty=0", "-y"]
NO_ADDRESS = "bogus-mail-host,bogus-mail-host-in-debian-changelog"
CHANGED = "HYDRA_DEFAULT=hydra\n"
LOCK = "var/lib/dpkg/lock-frontend"


def judged(name, right, why):
    return Outcome(name, "passed") if right else Outcome(name, "failed", why)


def compiled(release, flavour):
    """Whether our files compile with a release's configuration of a flavour."""
    name = f"our files compile with Debian's configuration of {flavour}"
    try:
        return Outcome(name, "passed" if inside.call(release, kernels.compile_ours, flavour) else "failed").on(release)
    except LabError as error:
        return Outcome(name, "failed", str(error)).on(release)


def unfit():
    """Whether a configuration without NUMA is an error which names the option."""
    name, options = "a configuration without NUMA is refused by name", dict(flavours.debians_options("cloud-amd64"), NUMA="n")
    try:
        with kernels.workshop("unfit", "check") as shop:
            kernels.configure(shop, options)
        return Outcome(name, "failed", "Kconfig took the configuration")
    except LabError as error:
        return judged(name, "CONFIG_NUMA=n: Hydra needs y" in str(error), str(error))


def lintian(packages):
    """Whether lintian finds errors, other than that the project has no mail address yet."""
    _, output = children.run(["lintian", "--allow-root", "--fail-on", "none", "--suppress-tags", NO_ADDRESS, *packages])
    errors = [line for line in output.splitlines() if line.startswith("E:") or "internal error" in line]
    return [judged(f"lintian on {packages[0].name}", not errors, "\n".join(errors))]


def newer(package, directory):
    """The package with a higher version, for an upgrade."""
    whole = directory / "newer"
    for command in (["dpkg-deb", "-R", package, whole],
                    ["sed", "-i", r"s/^Version: .*/&+upgrade/", whole / "DEBIAN/control"],
                    ["dpkg-deb", "-b", "--root-owner-group", whole, directory / "hydractl-newer.deb"]):
        status, output = children.run(command)
        if status:
            raise LabError(f"{command[0]} failed: {output}")
    return directory / "hydractl-newer.deb"


@contextlib.contextmanager
def held(lock):
    """The lock of apt, held as another apt holds it: by another process."""
    hold = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(["python3", "-c", hold, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()


def installed(release, package):
    """Install, upgrade, remove and purge the package on a bare Debian; returns the outcomes."""
    outcomes = []
    with chroot.unpacked(chroot.archive(release, packages=chroot.needed([package]))) as root, tempfile.TemporaryDirectory(prefix="hydra-packages-") as scratch:
        before = chroot.files(root)
        first, second = chroot.give(root, [package, newer(package, pathlib.Path(scratch))])

        def step(name, command, wrong):
            """Run a command in the system; wrong returns what is not as it has to be."""
            status, output = chroot.run(root, *command)
            why = [f"{command} ended with status {status}:\n{output}"] if status else wrong(output)
            outcomes.append(judged(f"hydractl's package: {name}", not why, "\n".join(why)))

        def there(name):
            return (root / name).is_symlink() or (root / name).exists()

        def missing(_output):
            return [f"missing: {name}" for name in FILES if not there(name)]

        with held(root / LOCK):
            outcomes.append(refused_while_held(root, first))
        step("nothing is half installed then", ["dpkg", "--audit"], lambda output: output.splitlines())
        step("apt installs it", [*APT, "install", first], missing)
        step("it runs", ["hydractl", "--version"], lambda output: [] if re.search(r"^hydractl \d", output, re.M) else [output])
        (root / "etc/default/hydra").write_text(CHANGED, encoding="utf-8")
        step("an upgrade keeps a changed /etc/default/hydra", [*APT, "install", second], lambda output: missing(output) or [
            text for text in [(root / "etc/default/hydra").read_text(encoding="utf-8")] if text != CHANGED])
        step("removed, it leaves only the administrator's choices", [*APT, "remove", "hydractl"], lambda _: [
            name for name in FILES if name not in CHOICES and there(name)])
        step("purged, it leaves nothing", [*APT, "purge", "hydractl"], lambda _: [
            f"differs: {name}" for name in sorted(set(chroot.files(root).items()) ^ set(before.items()), key=str)])
    return outcomes


def refused_while_held(root, package):
    """Whether the lab's message names the holder while another process holds apt's lock."""
    name = "apt held by another process: the message names the process"
    try:
        setup.run_apt(["chroot", str(root), *APT, "install", package], paths.cache_dir("logs") / "apt-held.log")
        return Outcome(name, "failed", "apt did not care")
    except LabError as error:
        return judged(name, "held by process" in str(error), str(error))


def on_full_disk():
    """Whether a build on a full disk ends with a clear message and leaves nothing."""
    name = "a build of the package on a full disk: a clear message, and nothing is left"
    with tempfile.TemporaryDirectory(prefix="hydra-full-") as directory:
        status, output = children.run(["mount", "-t", "tmpfs", "-o", "size=400k", "hydra-full", directory])
        if status:
            return Outcome(name, "skipped", output.strip())
        try:
            children.logged("building the package hydractl", [paths.REPO / "debian/build-in", directory],
                            paths.cache_dir("logs") / "full-disk.log")
            return Outcome(name, "failed", "the build did not fail")
        except LabError as error:
            left = [path.name for path in pathlib.Path(directory).iterdir()]
            return judged(name, "No space left on device" in str(error) and not left, f"{error}\nleft: {left}")
        finally:
            children.run(["umount", directory])


def of_hydractl(release):
    """The package of hydractl for a release: built, installed, upgraded, removed."""
    progress.say(f"the package of hydractl on a {releases.title(release)}")
    with tempfile.TemporaryDirectory(prefix="hydra-packages-") as directory:
        [package] = verb.make(release, pathlib.Path(directory), [verb.HYDRACTL])
        return [outcome.on(release) for outcome in (*lintian([package]), *installed(release, package))]


def run(long=False, seed=0):
    """The kernels' configurations, and the package of hydractl. A short run has this machine's release, and the configuration that the number seed draws."""
    setup.ensure_packages(setup.PACKAGING)
    chosen, known = ([*releases.TITLES], flavours.FLAVOURS) if long else ([releases.here()], share("packages", flavours.FLAVOURS, seed))
    outcomes = [compiled(release, flavour) for release in chosen for flavour in known]
    return [*outcomes, unfit(), *(outcome for release in chosen for outcome in of_hydractl(release)), on_full_disk()]
