# SPDX-License-Identifier: GPL-2.0-only
"""The directories of the lab are floors: a module imports modules of the same floor or below, without a cycle."""
import ast
import pathlib
import re

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
LAB = REPO / "lab"
FLOORS = ["", "guest", "kernel", "machine", "package", "measure", "meter", "bench", "here", "papers", "test", "verbs"]


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

# The C files of the kernel, in the order of their Makefiles: what a file calls, directly or by an inline function, stands before it.
KERNEL = LAB.parent / "kernel"
DIRECTORIES = ["arch/x86/mm/hydra", "arch/x86/kvm/hydra"]


def plain(path):
    """C text without comments and strings."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def words(text):
    return set(re.findall(r"\b[A-Za-z_]\w+\b", text))


def defined(text):
    """The functions and variables that a C file gives to others."""
    functions = re.findall(r"^(?!static\b)[A-Za-z_][\w *]*?\b(\w+)\([^;{}]*\)\n\{", text, re.M)
    variables = re.findall(r"^(?!static\b|extern\b|return\b|typedef\b)(?:struct |enum |unsigned |bool |u8 |atomic)[\w *]*?\b(\w+)(?:\[[^\]]*\])*(?: __\w+)*(?: =|;)",
                           text, re.M)
    macros = re.findall(r"^DEFINE_\w+\((?:[^,()]+, )?(\w+)", text, re.M)
    return {name for name in functions + variables + macros if name.startswith(("hydra", "__hydra"))}


def inlines():
    """{name: the words of its body} of the inline functions in our headers."""
    found = {}
    for path in KERNEL.rglob("*.h"):
        if "hydra" in str(path.relative_to(KERNEL)) and "tests" not in path.parts:
            for name, body in re.findall(r"^static (?:__always_)?inline [\w *]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", plain(path), re.M | re.S):
                found[name] = words(body)
    return found


INLINES = inlines()


def used(text):
    """The words of a text, and those of all inline functions that it calls."""
    seen, left = set(), words(text)
    while left:
        word = left.pop()
        if word not in seen:
            seen.add(word)
            left |= INLINES.get(word, set())
    return seen


def order(directory):
    """The C files of a directory, as the Makefile has them."""
    text = next((KERNEL / directory).glob("Makefile*")).read_text(encoding="utf-8")
    return [f"{name}.c" for name in re.findall(r"(\w+)\.o\b", text)]


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_the_makefile_names_all_c_files(directory):
    assert sorted(order(directory)) == sorted(path.name for path in (KERNEL / directory).glob("*.c"))


@pytest.mark.parametrize("directory, name", [(directory, name) for directory in DIRECTORIES for name in order(directory)])
def test_a_c_file_calls_only_those_before_it(directory, name):
    names = order(directory)
    needs = used(plain(KERNEL / directory / name)) - defined(plain(KERNEL / directory / name))
    above = names[names.index(name) + 1:]
    assert {other: wrong for other in above if (wrong := needs & defined(plain(KERNEL / directory / other)))} == {}


@pytest.mark.parametrize("path", sorted((KERNEL / DIRECTORIES[0]).glob("*.h")), ids=lambda path: path.name)
def test_a_header_declares_what_its_own_file_defines(path):
    declared = set(re.findall(r"^(?!static\b|typedef\b|#)[A-Za-z_][\w *]*?\b(\w+)\([^;{}]*\);", plain(path), re.M)) - {"DECLARE_PER_CPU"}
    own = path.with_suffix(".c")
    assert not {name for name in declared if not name.startswith("DECLARE")} - (defined(plain(own)) if own.exists() else set())
