# SPDX-License-Identifier: GPL-2.0-only
"""A bare Debian 12 in a directory, made by mmdebstrap: to install packages where nothing else is installed."""
import contextlib
import pathlib
import shutil
import tempfile
import time

from lab import children, paths, progress, setup

RELEASE = "bookworm"
# In a name space of its own: the mounts end with the command, in whatever way, and no removal of the directory meets /dev.
ENTER = """mount -t proc proc "$1/proc" && mount -t sysfs -o ro sysfs "$1/sys" && mount --bind /dev "$1/dev" && exec chroot "$@\""""
FRESH = 7 * 86400             # seconds after which the lab makes the archive of the system anew


def needed(packages):
    """The names of what packages depend on, the first of alternatives, without versions."""
    fields = [children.run(["dpkg-deb", "--field", package, "Depends"])[1] for package in packages]
    return sorted({entry.split()[0] for field in fields for entry in field.split(",") if entry.strip()})


def archive(name="bare", packages=()):
    """A tar file of a Debian 12 with the packages (and apt): in the cache, made anew once a week."""
    setup.ensure_packages(setup.PACKAGING)
    final = paths.cache_dir("systems") / f"{name}.tar"
    with paths.locked(f"systems-{name}"):
        wanted = " ".join(packages)
        stamp = final.with_suffix(".packages")
        if final.exists() and stamp.exists() and stamp.read_text() == wanted and time.time() - final.stat().st_mtime < FRESH:
            return final
        paths.need_space(final.parent, 3, "make a Debian 12")
        part = final.with_name(f".{name}.part.tar")
        include = [f"--include={','.join(packages)}"] if packages else []
        with progress.waiting(f"making a Debian 12 ({name}) with mmdebstrap"):
            children.logged("making a Debian 12", ["mmdebstrap", "--variant=apt", *include, RELEASE, part],
                            paths.cache_dir("logs") / f"mmdebstrap-{name}.log")
        part.rename(final)
        stamp.write_text(wanted)
    return final


@contextlib.contextmanager
def unpacked(tar):
    """The system of an archive in a directory, which is removed after the block."""
    with tempfile.TemporaryDirectory(dir=paths.cache_dir("systems"), prefix=".root-", suffix=".part") as directory:
        children.logged("unpacking a Debian 12", ["tar", "-x", "-f", tar, "-C", directory, "--exclude=./dev/*"],
                        paths.cache_dir("logs") / "unpack-system.log")
        yield pathlib.Path(directory)


def run(root, *command):
    """Run a command in the directory of a system, with /proc, /sys and /dev; returns (status, output)."""
    return children.run(["unshare", "--mount", "sh", "-c", ENTER, "sh", root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
                         "DEBIAN_FRONTEND=noninteractive", *command])


def give(root, packages):
    """Copy packages into the system; returns their names as apt takes them."""
    for package in packages:
        shutil.copyfile(package, root / "root" / package.name)
    return [f"/root/{package.name}" for package in packages]


def files(root):
    """All files of the system, and what each link points to, without what apt and dpkg note of their work."""
    notes = {"var/cache", "var/log", "var/lib/dpkg", "var/lib/apt", "var/lib/systemd", "root", "run", "tmp", "dev", "proc", "sys"}
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if not {str(name), *map(str, name.parents)} & notes:
            found[str(name)] = path.readlink() if path.is_symlink() else path.stat().st_size if path.is_file() else None
    return found
