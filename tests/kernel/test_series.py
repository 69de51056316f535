# SPDX-License-Identifier: GPL-2.0-only
"""./hydra series: every file and hook in one patch, in an order a maintainer takes, and the lab's tree as the result."""
import json
import os
import re
import subprocess

import pytest

from lab import paths
from lab.errors import LabError
from lab.kernel import series, series_cover, series_steps, source

FAULT = "int fault(void)\n{\n\treturn 0;\n}\n"
PREPARE = """\
Subject: mm: Return late

One reason.
---
--- a/mm/fault.c
+++ b/mm/fault.c
@@ -3 +3,2 @@
+\tint late;
 \treturn 0;
"""
FILL = """\
Subject: mm/hydra: Fill

It fills.

Brings: mm/hydra/
---
--- a/mm/fault.c
+++ b/mm/fault.c
@@ -2,2 +2,3 @@
 {
+\thydra_fault();
 \tint late;
"""
PLACE = """\
Subject: mm/hydra: Place

Brings: mm/hydra/place.c
---
--- a/mm/hydra/fill.c
+++ b/mm/hydra/fill.c
@@ -1 +1,2 @@
 int fill;
+int place;
"""
COVER = "Subject: mm: All of it\n\nBefore.\n\n@RESULTS@\n\nFor @BASE@.\n"


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """A tiny kernel/ and a tiny Linux in the cache."""
    linux = tmp_path / "linux"
    for name, text in {"Makefile": "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 34\n", "mm/fault.c": FAULT}.items():
        (linux / name).parent.mkdir(parents=True, exist_ok=True)
        (linux / name).write_text(text)
    monkeypatch.setenv("HYDRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HYDRA_LINUX_SRC", str(linux))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    (tmp_path / "gitconfig").write_text("[user]\nname = A Caller\nemail = caller@example.org\n[commit]\ngpgsign = true\n")
    kernel = tmp_path / "kernel"
    put(kernel, {"mm/hydra/fill.c": "int fill;\nint place;\n", "mm/hydra/place.c": "int where;\n", "hooks/prepare.patch": PREPARE,
                 "hooks/fill.patch": FILL, "hooks/place.patch": PLACE, "hooks/1-mm.cover": COVER, "hooks/2-place.cover": "Subject: mm: Place\n\nMore, for @BASE@.\n",
                 "hooks/series": "1-mm.cover\nprepare.patch\nfill.patch\n2-place.cover  # last\nplace.patch\n"})
    return kernel


def put(directory, texts):
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def git(directory, *words):
    return subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True, text=True).stdout


def test_the_series_makes_the_labs_tree_step_by_step(ours, tmp_path):
    names = series.write(tmp_path / "out", ours=ours)
    assert names == ["1-mm/0000-cover-letter.patch", "1-mm/0001-mm-Return-late.patch", "1-mm/0002-mm-hydra-Fill.patch",
                     "2-place/0000-cover-letter.patch", "2-place/0001-mm-hydra-Place.patch"]
    clone = tmp_path / "clone"
    put(clone, {"mm/fault.c": FAULT})
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "-c", "commit.gpgsign=false", "commit", "-qm", "Linux")
    git(clone, "-c", "commit.gpgsign=false", "am", "-q", "--empty=drop", *(str(tmp_path / "out" / name) for name in names))
    assert git(clone, "show", "HEAD~1:mm/hydra/fill.c") == "int fill;\n"
    assert git(clone, "ls-tree", "-r", "--name-only", "HEAD~1").split() == ["mm/fault.c", "mm/hydra/fill.c"]
    assert "hydra" not in git(clone, "show", "HEAD~2").lower()
    tree = source.Tree(source.copy_users_tree(paths.cache_dir("trees"), source.users_tree()))
    tree.lay(ours)
    for name in ("mm/fault.c", "mm/hydra/fill.c", "mm/hydra/place.c"):
        assert (clone / name).read_text() == (tree.path / name).read_text()
    assert git(clone, "log", "-1", "--format=%an <%ae>%n%B") == \
        "A Caller <caller@example.org>\nmm/hydra: Place\n\nSigned-off-by: A Caller <caller@example.org>\n\n"


