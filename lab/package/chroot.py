# SPDX-License-Identifier: GPL-2.0-only
"""A bare Debian in a directory, made by mmdebstrap: to build for a release, and to install packages where nothing else is installed."""
import contextlib
import pathlib
import shutil
import tempfile
import time

from lab import children, paths, progress, setup
from lab.package import releases

# In a name space of its own: the mounts end with the command, in whatever way, and no removal of the directory meets /dev.
ENTER = """cd "$1" && mount -t proc proc proc && mount -t sysfs -o ro sysfs sys && mount --bind /dev dev || exit
while shift && [ "$1" != -- ]; do
    mkdir -p ".$1" && mount --bind "$1" ".$1" || exit
done
shift
exec chroot . "$@\""""
FRESH = 7 * 86400             # seconds after which the lab makes the archive of the system anew


def needed(packages):
    """The names of what packages depend on, the first of alternatives, without versions."""
    fields = [children.run(["dpkg-deb", "--field", package, "Depends"])[1] for package in packages]
    return sorted({entry.split()[0] for field in fields for entry in field.split(",") if entry.strip()})


def archive(release, name="bare", packages=()):
    """A tar file of a Debian release with the packages (and apt): in the cache, made anew once a week."""
    setup.ensure_packages(setup.PACKAGING)
    name, title = f"{release}-{name}", releases.title(release)
    final = paths.cache_dir("systems") / f"{name}.tar"
    with paths.locked(f"systems-{name}"):
        wanted = " ".join(packages)
        stamp = final.with_suffix(".packages")
        if final.exists() and stamp.exists() and stamp.read_text() == wanted and time.time() - final.stat().st_mtime < FRESH:
            return final
        paths.need_space(final.parent, 3, f"make a {title}")
        part = final.with_name(f".{name}.part.tar")
        include = [f"--include={','.join(packages)}"] if packages else []
        with progress.waiting(f"making a {title} ({name}) with mmdebstrap"):
            children.logged(f"making a {title}", ["mmdebstrap", "--variant=apt", *include, release, part],
                            paths.cache_dir("logs") / f"mmdebstrap-{name}.log")
        part.rename(final)
        stamp.write_text(wanted)
    return final


@contextlib.contextmanager
def unpacked(tar):
    """The system of an archive in a directory, which is removed after the block."""
    with tempfile.TemporaryDirectory(dir=paths.cache_dir("systems"), prefix=".root-", suffix=".part") as directory:
        children.logged("unpacking a Debian", ["tar", "-x", "-f", tar, "-C", directory, "--exclude=./dev/*"],
                        paths.cache_dir("logs") / "unpack-system.log")
        yield pathlib.Path(directory)


def entered(root, command, shared=(), **environment):
    """The words that run a command in the directory of a system, with /proc, /sys, /dev, and the shared directories of this machine."""
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **environment}
    return ["unshare", "--mount", "sh", "-c", ENTER, "sh", root, *map(str, shared), "--",
            "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *map(str, command)]


def run(root, *command):
    """Run a command in the directory of a system; returns (status, output)."""
    return children.run(entered(root, command))


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
