# SPDX-License-Identifier: GPL-2.0-only
"""The Debian packages of a kernel: linux-image-…-hydra and linux-headers-…-hydra, made by the kernel's own rules for packages.

The lab has trees and objects of their own for them, beside those of the lab's kernels: no other call of the lab waits for a build of
hours, and none changes files under it. One tree is for packages, one for the check of the tests, which compiles a few files.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import time

from lab import children, paths, progress, setup
from lab.errors import LabError
from lab.kernel import build, source
from lab.package import flavours, releases, store

GIB = {"amd64": 40, "cloud-amd64": 14}       # disk for the objects of a whole build
STEPS_PER_OPTION = 3.4        # steps of a whole build for each option that is y or m: until the first build has counted
MAINTAINER = {"DEBFULLNAME": "Hydra for Linux", "DEBEMAIL": "hydra@localhost"}
# What Debian's own packages of kernels depend on, and the kernel's rules for packages leave out
DEPENDS = "initramfs-tools | linux-initramfs-tool, kmod, linux-base (>= 4.3~)"


@dataclasses.dataclass
class Workshop:
    """Where a flavour is built."""
    tree: pathlib.Path
    purpose: str
    flavour: str

    @property
    def label(self):
        return f"{self.purpose}-{self.flavour}"

    @property
    def home(self):                          # the kernel's rules leave the packages here, beside the objects
        return paths.cache_dir("builds", f"{self.tree.name}-{self.label}")

    @property
    def objects(self):
        return paths.cache_dir("builds", self.home.name, "linux")


@contextlib.contextmanager
def workshop(flavour, purpose="package"):
    """The tree with our present files, and the place for the objects; one call at a time."""
    setup.ensure_packages(setup.PACKAGING)
    purpose = f"{purpose}-{releases.here()}"
    with paths.locked(f"{purpose}-kernel"):
        base = source.base_tree(purpose)
        remove_others(base, purpose)
        base.lay()
        yield Workshop(base.path, purpose, flavour)


def remove_others(base, purpose):
    """Remove the trees and the objects of Linux's earlier versions, which are large."""
    for old in base.path.parent.iterdir():
        if not old.name.startswith(base.path.name):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    for old in paths.cache_dir("builds").glob(f"*-{purpose}-*"):
        if not old.name.startswith(base.path.name):
            shutil.rmtree(old)


def configure(shop, options):
    """Configure; an option that gets lost is an error that names the option."""
    build.configure(shop.tree, shop.objects, shop.label, flavours.with_hydra(options, shop.flavour), flavours.complain)


def touched():
    """What make is asked for to compile our files, and Linux's files that the patches change."""
    ours = source.overlay_files()
    patched = source.linux_files(source.hook_series(), ours)
    # No Makefile is in that directory of ours, so its files are named one by one.
    kvms = [name for name in ours if name.startswith("arch/x86/kvm/hydra/")]
    return ["arch/x86/mm/hydra/", "fs/proc/hydra.o", *(f"{name[:-2]}.o" for name in [*kvms, *patched] if name.endswith(".c"))]


def compile_ours(flavour):
    """Configure a flavour, and compile our files and Linux's files that the patches change; returns what was compiled."""
    with workshop(flavour, "check") as shop:
        configure(shop, flavours.debians_options(flavour))
        wanted = touched()
        build.run_make(shop.tree, shop.objects, shop.label, wanted)
        return wanted


def version_of(shop, key):
    """The version and the date of the packages: new for new inputs, the same if an interrupted build goes on."""
    noted = shop.home / "version.json"
    if noted.exists() and (known := json.loads(noted.read_text(encoding="utf-8")))["key"] == key:
        return known
    base = f"{source.version(shop.tree)}-1" if source.users_tree() else source.debian_version()
    now = time.gmtime()
    made = {"key": key, "version": f"{base}+hydra{time.strftime('%Y%m%d.%H%M', now)}", "date": time.strftime("%Y-%m-%d %H:%M:00", now)}
    paths.write_whole(noted, json.dumps(made))
    return made