@pytest.mark.parametrize("changed, says", [
    ({"mm/hydra/new.c": "", "hooks/fill.patch": FILL.replace("mm/hydra/\n", "mm/hydra/fill.c\n")}, "no patch of the series brings kernel/mm/hydra/new.c"),
    ({"hooks/place.patch": PLACE.replace("place.c\n-", "\n-")}, "fill.patch and place.patch both bring mm/hydra/"),
    ({"hooks/place.patch": PLACE.replace("/place.c", "/gone.c")}, "place.patch brings mm/hydra/gone.c, but there is no such"),
    ({"hooks/place.patch": PLACE.replace("+int place", "+int other")}, "place.patch has a diff of a new file that is not what the file says"),
    ({"hooks/place.patch": PLACE.replace("Subject: ", "")}, "place.patch is not a patch of the series"),
    ({"hooks/place.patch": PLACE.replace("\n---\n", "\n", 1)}, "place.patch is not a patch of the series"),
    ({"hooks/fill.patch": FILL.replace("int late", "int early")}, "fill.patch does not apply to Linux 6.12.34"),
    ({"hooks/2-place.cover": "mm: Place\n\nNo subject.\n"}, "is no cover letter"),
    ({"hooks/series": "prepare.patch\n1-mm.cover\nfill.patch\nplace.patch\n"}, "before the first cover letter"),
    ({"../out/old.patch": ""}, "out is not empty"),
    ({"../gitconfig": ""}, "(?s)git knows no name and address of yours.*git config --global user.name")])
def test_what_is_wrong_is_named_and_nothing_is_written(ours, tmp_path, changed, says):
    put(ours, changed)
    with pytest.raises(LabError, match=says):
        series.write(tmp_path / "out", ours=ours)
    assert not list((tmp_path / "out").glob("*/0*"))


@pytest.mark.parametrize("word, instead", [("+int where;", "+int nowhere;"), ("+\thydra_fault();", "+\thydra_fault( );")])
def test_a_series_that_makes_other_files_is_not_written(ours, tmp_path, monkeypatch, word, instead):
    def fill_in(cover, *_):
        for patch in cover.parent.iterdir():
            patch.write_text(patch.read_text().replace(word, instead))
    monkeypatch.setattr(series_cover, "fill_in", fill_in)
    with pytest.raises(LabError, match=r"does not make what the lab builds of these files: mm/(fault|hydra/place)\.c$"):
        series.write(tmp_path / "out", ours=ours)
    assert not list((tmp_path / "out").iterdir())


def test_each_step_is_compiled_with_hydra_off_and_when_it_can_be_on(ours, monkeypatch):
    put(ours, {"mm/hydra/Kconfig": "config HYDRA_MM\n\tbool\n\nconfig HYDRA_MM_KUNIT_TEST\n\tbool\n", "hooks/place.patch": PLACE + """\
--- a/mm/hydra/Kconfig
+++ b/mm/hydra/Kconfig
@@ -3,0 +4,2 @@
+config HYDRA_MM_KUNIT_TEST
+\tbool
"""})
    trees = paths.cache_dir("trees")
    labs = source.Tree(source.copy_users_tree(trees, source.users_tree()))
    labs.lay(ours)
    put(trees / "series" / labs.path.name, {"mm/left.c": "by a call that was killed"})
    before = {path: path.read_bytes() for path in [*labs.path.rglob("*.*"), *labs.pristine_dir.rglob("*.*")]}
    seen, symbols = [], [""]

    def configure(tree, objects, label, wanted):
        assert wanted["WERROR"] == "y" and objects.name == f"{tree.name}-series-{label.rpartition('-')[2]}"
        assert tree != labs.path and not (tree / "mm/left.c").exists() and (label in ("series-01-off", "series-02-on") or list(objects.iterdir()))
        seen.append((label, wanted["HYDRA_MM"] if "HYDRA_MM" in wanted else "", "HYDRA_MM_KUNIT_TEST" in wanted,
                     (tree / "mm/hydra/place.c").exists(), "hydra" in (tree / "mm/fault.c").read_text()))

    def run_make(_tree, objects, label, targets):
        assert "kernel/sched/core.o" in targets and ("mm/fault.o" in targets) == (label == "series-01-off") == ("mm/" not in targets)
        (objects / f"compiled-{label}").touch()
        if label == "series-02-on":
            raise LabError("fill.c:1: error")
    monkeypatch.setattr(series_steps.build, "configure", configure)
    monkeypatch.setattr(series_steps.build, "run_make", run_make)
    monkeypatch.setattr(series_steps, "missing_symbols", lambda *_: ["hydra_gone"] if seen[-1][0] == "series-03-on" else [])
    outcomes = series_steps.each_step(ours)
    assert seen == [("series-01-off", "", False, False, False), ("series-02-off", "n", False, False, True), ("series-02-on", "y", False, False, True),
                    ("series-03-off", "n", True, True, True), ("series-03-on", "y", True, True, True)]
    assert outcomes == [("step 1 of 3, prepare.patch, Hydra off", ""), ("step 2 of 3, fill.patch, Hydra off", ""),
                        ("step 2 of 3, fill.patch, Hydra on", "fill.c:1: error"), ("step 3 of 3, place.patch, Hydra off", ""),
                        ("step 3 of 3, place.patch, Hydra on", "needed and defined nowhere: hydra_gone")]
    assert {path: path.read_bytes() for path in before} == before and not (trees / "series").exists()


