# SPDX-License-Identifier: GPL-2.0-only
"""./hydra test --stage series: the kernel compiles after each patch, with Hydra off and, once the option exists, on.

All steps use one tree, one after the other, so that make compiles again only the files that depend on what a patch changes. A
step is compiled in each of the two ways for which it changes anything: a kernel without Hydra does not depend on the files of the
mechanism, and no kernel on documents and programs. Nothing is linked. Instead of a link, a check: every symbol of Hydra that an object
needs is defined in an object. At the end KVM is compiled with Hydra and without CONFIG_KVM_HYDRA: no object of KVM may need or
define a symbol of Hydra.
"""
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import tempfile

from lab import children, paths, progress
from lab.errors import LabError
from lab.kernel import build, kconfig, series, source

OPTION = re.compile(r"^(?:menu)?config +((?:KVM_)?HYDRA\w*|REFCACHE\w*)$", re.M)
HYDRAS = ("HYDRA_", "KVM_HYDRA", "REFCACHE")        # how the names of our options begin
KVM, KVMS = "arch/x86/kvm/", "arch/x86/kvm/hydra/"

# Compiled: each C file of Linux that a patch so far has changed, our files, and INCLUDERS, other files with a header of Linux that a
# patch changes. The compiler checks declarations and inline functions in any file that includes them, used or not. So all files of
# DIRECTORIES that include a changed header would show only what is wrong with macros, and calls that a patch has forgotten: they are
# compiled after the last patch of each series.
DIRECTORIES = ["mm/", "arch/x86/mm/", "fs/proc/"]
MECHANISM = "arch/x86/mm/hydra/"
NOT_COMPILED = ("Documentation/", "tools/")
INCLUDERS = ["init/main.c", "kernel/entry/common.c", "kernel/events/core.c", "kernel/sched/core.c", "kernel/task_work.c",
             "fs/coredump.c", "arch/x86/entry/vdso/vma.c", "arch/x86/events/core.c", "arch/x86/kernel/alternative.c",
             "arch/x86/kernel/paravirt.c", "arch/x86/kernel/process.c", "arch/x86/kernel/signal.c", "arch/x86/kernel/smp.c",
             "arch/x86/kvm/mmu/mmu.c"]


def options_of(directory):
    """Hydra's options that the new files in a directory declare."""
    return {name for path in directory.rglob("Kconfig*") for name in OPTION.findall(path.read_text(encoding="utf-8"))}


def lay_out(directory, parts, texts):
    """A directory like kernel/, with the given patches and files only."""
    series.write_texts(directory, texts)
    (directory / "hooks").mkdir(parents=True)
    for part in parts:
        shutil.copyfile(part.path, directory / "hooks" / part.path.name)
    (directory / "hooks" / "series").write_text("".join(f"{part.path.name}\n" for part in parts), encoding="utf-8")


@contextlib.contextmanager
def linked_tree():
    """A second tree beside the lab's, of hard links: a change replaces a file, so no change reaches the lab's tree."""
    home = paths.cache_dir("trees", "series")
    shutil.rmtree(home)                              # left by a killed call
    try:
        with paths.locked("kernel"):
            base = source.base_tree()
            copy = source.Tree(paths.cache_dir("trees", "series") / base.path.name)
            for old, new in ((base.path, copy.path), (base.pristine_dir, copy.pristine_dir)):
                if old.exists():
                    shutil.copytree(old, new, symlinks=True, copy_function=os.link)
            copy.remember(**base.state())
        yield copy
    finally:
        shutil.rmtree(home)


def targets(parts, texts, options=(), whole=False):
    """What make is asked for after some patches, with our files texts, and with Hydra on if options has its option.

    Our files that no directory's Makefile names: Linux's own Makefiles do. Whole: all files that are configured in DIRECTORIES.
    """
    directories = DIRECTORIES if whole else [MECHANISM] if "HYDRA_MM" in options else []
    files = {*source.linux_files([part.path for part in parts], texts), *INCLUDERS}
    files |= {name for name in texts if ("KVM_HYDRA" if name.startswith(KVMS) else "HYDRA_MM") in options and not name.startswith((MECHANISM, *NOT_COMPILED))}
    return directories + sorted(f"{name[:-2]}.o" for name in files if name.endswith(".c") and not name.startswith(tuple(directories)))


def is_hydras_alone(name):
    """Whether a kernel without Hydra does not depend on a file: Linux's files of KVM include a header of ours."""
    return name.startswith(MECHANISM) or (name.startswith(KVMS) and name.endswith(".c"))


