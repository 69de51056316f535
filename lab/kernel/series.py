# SPDX-License-Identifier: GPL-2.0-only
"""./hydra series: kernel/ as patches for a maintainer of Linux, made by rule.

hooks/series names the patches in their order, and cover letters: each letter begins a series of its own, which needs the
series before it. A patch has a subject, a message, and after "---" the diff of Linux's own files. A line "Brings: NAME" in the message names a new file that comes with the patch; a
NAME that ends in / stands for the files of the directory which no other line names. If a new file comes in parts, the later
patch has a diff of the file, too: the lines that the diff adds are left out of the file in earlier patches. kernel/ always
holds the complete file.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from lab import paths, progress
from lab.errors import LabError
from lab.kernel import series_cover, source

BRINGS = re.compile(r"^Brings: +(\S+)$")


@dataclasses.dataclass
class Part:
    """One patch of the series."""
    path: pathlib.Path
    subject: str
    message: str
    named: list              # the names in "Brings:" lines
    files: list = dataclasses.field(default_factory=list)     # our files that come with the patch


def read_part(path):
    head, mark, _ = path.read_text(encoding="utf-8").partition("\n---\n")
    first, _, rest = head.partition("\n")
    subject = re.match(r"Subject: (\S.*)$", first)
    if not subject or not mark:
        raise LabError(f"{path.name} is not a patch of the series: it begins with 'Subject: …', and '---' ends its message")
    lines = rest.splitlines()
    named = [match[1] for line in lines if (match := BRINGS.match(line))]
    message = "\n".join(line for line in lines if not BRINGS.match(line)).strip()
    return Part(path, subject[1], message, named)


def read_parts(ours=source.OURS):
    """The patches in order, each with the new files that come with the patch."""
    parts = [read_part(path) for path in source.hook_series(ours)]
    bringers = {}
    for part in parts:
        for name in part.named:
            if name in bringers:
                raise LabError(f"{bringers[name].path.name} and {part.path.name} both bring {name}")
            bringers[name] = part
    found = set()
    for name in source.overlay_files(ours):
        directories = [f"{parent}/" for parent in pathlib.PurePath(name).parents]
        chosen = next((candidate for candidate in [name, *directories] if candidate in bringers), None)
        if chosen is None:
            raise LabError(f"no patch of the series brings kernel/{name}", "Name it in a line 'Brings: …' of a file in kernel/hooks/.")
        found.add(chosen)
        bringers[chosen].files.append(name)
    for name in sorted(set(bringers) - found):
        raise LabError(f"{bringers[name].path.name} brings {name}, but there is no such new file under kernel/")
    return parts


def letters(ours=source.OURS):
    """{cover letter: how many patches its series has}, in order."""
    found, letter = {}, None
    for path in source.series_files(ours):
        if path.suffix == ".cover":
            letter = path
            found[letter] = 0
        elif letter is None:
            raise LabError(f"hooks/series names {path.name} before the first cover letter (a name that ends in .cover)")
        else:
            found[letter] += 1
    return found


def steps(parts, ours=source.OURS):
    """For each patch {name: text} of all our files, as after the patch."""
    with tempfile.TemporaryDirectory(prefix="hydra-series-") as directory:
        whole = pathlib.Path(directory) / "whole"
        names = [name for part in parts for name in part.files]
        for name in names:
            (whole / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ours / name, whole / name)
        made = []
        for number in range(len(parts), 0, -1):
            there = [name for part in parts[:number] for name in part.files]
            made.insert(0, {name: (whole / name).read_bytes() for name in there})
            if complaint := source.apply_patch(parts[number - 1].path, whole, names, reverse=True):
                raise LabError(f"{parts[number - 1].path.name} has a diff of a new file that is not what the file says:\n    " +
                               complaint.replace("\n", "\n    "), "Take the lines from the file under kernel/.")
        return made


def git(directory, *words, environment=None, text=None):
    """The output of git, without the user's configuration, so that the result is the same everywhere."""
    clean = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", LC_ALL="C.UTF-8", **(environment or {}))
    done = subprocess.run(["git", *words], cwd=directory, env=clean, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"git {words[0]} failed:\n    " + (done.stderr or done.stdout).strip().replace("\n", "\n    "))
    return done.stdout