@pytest.mark.parametrize("line, options, wanted", [
    ("obj-$(CONFIG_DIRTY) += dirty.o", "CONFIG_DIRTY=y", True), ("obj-$(CONFIG_DIRTY) += dirty.o", "CONFIG_DIRTY=m", True),
    ("obj-$(CONFIG_DIRTY) += dirty.o", "# CONFIG_DIRTY is not set", False), ("obj-$(CONFIG_DIRTY)\t+= other.o dirty.o", "", False),
    ("obj-$(CONFIG_DIRTY) += not-dirty.o", "", True), ("obj-y += dirty.o", "", True)])
def test_what_a_configuration_leaves_out_is_not_compiled(tmp_path, line, options, wanted):
    put(tmp_path, {"mm/Makefile": f"{line}\n", ".config": f"{options}\n"})
    assert series_steps.is_configured(tmp_path, tmp_path, "mm/dirty.o") == wanted
    assert series_steps.is_configured(tmp_path, tmp_path, "fs/")


def up_to(name):
    """(a patch of the real series, all patches up to it, our files that have come with them)."""
    parts = series.read_parts()
    number = [entry.path.stem for entry in parts].index(name) + 1
    return parts[number - 1], parts[:number], [file for entry in parts[:number] for file in entry.files]


def test_what_a_step_compiles_are_the_files_that_the_patches_so_far_change():
    wanted = series_steps.targets(*up_to("ldt")[1:])
    assert {"arch/x86/kernel/ldt.o", "mm/memory.o", "kernel/sched/core.o"} <= set(wanted)
    assert not {"arch/x86/kvm/vmx/nested.o", "mm/", "fs/proc/hydra.o", "arch/x86/mm/hydra/"} & set(wanted)
    on = series_steps.targets(*up_to("build")[1:], {"HYDRA_MM"})
    assert {"fs/proc/hydra.o", "arch/x86/mm/hydra/"} <= set(on) and [name for name in on if name.startswith(("arch/x86/mm/hydra/", "tools/"))] == ["arch/x86/mm/hydra/"]


def test_at_the_end_of_a_series_whole_directories_are_compiled():
    wanted = series_steps.targets(*up_to("kvm-build")[1:], {"HYDRA_MM"}, whole=True)
    assert {"mm/", "arch/x86/mm/", "fs/proc/", "kernel/fork.o", "fs/exec.o", "arch/x86/kernel/ldt.o", "arch/x86/kvm/vmx/nested.o"} <= set(wanted)
    assert [name for name in wanted if name.endswith(".o") and name.startswith(("mm/", "arch/x86/mm/", "fs/proc/"))] == []


def test_files_of_kvm_are_compiled_once_their_option_exists():
    options = series_steps.options_of(source.OURS)
    assert {"HYDRA_MM", "KVM_HYDRA"} <= options
    ours = ("arch/x86/kvm/hydra/trees.o", "arch/x86/kvm/hydra/key.o")
    assert [set(ours) <= set(series_steps.targets(*up_to("kvm-expose")[1:], given)) for given in (options, {"HYDRA_MM"}, ())] == [True, False, False]


