# SPDX-License-Identifier: GPL-2.0-only
"""./hydra test --stage server: the packages on a Debian of their own, from apt and GRUB to a service under Hydra and the self tests."""
import pathlib
import shlex
import shutil
import tempfile

from lab import paths, progress
from lab.machine import console, vm
from lab.machine.ktap import Outcome
from lab.package import chroot, inside, releases, system, verb
from lab.test import packages, suites

FLAVOUR = "cloud-amd64"
MACHINE = vm.Machine(nodes=2, cpus_per_node=2, memory="2G")
BOOTS = 4                     # for one whose results the emulator has not spoilt: Debian's kernel patches its text often
LIMIT = 7200                  # seconds for the boot and all tests
SECONDS = 900                 # for one self test: Debian's kernel has more to do than the lab's
HERE = "opt/hydra-test"       # in the system
HELD = f"/{HERE}/{pathlib.Path(vm.HELD_VMS).name}"

TEST = """[Unit]
After={after}
[Service]
Type=oneshot
StandardOutput=file:/dev/ttyS1
StandardError=file:/dev/ttyS1
Environment=RELEASE={release} BROKEN=none ARGUMENTS= HELD={held} LC_ALL=C.UTF-8 HOME=/root
ExecStart=/bin/sh {command}
{more}
"""
OFF = "ExecStopPost=/bin/systemctl poweroff --no-block"
SERVICE = "[Service]\nExecStart=/usr/bin/sleep infinity\n"
DROPIN = "[Service]\nExecStart=\nExecStart=hydractl run -- /usr/bin/sleep infinity\n"


def put(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def prepare(root, release, tests):
    """Add what the tests need: two services, one of them with a drop-in, the boot default, and the tests' own services."""
    for file in (*tests, paths.REPO / "lab/guest/guest_server.sh", paths.REPO / "lab/guest/guest_selftests.sh",
                 pathlib.Path(vm.HELD_VMS), paths.REPO / "tools/bpftrace/flushes.bt"):
        (root / HERE).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / HERE / file.name)
    words = [f"/{HERE}/{test.name} {suites.SLEEPING.get(test.name, '')}".strip() for test in tests]
    programs_run = " ".join([f"/{HERE}/guest_selftests.sh {SECONDS}", *map(shlex.quote, words)])
    put(root, "etc/default/hydra", "HYDRA_DEFAULT=mitosis\n")
    put(root, "etc/systemd/system/hydra-test-plain.service", SERVICE)
    put(root, "etc/systemd/system/hydra-test-dropin.service", SERVICE)
    put(root, "etc/systemd/system/hydra-test-dropin.service.d/hydra.conf", DROPIN)
    put(root, "etc/systemd/system/hydra-test-programs.service", TEST.format(after="", release=release, held=HELD, command=programs_run, more=""))
    put(root, "etc/systemd/system/hydra-test.service", TEST.format(after="hydra-test-plain.service hydra-test-dropin.service",
                                                                   release=release, held=HELD, command=f"/{HERE}/guest_server.sh", more=OFF))
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for name in ("hydra-test-plain", "hydra-test-dropin", "hydra-test"):
        (wants / f"{name}.service").symlink_to(f"/etc/systemd/system/{name}.service")


def in_emulator(made, name, tests):
    """Boot the system and run the tests; returns the outcomes."""
    for left in reversed(range(BOOTS)):
        with progress.waiting(f"a {name} on {MACHINE}: boot, services, self tests"):
            directory, ended = system.boot(made, MACHINE, LIMIT)
        log = vm.read(directory / "console.log")
        why = console.spoilt(log) or ("" if log else "QEMU hung before the first message")
        if not (left and why):
            break
        progress.say(f"once more: {why}")
    text = vm.read(directory / "results").replace("\r", "")
    progress.say(f"seconds: {suites.times(text)}; the console and the results: {directory}")
    outcomes = suites.split_programs(text, ["packages", *(test.name for test in tests)], SECONDS)
    outcomes += [Outcome(f"kernel log: {name}", "failed", "\n".join(lines)) for name, lines in console.trouble(log)]
    if ended:
        outcomes.append(Outcome("the machine", "failed", f"{ended}; the end of its console:\n{console.tail(log)}"))
    return outcomes


def removed(root, before, names):
    """Purge the packages; returns the outcomes: nothing but the tests' own files is left."""
    system.apt(root, "purge", *names)
    own = set(chroot.files(root).items()) ^ set(before.items())
    left = sorted(name for name, _ in own if "hydra-test" not in name)
    return [packages.judged("purged, the packages leave nothing", not left, "\n".join(left))]


def names_of(debs):
    return [package.name.partition("_")[0] for package in debs]


def test(release, debs, tests):
    """Install the packages of a kernel and of hydractl, boot, purge the packages; returns the outcomes."""
    images = [package for package in debs if package.name.startswith("linux-")]
    [kernel] = [name.removeprefix("linux-image-") for name in names_of(images) if name.startswith("linux-image-")]
    with system.made(release, debs, MACHINE) as made:
        with made.mounted() as (root, _):
            before = chroot.files(root)
            progress.say(f"installing {' '.join(names_of(debs))} with apt")
            system.install(root, debs)
            prepare(root, kernel, tests)
        outcomes = [*packages.lintian(images), *in_emulator(made, releases.title(release), tests)]
        with made.mounted() as (root, _):
            outcomes += removed(root, before, names_of(debs))
    return [outcome.on(release) for outcome in outcomes]


def run(only=""):
    """The stage for all releases with the word only in their names."""
    outcomes = []
    for release in (name for name in releases.TITLES if only in name):
        with tempfile.TemporaryDirectory(dir=paths.cache_dir("systems"), prefix=".packages-", suffix=".part") as directory:
            debs = verb.make(release, pathlib.Path(directory), [verb.HYDRACTL, FLAVOUR])
            outcomes += test(release, debs, list(map(pathlib.Path, inside.call(release, inside.selftests))))
    return outcomes
