# SPDX-License-Identifier: GPL-2.0-only
"""The kernel tree in the cache: Linux 6.12.y with our files and hooks.

The lab writes only files whose content changes, so that make rebuilds no more than necessary. <tree>.pristine keeps Linux's
own text of each file with a hook, so that a changed hook starts from Linux's text. No file is written before every hook has
applied.
"""
import filecmp
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from lab import children, paths, progress
from lab.errors import LabError

OURS = paths.REPO / "kernel"
FAULTS = "hooks/injected-faults.patch"        # applied to our files in debug kernels, not part of the series
DELAYS = "hooks/injected-delays.patch"        # the same for Linux's own files: makes the moments frequent in which a broken rule shows
DEBIAN_TARBALL = "/usr/src/linux-source-6.12.tar.xz"
DEBIAN_FILES = 87000          # about how many files the tarball holds: for the estimate only

# A user's tree may hold files of an in-tree build, with which make would refuse O= builds.
NOT_SOURCE = ["/.git", "/.config", "/include/config", "/include/generated", "/arch/*/include/generated", "*.o", "*.a",
              "*.cmd", "*.ko", "/vmlinux*", "/.tmp_*", "/scripts/basic/fixdep", "/scripts/kconfig/conf"]


def version(tree):
    """('6.12.117', 12): the version in the tree's Makefile."""
    try:
        head = (tree / "Makefile").read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError as error:
        raise LabError(f"{tree} is not a kernel tree: no Makefile") from error
    found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) *= *(\d+)$", head, re.M))
    fields = {name: found[name] for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL") if name in found}
    if len(fields) != 3:
        raise LabError(f"{tree} is not a kernel tree: its Makefile states no version")
    if (fields["VERSION"], fields["PATCHLEVEL"]) != ("6", "12"):
        raise LabError(f"{tree} is Linux {'.'.join(fields.values())}; Hydra needs a 6.12.y tree",
                       "Point HYDRA_LINUX_SRC at one, or unset it to use Debian's linux-source-6.12.")
    return ".".join(fields.values())


def overlay_files(ours=OURS):
    """Our files, as paths relative to the kernel tree, without the hooks."""
    found = (path.relative_to(ours) for path in sorted(ours.rglob("*")) if path.is_file())
    return [str(path) for path in found if path.parts[0] != "hooks"]


def series_files(ours=OURS):
    """What the series file names, in its order: patches, and cover letters, whose names end in .cover."""
    series = ours / "hooks" / "series"
    if not series.exists():
        return []
    names = [line.split("#")[0].strip() for line in series.read_text(encoding="utf-8").splitlines()]
    found = [series.parent / name for name in names if name]
    for path in found:
        if not path.exists():
            raise LabError(f"{series} names {path.name}, which does not exist")
    return found


def hook_series(ours=OURS):
    """The patches in the order the series file gives."""
    return [path for path in series_files(ours) if path.suffix != ".cover"]


def touched_by(patch):
    """The files one patch changes."""
    lines = patch.read_text(encoding="utf-8").splitlines()
    return sorted({match[1] for line in lines if (match := re.match(r"^(?:---|\+\+\+) [ab]/(\S+)", line))})


def linux_files(patches, ours):
    """Linux's own files that the patches change; a diff of one of our files is already part of the file."""
    return sorted({name for patch in patches for name in touched_by(patch)} - set(ours))


def apply_patch(patch, directory, names, reverse=False):
    """Apply a patch's changes of the named files under a directory; returns git's complaint, or an empty string."""
    chosen = [f"--include={name}" for name in touched_by(patch) if name in names]
    if not chosen:
        return ""
    command = ["git", "apply", "-p1", "--whitespace=nowarn", *(["--reverse"] if reverse else []), *chosen, str(patch.resolve())]
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=str(directory.parent), LC_ALL="C.UTF-8")
    applied = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    return applied.stderr.strip() or "git apply failed" if applied.returncode else ""


