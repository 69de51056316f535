# SPDX-License-Identifier: GPL-2.0-only
"""./hydra kernel: from the sources to a bzImage.

An image is kept under the hash of all inputs: a second call without a change finds the image and builds nothing; an image is
moved into place whole or not at all; a build of another working copy does not remove the image of a running machine.
"""
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import time

from lab import children, paths, progress
from lab.errors import LabError
from lab.kernel import kconfig, source

KEEP_IMAGES = 6               # per configuration
FULL_BUILD_STEPS = {"lab": 2060, "debug": 2110, "kcsan": 2110, "off": 2040}    # until the first full build has counted the steps
SPENT = {"seconds": 0.0}      # that this ./hydra has built kernels
OWN = "+own"                  # ends the label of a configuration with a user's options on top
STEP = re.compile(r"^  ([A-Z][A-Z0-9_]+) +(\S+)")

# The image does not depend on the user, the host and the date of the build.
BUILD_ENVIRONMENT = {"KBUILD_BUILD_USER": "hydra", "KBUILD_BUILD_HOST": "lab", "LC_ALL": "C.UTF-8",
                     "KBUILD_BUILD_TIMESTAMP": "2024-11-17 00:00:00"}


def cpus():
    return len(os.sched_getaffinity(0))


def make_environment():
    # ccache uses only the directories of the cache, so compiled objects stay valid if a tree moves.
    return dict(os.environ, **BUILD_ENVIRONMENT, CCACHE_DIR=str(paths.cache_dir("ccache")), CCACHE_MAXSIZE="5G",
                CCACHE_NOHASHDIR="1", CCACHE_COMPRESS="1", CCACHE_BASEDIR=str(paths.cache()))


def make_command(tree, objects, *targets):
    return ["nice", "-n", "5", "make", "-C", str(tree), f"O={objects}", "CC=ccache gcc", "HOSTCC=ccache gcc",
            f"-j{cpus()}", *targets]


def users_fingerprint(users):
    """Name, size and date of every file of a user's tree."""
    digest = hashlib.sha256()
    for directory, names, files in os.walk(users):
        names[:] = sorted(name for name in names if name != ".git")
        for name in sorted(files):
            status = os.lstat(os.path.join(directory, name))
            digest.update(f"{directory}/{name} {status.st_size} {status.st_mtime_ns}\n".encode(errors="replace"))
    return digest.hexdigest()


def image_key(config, own=()):
    """The hash of all inputs of an image; own: a user's options on top of the configuration."""
    return inputs_key(kconfig.merged(config, own), has_faults(config, own))