def states(part, options, whole):
    """The ways to compile after a patch: with Hydra "off" if such a kernel depends on one of the patch's files, and "on"."""
    changed = {name for name in [*part.files, *source.touched_by(part.path)] if not name.startswith(NOT_COMPILED)}
    off = whole or any(not is_hydras_alone(name) for name in changed)
    return ["off"] * off + ["on"] * ("HYDRA_MM" in options and bool(whole or changed))


def symbols(objects, wanted):
    """(name, kind) of each symbol of Hydra in objects."""
    archives = [f"{name}built-in.a" if name.endswith("/") else name for name in wanted]
    status, output = children.run(["nm", "--portability", "--quiet", *archives], cwd=objects)
    if status:
        raise LabError(f"nm failed:\n    {output.strip()}")
    found = [line.split()[:2] for line in output.splitlines() if len(line.split()) > 1]
    return [(name, kind) for name, kind in found if "hydra" in name]


def missing_symbols(objects, wanted):
    """Hydra's symbols that an object needs and no object defines."""
    found = symbols(objects, wanted)
    return sorted({name for name, kind in found if kind in "Uvw"} - {name for name, kind in found if kind not in "Uvw"})


def each_step(ours=source.OURS):
    """Compile after each patch of the series that changes anything, with Hydra off and, from the patch that adds the option, on.

    Returns the steps as (name, complaint or an empty string).
    """
    parts = series.read_parts(ours)
    ends = set(itertools.accumulate(series.letters(ours).values()))
    outcomes = []
    with paths.locked("series"), linked_tree() as tree, tempfile.TemporaryDirectory(prefix="hydra-series-") as scratch:
        objects = {state: build.objects_of(tree.path, f"series-{state}") for state in ("off", "on")}
        for directory in objects.values():           # objects of an earlier call prove nothing; ccache saves the time
            shutil.rmtree(directory)
            directory.mkdir()
        for number, texts in enumerate(series.steps(parts, ours), 1):
            directory = pathlib.Path(scratch) / str(number)
            lay_out(directory, parts[:number], texts)
            tree.lay(directory)
            options, whole = options_of(directory), number in ends
            for state in states(parts[number - 1], options, whole):
                name = f"step {number} of {len(parts)}, {parts[number - 1].path.name}, Hydra {state}"
                wanted = targets(parts[:number], texts, options if state == "on" else (), whole)
                why = compiled(tree, objects[state], f"series-{number:02}-{state}", options, wanted)
                progress.say(f"{name}: {'does not compile' if why else 'compiles'}")
                outcomes.append((name, why))
        if "KVM_HYDRA" in options:
            outcomes.append(("KVM without CONFIG_KVM_HYDRA has no symbol of Hydra", without_kvms(tree, objects["on"])))
    return outcomes


def without_kvms(tree, objects):
    """Compile KVM in the tree of all patches, with Hydra and without CONFIG_KVM_HYDRA; returns a complaint or an empty string."""
    try:
        build.configure(tree.path, objects, "series-kvm", kconfig.merged("lab") | {"KVM_HYDRA": "n", "WERROR": "y"})
        build.run_make(tree.path, objects, "series-kvm", [KVM])
        return " ".join(sorted({name for name, _ in symbols(objects, [KVM])}))
    except LabError as error:
        return str(error)


def is_configured(linux, objects, name):
    """Whether the configuration builds an object. What only drivers select is left to Debian's configurations (the stage packages)."""
    makefile = linux / pathlib.Path(name).parent / "Makefile"
    found = makefile.exists() and re.search(rf"^obj-\$\((CONFIG_\w+)\)\s*\+=.*(?<![\w-]){re.escape(pathlib.Path(name).name)}(?!\S)",
                                            makefile.read_text(encoding="utf-8"), re.M)
    return not found or re.search(rf"^{found[1]}=[ym]$", (objects / ".config").read_text(encoding="utf-8"), re.M) is not None


def compiled(tree, objects, label, options, wanted):
    """Compile in the current tree; returns a complaint or an empty string. Sets Hydra's options that the tree declares."""
    config = "lab" if label.endswith("-on") else "off"
    settings = {name: value for name, value in kconfig.merged(config).items() if not name.startswith(HYDRAS) or name in options}
    try:
        build.configure(tree.path, objects, label, settings | {"WERROR": "y"})
        wanted = [name for name in wanted if is_configured(tree.path, objects, name)]
        build.run_make(tree.path, objects, label, ["--keep-going", *wanted])
        missing = missing_symbols(objects, wanted)
    except LabError as error:
        return str(error)
    return f"needed and defined nowhere: {', '.join(missing)}" if missing else ""