class Tree:
    """One kernel tree in the cache, and the recorded state of the tree."""

    def __init__(self, path):
        self.path = path
        self.pristine_dir = path.with_name(path.name + ".pristine")
        self.state_file = path.with_name(path.name + ".json")

    def state(self):
        """{'laid': our files now in the tree, 'patched': Linux's files now changed by hooks}."""
        try:
            return json.loads(self.state_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"laid": [], "patched": []}

    def remember(self, laid, patched):
        paths.write_whole(self.state_file, json.dumps({"laid": sorted(laid), "patched": sorted(patched)}))

    def pristine(self, name):
        """Linux's own text of a file, from the tree or from <tree>.pristine."""
        kept = self.pristine_dir / name
        return kept if kept.exists() else self.path / name

    def patched_files(self, patches, stage, ours=()):
        """Apply all hooks to copies of Linux's files in the directory stage; returns the names. The tree stays unchanged."""
        names = linux_files(patches, ours)
        for name in names:
            source, copy = self.pristine(name), stage / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.exists():
                shutil.copyfile(source, copy)
        for patch in patches:
            if complaint := apply_patch(patch, stage, names):
                reasons = complaint.splitlines()
                where = sorted({m[1] for line in reasons if (m := re.match(r"error: (?:patch failed: )?([\w./-]+):", line))})
                raise LabError(f"the hook {patch.name} does not apply to Linux {version(self.path)} "
                               f"(file {', '.join(where) or '?'}):\n    " + "\n    ".join(reasons),
                               f"Adapt {patch} to this version, or use another 6.12.y tree (HYDRA_LINUX_SRC).")
        return names

    def lay(self, ours=OURS, faults=False):
        """Bring our files and hooks into the tree; returns the number of files written or removed.

        With faults, the patch of the injected faults is applied, too.
        """
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".faults-", suffix=".part") as faulty:
            if faults:
                return self.lay_files(with_faults(ours, pathlib.Path(faulty)), hook_series(ours) + delays(ours))
            return self.lay_files(ours, hook_series(ours))

    def lay_files(self, ours, patches):
        files = overlay_files(ours)
        state = self.state()
        for name in files:
            if name not in state["laid"] and (self.path / name).exists():
                raise LabError(f"kernel/{name} exists in Linux {version(self.path)} already",
                               "Files under kernel/ are new files; change Linux's own with a hook.")
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".stage-", suffix=".part") as stage_name:
            stage = pathlib.Path(stage_name)
            patched = self.patched_files(patches, stage, files)
            # Until the end, the tree is incomplete; the state names every file that may differ from Linux's text.
            self.remember(set(state["laid"]) | set(files), set(state["patched"]) | set(patched))
            for name in patched:
                kept = self.pristine_dir / name
                if not kept.exists() and (self.path / name).exists():
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(self.path / name, kept.with_name(kept.name + ".part"))
                    os.replace(kept.with_name(kept.name + ".part"), kept)
            changed = sum(write_if_different(stage / name, self.path / name) for name in patched)
        changed += sum(write_if_different(ours / name, self.path / name) for name in files)
        for name in set(state["patched"]) - set(patched):
            kept = self.pristine_dir / name
            changed += write_if_different(kept, self.path / name) if kept.exists() else remove_file(self.path, name)
        changed += sum(remove_file(self.path, name) for name in set(state["laid"]) - set(files))
        self.remember(files, patched)
        return changed


def with_faults(ours, copy):
    """Our files with the patch of the injected faults applied, in the directory copy."""
    for name in overlay_files(ours):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ours / name, copy / name)
    if complaint := apply_patch(ours / FAULTS, copy, touched_by(ours / FAULTS)):
        raise LabError("the injected faults do not apply to our files:\n    " + complaint.replace("\n", "\n    "),
                       f"Adapt {ours / FAULTS} to what has changed.")
    return copy


