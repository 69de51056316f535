# SPDX-License-Identifier: GPL-2.0-only
"""Laying files and hooks over a kernel tree: right, incremental, and all or nothing."""
import os
import pathlib

import pytest

from lab.errors import LabError
from lab.kernel import source

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 34\n"
FAULT = "int fault(void)\n{\n\treturn 0;\n}\n"
HOOK = """\
Call Hydra on a fault.
--- a/mm/fault.c
+++ b/mm/fault.c
@@ -2,2 +2,3 @@
 {
+\thydra_fault();
 \treturn 0;
"""
SECOND = """\
--- a/mm/fault.c
+++ b/mm/fault.c
@@ -3,2 +3,3 @@
 \thydra_fault();
+\thydra_again();
 \treturn 0;
"""


class Kernel:
    """A tiny Linux, and our kernel/ directory."""

    def __init__(self, directory):
        self.tree = source.Tree(directory / "trees" / "linux")
        self.ours = directory / "kernel"
        self.write("Makefile", MAKEFILE)
        self.write("mm/fault.c", FAULT)
        self.write("mm/other.c", "int other;\n")
        self.ours.mkdir()

    def write(self, name, text):
        path = self.tree.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1e9, 1e9))

    def our_file(self, name, text):
        (self.ours / name).parent.mkdir(parents=True, exist_ok=True)
        (self.ours / name).write_text(text)

    def hooks(self, **patches):
        for name, text in patches.items():
            self.our_file(f"hooks/{name}.patch", text)
        self.our_file("hooks/series", "# in order\n" + "".join(f"{name}.patch\n" for name in patches))

    def text(self, name):
        return (self.tree.path / name).read_text()

    def dates(self):
        return {str(path.relative_to(self.tree.path)): path.stat().st_mtime_ns
                for path in self.tree.path.rglob("*") if path.is_file()}

    def lay(self):
        return self.tree.lay(self.ours)


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path)


def test_files_are_laid_and_hooks_applied(kernel):
    kernel.our_file("arch/x86/mm/hydra/fill.c", "int fill;\n")
    kernel.hooks(one=HOOK, two=SECOND)
    assert kernel.lay() == 2
    assert kernel.text("arch/x86/mm/hydra/fill.c") == "int fill;\n"
    assert "\thydra_fault();\n\thydra_again();\n\treturn 0;" in kernel.text("mm/fault.c")
    assert not (kernel.tree.path / "hooks").exists()


def test_a_second_time_touches_nothing(kernel):
    kernel.our_file("arch/x86/mm/hydra/fill.c", "int fill;\n")
    kernel.hooks(one=HOOK)
    kernel.lay()
    before = kernel.dates()
    assert kernel.lay() == 0
    assert kernel.dates() == before


def test_a_changed_hook_touches_only_its_file(kernel):
    kernel.our_file("arch/x86/mm/hydra/fill.c", "int fill;\n")
    kernel.hooks(one=HOOK)
    kernel.lay()
    before = kernel.dates()
    kernel.hooks(one=HOOK.replace("hydra_fault()", "hydra_other()"))
    assert kernel.lay() == 1
    assert "hydra_other" in kernel.text("mm/fault.c") and "hydra_fault" not in kernel.text("mm/fault.c")
    assert {name for name, date in kernel.dates().items() if date != before[name]} == {"mm/fault.c"}


def test_what_is_gone_from_ours_goes_from_the_tree(kernel):
    kernel.our_file("arch/x86/mm/hydra/fill.c", "int fill;\n")
    kernel.hooks(one=HOOK)
    kernel.lay()
    (kernel.ours / "arch/x86/mm/hydra/fill.c").unlink()
    kernel.hooks()
    assert kernel.lay() == 2
    assert kernel.text("mm/fault.c") == FAULT
    assert not (kernel.tree.path / "arch/x86/mm/hydra").exists()


def test_a_hook_may_add_a_file_and_take_it_back(kernel):
    kernel.hooks(new="--- /dev/null\n+++ b/mm/new.c\n@@ -0,0 +1 @@\n+int new;\n")
    kernel.lay()
    assert kernel.text("mm/new.c") == "int new;\n"
    kernel.hooks()
    kernel.lay()
    assert not (kernel.tree.path / "mm/new.c").exists()


def test_a_hook_that_does_not_apply_is_named_and_nothing_is_written(kernel):
    kernel.our_file("arch/x86/mm/hydra/fill.c", "int fill;\n")
    kernel.hooks(good=HOOK, bad=SECOND.replace("hydra_fault", "no_such_line"))
    before = kernel.dates()
    with pytest.raises(LabError) as caught:
        kernel.lay()
    assert "bad.patch" in str(caught.value) and "6.12.34" in str(caught.value) and "mm/fault.c" in str(caught.value)
    assert kernel.dates() == before
    assert not list(kernel.tree.path.parent.glob(".*"))


def test_a_hook_into_a_file_that_is_not_there_is_named(kernel):
    kernel.hooks(bad=HOOK.replace("mm/fault.c", "mm/missing.c"))
    with pytest.raises(LabError, match=r"bad\.patch.*6\.12\.34.*mm/missing\.c"):
        kernel.lay()


def test_a_series_that_names_a_missing_patch(kernel):
    kernel.our_file("hooks/series", "gone.patch\n")
    with pytest.raises(LabError, match="gone.patch, which does not exist"):
        kernel.lay()