@pytest.mark.parametrize("name, options, whole, expected", [
    ("domains", (), False, []), ("tlb", (), False, ["off"]), ("build", ["HYDRA_MM"], False, ["off", "on"]), ("eager", ["HYDRA_MM"], False, ["on"]),
    ("interface-headers", (), False, ["off"]), ("documentation", ["HYDRA_MM"], False, []), ("selftests", ["HYDRA_MM"], False, []),
    ("selftests", ["HYDRA_MM"], True, ["off", "on"]), ("kvm-build", ["HYDRA_MM"], False, ["off", "on"])])
def test_a_step_is_compiled_in_the_ways_for_which_it_changes_anything(name, options, whole, expected):
    assert series_steps.states(up_to(name)[0], options, whole) == expected


def test_what_linuxs_files_include_of_our_directories_counts_for_a_kernel_without_hydra():
    found, ours = set(), source.overlay_files()
    for entry in series.read_parts():
        for text in re.split(r"(?m)^(?=--- )", diffs(entry)):
            name = re.search(r"^\+\+\+ b/(\S+)$", text, re.M)
            found |= {os.path.normpath(f"{os.path.dirname(name[1])}/{file}") for file in re.findall(r'^\+#include "(.+)"', text, re.M) if name and name[1] not in ours}
    assert "arch/x86/kvm/hydra/hydra.h" in found and [name for name in found if series_steps.is_hydras_alone(name)] == []