def delays(ours=OURS):
    """The patch of the injected faults to Linux's own files, as a list."""
    return [path for path in [ours / DELAYS] if path.exists()]


def write_if_different(source, target):
    """Copy content (with a new date, for make) unless already there; 1 if written."""
    if target.exists() and filecmp.cmp(source, target, shallow=False):
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    shutil.copyfile(source, part)
    shutil.copymode(source, part)
    os.replace(part, target)
    return 1


def remove_file(tree, name):
    """Remove a file and directories that become empty; 1 if the file existed."""
    target = tree / name
    if not target.exists():
        return 0
    target.unlink()
    for parent in target.relative_to(tree).parents[:-1]:
        if any((tree / parent).iterdir()):
            break
        (tree / parent).rmdir()
    return 1


def debian_version():
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "linux-source-6.12"], capture_output=True,
                           text=True, check=False)
    if shown.returncode:
        raise LabError("the Debian package linux-source-6.12 is not installed", "apt-get install linux-source-6.12")
    return shown.stdout.strip()


def unpack_debian(trees):
    """The tree of the installed linux-source-6.12; unpacked under another name and renamed when complete."""
    tree = trees / ("debian-" + re.sub(r"[^\w.+-]", "_", debian_version()))
    if tree.exists():
        return tree
    paths.need_space(trees, 4, "unpack the kernel source")
    part = trees / f".{tree.name}.part"
    part.mkdir()
    with progress.counting(f"unpacking Linux (Debian {debian_version()})", DEBIAN_FILES) as bar:
        command = ["tar", "-x", "-v", "-f", DEBIAN_TARBALL, "-C", str(part), "--strip-components=1"]
        with children.leashed(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tar:
            for _ in tar.stdout:
                bar.advance()
            words = tar.stderr.read().decode(errors="replace").strip()
            if tar.wait():
                raise LabError(f"unpacking {DEBIAN_TARBALL} failed: {words}")
    part.rename(tree)
    return tree


def copy_users_tree(trees, users):
    """Bring a copy of the user's tree up to date, except for files with our changes."""
    name = "src-" + hashlib.sha256(str(users.resolve()).encode()).hexdigest()[:12]
    tree = Tree(trees / name)
    if not tree.path.exists():
        paths.need_space(trees, 4, f"copy {users}")
    state = tree.state()
    excluded = [f"--exclude={pattern}" for pattern in NOT_SOURCE]
    ours = [f"--exclude=/{name}" for name in (*state["laid"], *state["patched"])]
    target = tree.path if tree.path.exists() else trees / f".{name}.part"
    progress.say(f"copying {users} (only what changed)")
    copies = [["rsync", "-a", "--delete", *excluded, *ours, f"{users}/", f"{target}/"]]
    if state["patched"] and tree.path.exists():
        listed = trees / f".{name}.patched.part"
        listed.write_text("\n".join(state["patched"]), encoding="utf-8")
        copies.append(["rsync", "-a", "--ignore-missing-args", f"--files-from={listed}", f"{users}/", f"{tree.pristine_dir}/"])
    for copy in copies:
        status, output = children.run(copy)
        if status:
            raise LabError(f"copying {users} failed:\n    " + "\n    ".join(output.splitlines()[-5:]))
    if target != tree.path:
        target.rename(tree.path)
    return tree.path


def users_tree():
    """The tree HYDRA_LINUX_SRC names, or None."""
    named = os.environ.get("HYDRA_LINUX_SRC")
    if not named:
        return None
    users = pathlib.Path(named).absolute()
    if not users.is_dir():
        raise LabError(f"HYDRA_LINUX_SRC={users}: no such directory")
    version(users)
    return users


def base_tree(*where):
    """A tree of Linux in the cache, in the directory 'trees' or below (call with the lock 'kernel', or the one of that directory, held)."""
    trees = paths.cache_dir("trees", *where)
    paths.remove_parts(trees)
    users = users_tree()
    return Tree(copy_users_tree(trees, users) if users else unpack_debian(trees))
