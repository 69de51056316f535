# SPDX-License-Identifier: GPL-2.0-only
"""The directories of the lab are floors: a module imports modules of the same floor or below, without a cycle."""
import ast
import pathlib
import re

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
LAB = REPO / "lab"
FLOORS = ["", "guest", "kernel", "machine", "package", "measure", "meter", "bench", "here", "test", "verbs"]


def floor(path):
    return FLOORS.index(path.parts[0] if len(path.parts) > 1 else "")


def imports(path):
    """The modules of the lab that a file imports, at the top level or late, as paths in the lab."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lab":
            for name in node.names:
                within = "/".join(node.module.split(".")[1:])
                named = [pathlib.Path(f"{within}.py"), pathlib.Path(within, f"{name.name}.py")]
                yield next(place for place in named if (LAB / place).exists())


MODULES = {path.relative_to(LAB): set(imports(path)) for path in LAB.rglob("*.py") if path.name != "__init__.py"}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_imports_nothing_from_above(module):
    if module.name != "cli.py":          # the command line starts whatever there is
        assert not [other for other in MODULES[module] if floor(other) > floor(module)]


def test_no_module_imports_itself_by_way_of_others():
    left = dict(MODULES)
    while ready := [module for module, needs in left.items() if not needs & set(left)]:
        for module in ready:
            del left[module]
    assert not left


def test_the_document_has_the_floors_in_their_order():
    table = (REPO / "docs/lab.md").read_text(encoding="utf-8").partition("| directory of `lab/` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)/` \|", table, re.M) == ["lab", *FLOORS[1:]]


def test_what_runs_in_a_machine_runs_alone():
    inside = [path for path in MODULES if path.name.startswith("guest_")]
    assert len(inside) > 6 and [path for path in inside if MODULES[path]] == []
    assert [path for path, needs in MODULES.items() if needs & set(inside)] == []


def test_files_of_the_lab_that_strings_and_comments_name_are_there():
    """A machine is given many of them by their paths."""
    texts = {path: path.read_text(encoding="utf-8") for top in ("lab", "tests", "workloads", "tools") for path in (REPO / top).rglob("*")
             if path.suffix in (".py", ".sh", ".c", ".h")}
    named = {(path.name, name) for path, text in texts.items() for name in re.findall(r"(?<![\w/.-])lab/[\w/-]+\.(?:py|sh|c|patch|txt|config)\b", text)}
    assert len(named) > 20 and [(path, name) for path, name in named if not (REPO / name).exists()] == []