def test_a_symbol_of_hydra_in_kvm_without_its_option_is_named(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(series_steps.build, "configure", lambda *found: seen.append(found[3]["KVM_HYDRA"]))
    monkeypatch.setattr(series_steps.build, "run_make", lambda *found: seen.append(found[3]))
    monkeypatch.setattr(series_steps, "symbols", lambda *_: [("hydra_vm_key", "U"), ("hydra_vm_key", "D")])
    assert series_steps.without_kvms(source.Tree(tmp_path), tmp_path) == "hydra_vm_key" and seen == ["n", ["arch/x86/kvm/"]]


def test_a_symbol_of_hydra_that_no_object_defines_is_missed(tmp_path):
    put(tmp_path, {"mm/a.c": "int hydra_b(void); int hydra_c(void); int other(void);\nint hydra_a(void) { return hydra_b() + hydra_c() + other(); }\n",
                   "fs/b.c": "int hydra_b(void) { return 0; }\n"})
    for name in ("mm/a", "fs/b"):
        subprocess.run(["gcc", "-c", "-o", tmp_path / f"{name}.o", tmp_path / f"{name}.c"], check=True)
    subprocess.run(["ar", "cDPrST", "built-in.a", "a.o"], cwd=tmp_path / "mm", check=True)
    assert series_steps.missing_symbols(tmp_path, ["mm/", "fs/b.o"]) == ["hydra_c"]
    assert series_steps.missing_symbols(tmp_path, ["fs/b.o"]) == []
    with pytest.raises(LabError, match="nm failed"):
        series_steps.missing_symbols(tmp_path, ["fs/gone.o"])


def test_the_cover_letter_has_the_tables_of_the_readme_or_of_results(ours, tmp_path):
    put(tmp_path, {"demo.json": '[{"row": "munmap", "case": "quiet", "policy": "linux", "metric": "us_per_op", "value": 58.824, "unit": "µs"},'
                                '{"row": "munmap", "case": "quiet", "policy": "hydra", "metric": "us_per_op", "value": 54000, "unit": "µs"}]',
                   "steps.json": '[{"nodes": 2, "policy": "off", "row": "minor-fault", "metric": "instructions", "value": 4019, "unit": "1"},'
                                 '{"nodes": 2, "policy": "off", "row": "minor-fault", "metric": "locked", "value": 7, "unit": "1"}]'})
    series.write(tmp_path / "out", [tmp_path / "demo.json", tmp_path / "steps.json"], ours)
    cover = (tmp_path / "out/1-mm/0000-cover-letter.patch").read_text(encoding="utf-8")
    assert "Subject: [PATCH 0/2] mm: All of it\nMIME-Version" in cover and "For Linux 6.12.34." in cover and "2 files changed" in cover
    assert "More, for Linux 6.12.34." in (tmp_path / "out/2-place/0000-cover-letter.patch").read_text(encoding="utf-8")
    assert "                             linux   hydra\nmunmap quiet  us_per_op, µs  58.82  54,000\n" in cover
    assert "2 nodes:\n\n                                off\nminor-fault  instructions, 1  4,019\n" in cover and "locked" not in cover
    assert series_cover.in_readme("Words.\n\n```\n┏━━┓\n┃ a┃\n└──┘\n```\n\nIn `this` [table](x):\n\n| a | b |\n| --- | ---: |\n| **long** | 1.5 |\n\n| c |\n| --- |\n| 2 |\n") == \
        ["+--+\n| a|\n+--+", "In this table:", "a       b\nlong  1.5", "c\n2"]
    value = {"row": "munmap", "case": "quiet", "policy": "linux", "metric": "us_per_op", "unit": "µs"}
    (tmp_path / "runs.json").write_text(json.dumps([{**value, "value": seen, "run": run} for run, seen in enumerate((5, 70, 6), 1)]))
    assert series_cover.measured(tmp_path / "runs.json")[0].endswith("us_per_op, µs      6")
    for text in ("", "[1]", "{}", '[{"row": 1}]'):
        (tmp_path / "demo.json").write_text(text)
        with pytest.raises(LabError, match="holds no results"):
            series_cover.measured(tmp_path / "demo.json")


# The real series.
INCLUDE = re.compile(r'^\+#include <((?:linux|asm|trace/events)/hydra\w*\.h)>', re.M)


def diffs(part):
    return part.path.read_text(encoding="utf-8").partition("\n---\n")[2]


def brought():
    """By new file, the number of the patch with the file."""
    return {name: number for number, part in enumerate(series.read_parts()) for name in part.files}


def test_the_real_series_applies_to_linux_and_makes_the_labs_tree(tmp_path, monkeypatch):
    for role in ("AUTHOR", "COMMITTER"):         # which git does not know on a bare Debian
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@b.c")
    names = series.write(tmp_path / "out")
    assert len(names) == len(series.read_parts()) + len(series.letters())


def test_each_change_of_an_entry_without_hooks_of_its_own_stands_between_the_hooks():
    """On x86, ptep_modify_prot_start() and _commit() change the canonical entry alone."""
    tree, start = source.base_tree(), re.compile(r"(?<!\w)ptep_modify_prot_start\(")
    found = subprocess.run(["grep", "-rlw", "--include=*.c", "ptep_modify_prot_start", "mm", "fs", "kernel", "drivers", "virt", "arch/x86/mm", "arch/x86/kernel"],
                           cwd=tree.path, capture_output=True, text=True, check=True).stdout.split()
    calls = {name: len(start.findall(tree.pristine(name).read_text(encoding="utf-8"))) for name in found if not name.endswith("paravirt.c")}
    hooks = dict.fromkeys(calls, 0)
    for patch in source.hook_series():
        for text in re.split(r"(?m)^(?=diff --git )", patch.read_text(encoding="utf-8")):
            for name in calls:
                hooks[name] += text.startswith(f"diff --git a/{name} ") and len(re.findall(r"^\+.*hydra_change_begin\(", text, re.M))
    assert len(calls) >= 4 and hooks == calls


# What comes last and apart: it can be left out.
APART = ["filter-entry.patch", "filter-accessed.patch", "filter-auto.patch", "eager.patch", "cores.patch", "groups.patch", "kvm-follow.patch", "kvm-expose.patch"]
OWN_LINES = 100              # of our files, that stand in a patch, too


def test_what_prepares_linux_comes_first_and_the_option_of_a_series_when_its_files_are_there():
    parts = series.read_parts()
    first = next(number for number, part in enumerate(parts) if part.files)
    assert first >= 7
    assert [part.path.name for part in parts[:first] if re.search("hydra", part.subject + part.message + diffs(part), re.I)
            or not part.message.endswith("No functional change.")] == []
    names = [part.path.name for part in parts]
    order = [names.index(name) for name in ("build.patch", *APART[:5], "documentation.patch", "kvm-trees.patch", "kvm-build.patch", *APART[5:])]
    assert order == sorted(order)
    place = brought()
    late = {name for name, number in place.items() if number > place["arch/x86/mm/hydra/Kconfig"]
            and not name.startswith(("Documentation/", "tools/", "arch/x86/kvm/", "include/linux/refcache.h", "lib/refcache/"))}
    assert late == {"arch/x86/mm/hydra/tests/settings-kunit.h", "arch/x86/mm/hydra/vm.c", "arch/x86/mm/hydra/vm_limit.c", *parts[names.index("groups.patch")].files,
                    "arch/x86/mm/hydra/vm_place.c", "arch/x86/mm/hydra/tests/vm-kunit.h"}
    # KVM needs the mechanism, and the mechanism does not need KVM.
    assert all(number > names.index("build.patch") for name, number in place.items() if name.startswith("arch/x86/kvm/"))


def test_each_series_has_its_letter():
    assert [(letter.name, count > 0) for letter, count in series.letters().items()] == [("1-mm.cover", True), ("2-kvm.cover", True), ("3-guests.cover", True),
                                                                                           ("4-concurrent.cover", True), ("5-refcache.cover", True)]


def test_the_patches_for_disjoint_memory_need_no_other(tmp_path):
    """Each but the last could be sent to Linux alone."""
    names = [path.name for path in source.series_files()]
    *chosen, last = source.series_files()[names.index("4-concurrent.cover") + 1:names.index("5-refcache.cover")]
    assert len(chosen) >= 5 and last.name == "drops-by-place.patch"
    tree = source.base_tree()
    for patch in chosen:
        files = source.touched_by(patch)
        for name in files:
            (tmp_path / patch.stem / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / patch.stem / name).write_bytes(tree.pristine(name).read_bytes())
        assert source.apply_patch(patch, tmp_path / patch.stem, files) == "", patch.name
        assert "hydra" not in patch.read_text(encoding="utf-8").lower(), patch.name


def own_lines(part):
    """The lines of our files that a patch adds to what an earlier patch has brought."""
    found = []
    for text in re.split(r"(?m)^(?=diff --git )", diffs(part)):
        name = re.search(r"^\+\+\+ b/(\S+)$", text, re.M)
        if name and name[1] in brought():
            found += re.findall(r"^\+(?!\+\+ b/).*$", text, re.M)
    return found


def test_a_patch_brings_whole_files():
    """Each line of ours stands once, but for asm/hydra_tlb.h, where struct mmu_gather gets a member in between, and for the calls of what comes apart."""
    own = {part.path.name: len(lines) for part in series.read_parts() if (lines := own_lines(part))}
    assert set(own) <= {"gather.patch", *APART} and sum(own.values()) <= OWN_LINES


def test_every_header_is_there_when_linuxs_files_include_it():
    place = brought()
    for number, part in enumerate(series.read_parts()):
        for header in INCLUDE.findall(diffs(part)):
            assert place[f"arch/x86/include/{header}" if header.startswith("asm/") else f"include/{header}"] <= number


@pytest.mark.parametrize("part", series.read_parts(), ids=lambda part: part.path.stem)
def test_messages_are_as_linux_wants_them(part):
    assert re.match(r"(?:x86|mm|KVM|lib|selftests|Documentation)[\w/]*: (?:nVMX: )?[A-Z][a-z]+ ", part.subject) and len(part.subject) <= 75
    assert not part.subject.endswith(".") and part.message
    assert [line for line in part.message.splitlines() if len(line) > 75] == []
    assert not re.search(r"^(?:From|Signed-off-by|Author|Date|License):|@", part.path.read_text(encoding="utf-8").partition("\n---\n")[0]
                         .replace("@mm", ""), re.M)


@pytest.mark.parametrize("letter", series.letters(), ids=lambda letter: letter.stem)
def test_no_part_of_a_cover_letter_names_a_person(letter):
    text = letter.read_text(encoding="utf-8")
    assert not re.search(r"^(?:From|Signed-off-by|Author):|\w@\w", text, re.M)
    assert [line for line in text.splitlines() if len(line) > 75] == []
