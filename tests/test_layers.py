# SPDX-License-Identifier: GPL-2.0-only
"""The directories of the lab are floors: a module imports modules of the same floor or below, without a cycle."""
import ast
import pathlib

import pytest

LAB = pathlib.Path(__file__).resolve().parent.parent / "lab"
FLOORS = ["", "kernel", "machine", "package", "measure", "test", "verbs"]


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