def inputs_key(options, faults=False):
    """The hash of all inputs of a build with the options."""
    digest = hashlib.sha256()
    users = source.users_tree()
    digest.update((users_fingerprint(users) if users else source.debian_version()).encode())
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False).stdout
    digest.update(compiler.encode() + kconfig.text(options).encode())
    files = [source.OURS / name for name in source.overlay_files() if not name.startswith(("Documentation/", "tools/"))]
    for path in files + source.hook_series() + ([source.OURS / source.FAULTS, *source.delays()] if faults else []):
        digest.update(str(path.relative_to(source.OURS)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def has_faults(config, own=()):
    """Whether kernels of the configuration can break rules."""
    return kconfig.merged(config, own).get("HYDRA_MM_INJECT") == "y"


def complain(config, refused, _made):
    """The error for a configuration of the lab that Kconfig changed."""
    listed = "\n    ".join(f"CONFIG_{name}={value} became {got}" for name, value, got in refused)
    raise LabError(f"Kconfig did not take over these options of the configuration '{config}':\n    {listed}",
                   "Set what they depend on in lab/kernel/configs/, or remove them there.")


def complain_of(own, base):
    """The same for a configuration of the lab with a user's options on top: whose option was lost, and what to write."""
    def complain_of_own(_label, refused, _made):
        lost = [(name, value, got) for name, value, got in refused if name in own]
        others = [entry for entry in refused if entry not in lost]
        said, todo = [], []
        if lost:
            said += ["these options of --config-file:", *(f"  CONFIG_{name}={value} became {got}" for name, value, got in lost)]
            todo.append("Also set what they depend on in the file (the kernel's Kconfig files say what), or remove them.")
        if any(value == "m" for _, value, _ in lost):
            todo.append("The lab's kernels have no modules: write y for m.")
        if others:
            said += [f"these options of the configuration '{base}', which the file changes:",
                     *(f"  CONFIG_{name}={value} became {got}" for name, value, got in others)]
            todo += ["If the file means that, it has to say so:", *kconfig.text({name: got for name, _, got in others}).splitlines()]
        raise LabError("Kconfig did not take over\n    " + "\n    ".join(said), "\n  ".join(todo))
    return complain_of_own


def configure(tree, objects, config, wanted=None, on_refusal=complain):
    """Write .config in the object directory if changed; name the options that Kconfig did not take.

    Wanted: the options, if other than all options of the configuration. On_refusal raises the error for options that Kconfig did
    not take.
    """
    wanted = kconfig.merged(config) if wanted is None else wanted
    fragment, stamp = objects / "wanted.config", objects / ".config"
    kconfigs = hashlib.sha256()
    for path in sorted(source.OURS.rglob("Kconfig*")) + source.hook_series() + [source.OURS / source.FAULTS]:
        kconfigs.update(path.read_bytes())
    text = f"# Kconfig files: {kconfigs.hexdigest()}\n{kconfig.text(wanted)}"
    if stamp.exists() and fragment.exists() and fragment.read_text(encoding="utf-8") == text:
        return
    fragment.unlink(missing_ok=True)
    merged = objects / "merged.config"
    merged.write_text(kconfig.text(wanted), encoding="utf-8")
    environment = dict(make_environment(), KCONFIG_ALLCONFIG=str(merged))
    children.logged("configuring the kernel", make_command(tree, objects, "allnoconfig"),
                    paths.cache_dir("logs") / f"configure-{config}.log", env=environment)
    made = kconfig.parse((objects / ".config").read_text(encoding="utf-8"), ".config")
    refused = kconfig.refused(wanted, made)
    ours = [entry for entry in refused if entry[0].startswith("HYDRA")]
    if ours and not source.hook_series():
        progress.say("the hook series is empty: this is Linux without Hydra")
        refused = [entry for entry in refused if entry not in ours]
    if refused:
        on_refusal(config, refused, made)
    fragment.write_text(text, encoding="utf-8")


def compile_image(tree, objects, config):
    """Run make for the whole kernel."""
    counted = objects / "steps"
    fresh = not (objects / "vmlinux.a").exists()
    total = None
    if fresh:
        total = int(counted.read_text()) if counted.exists() else FULL_BUILD_STEPS[config.removesuffix(OWN)]
    steps = run_make(tree, objects, config, ["bzImage"], total)
    if fresh:
        counted.write_text(str(steps))
    return steps


def run_make(tree, objects, config, targets, total=None):
    """Run make, show the progress, keep the log; returns the number of steps."""
    log = paths.cache_dir("logs") / f"build-{config}.log"
    steps = 0

    def count(line):
        nonlocal steps
        if match := STEP.match(line):
            steps += 1
            bar.advance(1, match[2])
    with progress.counting(f"building the kernel ({config})", total) as bar:
        children.logged("building the kernel", make_command(tree, objects, *targets), log, count, env=make_environment())
    return steps


def store_image(objects, key, config):
    """Move the image into the store; whole or not at all."""
    images = paths.cache_dir("images")
    part, final = images / f".{config}-{key}.part", images / f"{config}-{key}"
    if final.exists():               # our files changed back and forth during the build
        return final / "bzImage"
    part.mkdir()
    shutil.copyfile(objects / "arch/x86/boot/bzImage", part / "bzImage")
    shutil.copyfile(objects / ".config", part / "config")
    shutil.copyfile(objects / "System.map", part / "System.map")
    part.rename(final)
    old = sorted(images.glob(f"{config}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for image in old[KEEP_IMAGES:]:
        shutil.rmtree(image)
    return final / "bzImage"


def objects_of(tree_path, config):
    """Where a configuration of a tree is built."""
    return paths.cache_dir("builds", f"{tree_path.name}-{config}")


def tree():
    """The kernel tree with our current files and hooks."""
    with paths.locked("kernel"):
        base = source.base_tree()
        base.lay()
        return base.path


def lay(base, config, own=()):
    """Bring our files into the tree; returns (image key, files changed).

    A user may edit files meanwhile, so repeat until the key matches the files in the tree.
    """
    changed = 0
    while True:
        key = image_key(config, own)
        changed += base.lay(faults=has_faults(config, own))
        if image_key(config, own) == key:
            return key, changed


def touched_without_hydra():
    """Compile Linux's files with hooks, with Hydra configured out; returns the objects' names."""
    with paths.locked("kernel"):
        base = source.base_tree()
        lay(base, "off")
        objects = objects_of(base.path, "off")
        configure(base.path, objects, "off")
        touched = source.linux_files(source.hook_series(), source.overlay_files())
        names = [f"{name[:-2]}.o" for name in touched if name.endswith(".c")]
        run_make(base.path, objects, "off", names)
        return names


@contextlib.contextmanager
def timed(what):
    """The block builds a kernel: say how long it took, and add the time to SPENT. Yields a dict for the number of steps."""
    start, done = time.monotonic(), {"steps": 0}
    try:
        yield done
        progress.say(f"{what} in {(time.monotonic() - start) / 60:.1f} min ({done['steps']} steps)")
    finally:
        SPENT["seconds"] += time.monotonic() - start


def kernel(config="lab", own=()):
    """The path of a current bzImage, built if need be; own: a user's options on top of the configuration."""
    label = config + OWN if own else config
    final = paths.cache() / "images" / f"{label}-{image_key(config, own)}"
    if final.exists():
        os.utime(final)
        return final / "bzImage"
    with paths.locked("kernel"):
        if final.exists():
            return final / "bzImage"
        with timed("built") as done:
            paths.remove_parts(paths.cache_dir("images"))
            base = source.base_tree()
            key, changed = lay(base, config, own)
            objects = objects_of(base.path, label)
            fresh = not (objects / "vmlinux").exists()
            if fresh:
                paths.need_space(objects, 4, "build the kernel")
            progress.say(f"Linux {source.version(base.path)}, configuration {label}: {changed} files changed in the tree")
            configure(base.path, objects, label, kconfig.merged(config, own), complain_of(own, config) if own else complain)
            done["steps"] = compile_image(base.path, objects, label)
            return store_image(objects, key, label)