def steps(shop):
    """How many steps a whole build has, about; None if the objects of an earlier build are there."""
    if (shop.objects / "vmlinux.a").exists():
        return None
    counted = shop.home / "steps"
    if counted.exists():
        return int(counted.read_text(encoding="ascii"))
    options = re.findall(r"=[ym]$", (shop.objects / ".config").read_text(encoding="utf-8"), re.M)
    return int(len(options) * STEPS_PER_OPTION)


def improved(control):
    """The kernel's debian/control with what an image depends on, and without the headers for user programs (Debian has its own)."""
    stanzas = [stanza for stanza in control.strip().split("\n\n") if not stanza.startswith("Package: linux-libc-dev\n")]
    text = "\n\n".join(stanzas) + "\n"
    return re.sub(r"^(Package: linux-image-(?:(?!-dbg$).)*)$", rf"\1\nDepends: {DEPENDS}\nSuggests: hydractl", text, flags=re.M)


def strip_programs(objects):
    """Strip the programs of the kernel's build, which the package of the headers has. Their dates stay, so make builds nothing again."""
    for path in sorted(path for place in ("scripts", "tools") for path in (objects / place).rglob("*")):
        if path.suffix != ".o" and os.access(path, os.X_OK) and path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            children.run(["strip", "--preserve-dates", path])


def make_packages(shop, version, variables):
    """Run the kernel's own rules for packages on the finished build; returns the packages."""
    environment = dict(build.make_environment(), **MAINTAINER, KDEB_SOURCENAME="linux-hydra", KDEB_PKGVERSION=version,
                       KDEB_CHANGELOG_DIST=releases.here(), DEB_BUILD_PROFILES="pkg.linux-hydra.nokerneldbg")
    log = paths.cache_dir("logs") / f"build-{shop.label}-packages.log"
    for old in shop.home.glob("*.deb"):
        old.unlink()
    strip_programs(shop.objects)
    what = "making the packages of the kernel"
    children.logged(what, build.make_command(shop.tree, shop.objects, *variables, "run-command",
                                             "KBUILD_RUN_COMMAND=$(srctree)/scripts/package/mkdebian"), log, env=environment)
    control = shop.objects / "debian/control"
    paths.write_whole(control, improved(control.read_text(encoding="utf-8")))
    rules = ["nice", "-n", "5", "make", f"-j{build.cpus()}", "-C", shop.objects, "CC=ccache gcc", "HOSTCC=ccache gcc", *variables,
             "KBUILD_VERBOSE=", "-f", "debian/rules", "binary-arch"]
    with progress.counting(what) as bar:
        children.logged(what, rules, log, lambda line: bar.advance(1, line.strip()), append=True, env=environment)
    packages = sorted(shop.home.glob("*.deb"))
    wanted = 2 if re.search(r"^CONFIG_MODULES=y$", (shop.objects / ".config").read_text(encoding="utf-8"), re.M) else 1     # no headers
    if len(packages) != wanted:
        raise LabError(f"the kernel's rules made {len(packages)} packages instead of {wanted}", f"The whole log: {log}")
    return packages


def make(flavour, options=None):
    """The packages of a kernel with the options (default: Debian's of the flavour), built if need be."""
    setup.ensure_packages(setup.PACKAGING)
    options = flavours.debians_options(flavour) if options is None else options
    if found := store.find(flavour, build.inputs_key(flavours.with_hydra(options, flavour))):
        return found
    with workshop(flavour) as shop:
        key = build.inputs_key(flavours.with_hydra(options, flavour))
        configure(shop, options)
        total = steps(shop)
        if total:
            paths.need_space(shop.objects, GIB.get(flavour, 40), f"build the kernel package {flavour}")
        known = version_of(shop, key)
        variables = [f"KBUILD_BUILD_VERSION={known['version'].rpartition('-')[2]}", f"KBUILD_BUILD_TIMESTAMP={known['date']}"]
        with build.timed(f"built {flavour}") as done:
            done["steps"] = build.run_make(shop.tree, shop.objects, shop.label, [*variables, "all"], total)
            if total:
                (shop.home / "steps").write_text(str(done["steps"]), encoding="ascii")
            return store.keep(flavour, key, make_packages(shop, known["version"], variables))