def test_a_file_of_ours_may_not_replace_linuxs(kernel):
    kernel.our_file("mm/other.c", "int ours;\n")
    with pytest.raises(LabError, match="kernel/mm/other.c exists in Linux"):
        kernel.lay()
    assert kernel.text("mm/other.c") == "int other;\n"


def test_a_tree_left_half_changed_is_put_right(kernel, monkeypatch):
    kernel.our_file("arch/x86/mm/hydra/fill.c", "int fill;\n")
    kernel.hooks(one=HOOK)
    real = source.write_if_different

    def dies(origin, target):
        if target.name == "fill.c":
            raise KeyboardInterrupt
        return real(origin, target)
    monkeypatch.setattr(source, "write_if_different", dies)
    with pytest.raises(KeyboardInterrupt):
        kernel.lay()
    monkeypatch.undo()
    kernel.hooks()
    kernel.lay()
    assert kernel.text("mm/fault.c") == FAULT
    assert kernel.text("arch/x86/mm/hydra/fill.c") == "int fill;\n"


@pytest.mark.parametrize("makefile, says", [
    ("VERSION = 6\nPATCHLEVEL = 6\nSUBLEVEL = 1\n", "is Linux 6.6.1; Hydra needs a 6.12.y tree"),
    ("all:\n", "states no version")])
def test_another_kernel_is_refused(tmp_path, makefile, says):
    (tmp_path / "Makefile").write_text(makefile)
    with pytest.raises(LabError, match=says):
        source.version(tmp_path)


def test_a_users_tree_is_copied_and_left_alone(kernel, tmp_path):
    users = kernel.tree.path
    (users / ".config").write_text("CONFIG_SMP=y\n")
    (users / "mm/fault.o").write_text("object")
    before = kernel.dates()
    trees = tmp_path / "cache"
    trees.mkdir()
    copy = source.Tree(source.copy_users_tree(trees, users))
    kernel.our_file("arch/x86/mm/hydra/fill.c", "int fill;\n")
    kernel.hooks(one=HOOK)
    copy.lay(kernel.ours)
    assert not (copy.path / ".config").exists() and not (copy.path / "mm/fault.o").exists()
    kernel.write("mm/fault.c", FAULT.replace("return 0", "return 0 + 0"))
    with pytest.raises(LabError, match="one.patch"):
        source.Tree(source.copy_users_tree(trees, users)).lay(kernel.ours)
    kernel.write("mm/fault.c", "/* new first line */\n" + FAULT)
    source.Tree(source.copy_users_tree(trees, users)).lay(kernel.ours)
    assert (copy.path / "mm/fault.c").read_text() == "/* new first line */\n" + FAULT.replace("{\n", "{\n\thydra_fault();\n")
    assert (copy.path / "arch/x86/mm/hydra/fill.c").exists()
    kernel.write("mm/fault.c", FAULT)
    (users / "mm/fault.c").touch()
    os.utime(users / "mm/fault.c", (1e9, 1e9))
    assert kernel.dates() == before


def test_what_a_hook_says_of_a_file_of_ours_is_in_that_file_already(kernel):
    kernel.our_file("mm/hydra/fill.c", "int fill;\nint more;\n")
    kernel.hooks(one=HOOK + "--- a/mm/hydra/fill.c\n+++ b/mm/hydra/fill.c\n@@ -1 +1,2 @@\n int fill;\n+int more;\n", text="Subject: No diff\n")
    kernel.lay()
    assert kernel.text("mm/hydra/fill.c") == "int fill;\nint more;\n"
    assert "hydra_fault" in kernel.text("mm/fault.c")
    assert source.linux_files(source.hook_series(kernel.ours), source.overlay_files(kernel.ours)) == ["mm/fault.c"]


def test_the_series_names_all_the_real_hooks():
    listed = {patch.name for patch in source.hook_series()}
    in_place = {path.name for path in pathlib.Path(source.OURS / "hooks").glob("*.patch")}
    assert listed == in_place - {pathlib.Path(patch).name for patch in (source.FAULTS, source.DELAYS)}


def test_the_faults_are_laid_only_where_they_are_asked_for(kernel):
    kernel.our_file("mm/ours.c", "int x;\n")
    patch = kernel.ours / source.FAULTS
    patch.parent.mkdir(exist_ok=True)
    patch.write_text("diff --git a/mm/ours.c b/mm/ours.c\n--- a/mm/ours.c\n+++ b/mm/ours.c\n@@ -1 +1,2 @@\n int x;\n+int broken;\n")
    slow = kernel.ours / source.DELAYS
    slow.write_text(HOOK)
    before = kernel.text("mm/fault.c")
    kernel.tree.lay(kernel.ours, faults=True)
    assert kernel.text("mm/ours.c") == "int x;\nint broken;\n"
    assert "hydra_fault" in kernel.text("mm/fault.c")
    kernel.tree.lay(kernel.ours)
    assert kernel.text("mm/ours.c") == "int x;\n"
    assert kernel.text("mm/fault.c") == before
    patch.write_text(patch.read_text().replace("int x;", "int y;"))
    with pytest.raises(LabError, match="do not apply"):
        kernel.tree.lay(kernel.ours, faults=True)
    assert kernel.text("mm/ours.c") == "int x;\n"