def identity():
    """The environment that makes git name the caller as author and committer."""
    found = {}
    for role in ("AUTHOR", "COMMITTER"):
        asked = subprocess.run(["git", "-c", "user.useConfigOnly=true", "var", f"GIT_{role}_IDENT"], cwd=paths.REPO,
                               capture_output=True, text=True, check=False)
        match = re.match(r"(.+) <(.+)> \d+", asked.stdout)
        if asked.returncode or not match:
            raise LabError("git knows no name and address of yours: the patches need an author and a Signed-off-by",
                           "git config --global user.name 'Your Name' && git config --global user.email you@example.org")
        found |= {f"GIT_{role}_NAME": match[1], f"GIT_{role}_EMAIL": match[2]}
    return found


def write_texts(directory, texts):
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(text)


def linux_texts(parts, ours, scratch):
    """(version, Linux's own files that the series changes, the files as the lab builds them): the last two are {name:
    text}."""
    files, patches = source.overlay_files(ours), [part.path for part in parts]
    with paths.locked("kernel"):
        tree = source.base_tree()
        names = tree.patched_files(patches, scratch, files)
        before = {name: tree.pristine(name).read_bytes() for name in names if tree.pristine(name).exists()}
        version = source.version(tree.path)
    after = {name: (scratch / name).read_bytes() for name in names if (scratch / name).exists()}
    return version, before, after | {name: (ours / name).read_bytes() for name in files}


def new_repository(directory, texts, title, author):
    directory.mkdir()
    git(directory, "init", "--quiet", "--initial-branch=linux")
    write_texts(directory, texts)
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", title, environment=author)


def commit_parts(repository, parts, ours, author):
    """One commit for each patch."""
    linuxs = source.linux_files([part.path for part in parts], source.overlay_files(ours))
    for part, texts in zip(parts, steps(parts, ours)):
        source.apply_patch(part.path, repository, linuxs)        # the patch applied when the lab's files were made
        write_texts(repository, texts)
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--no-verify", "--signoff", "--cleanup=verbatim", "-F", "-", environment=author,
            text=f"{part.subject}\n\n{part.message}\n")


def check(patches, before, after, scratch, author):
    """Apply the patches with git am to Linux's texts; what comes out has to be what the lab builds."""
    new_repository(scratch, before, "Linux", author)
    git(scratch, "am", "--quiet", "--empty=drop", *map(str, patches), environment=author)
    made = {str(path.relative_to(scratch)): path.read_bytes() for path in scratch.rglob("*")
            if path.is_file() and path.relative_to(scratch).parts[0] != ".git"}
    if different := sorted(name for name in {*made, *after} if made.get(name) != after.get(name)):
        raise LabError(f"the series does not make what the lab builds of these files: {', '.join(different)}")


def write(target, results=(), ours=source.OURS):
    """Write each series to a directory of its own in an empty one; returns the names, of each series its cover letter first."""
    target = pathlib.Path(target)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise LabError(f"{target} is not empty", "Name a new directory, or empty this one.")
    except OSError as error:
        raise LabError(f"cannot make the directory {target}: {error.strerror}") from error
    author = identity()
    parts = read_parts(ours)
    covers = [(letter.stem, count, series_cover.text(letter, results)) for letter, count in letters(ours).items()]
    with tempfile.TemporaryDirectory(prefix="hydra-series-") as name:
        scratch = pathlib.Path(name)
        (scratch / "built").mkdir()
        version, before, after = linux_texts(parts, ours, scratch / "built")
        new_repository(scratch / "made", before, f"Linux {version}", author)
        commit_parts(scratch / "made", parts, ours, author)
        done, made = 0, []
        for name, count, (subject, text) in covers:
            first = f"HEAD~{len(parts) - done}"
            done += count
            git(scratch / "made", "format-patch", "--quiet", "--cover-letter", "--numbered", "--zero-commit", "--no-signature",
                f"{first}..HEAD~{len(parts) - done}", "-o", str(scratch / "out" / name), environment=author)
            patches = sorted((scratch / "out" / name).iterdir())
            series_cover.fill_in(patches[0], subject, text.replace("@BASE@", f"Linux {version}"))
            made += patches
        check(made, before, after, scratch / "applied", author)
        shutil.copytree(scratch / "out", target, dirs_exist_ok=True)
    progress.say(f"{len(parts)} patches in {len(covers)} series for Linux {version}: git am --empty=drop {target}/*/*.patch")
    return [f"{patch.parent.name}/{patch.name}" for patch in made]


def series_verb(arguments):
    for name in write(arguments.directory, arguments.results):
        print(name)
    return 0
