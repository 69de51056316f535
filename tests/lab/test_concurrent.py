# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench concurrent: the plugin, by streams of accesses; names of lines; tables, files and checks. (No machine boots here.)"""
import csv
import json
import re
import subprocess

import pytest

from lab import cli, paths
from lab.bench import verb
from lab.errors import LabError
from lab.kernel import build
from lab.machine import programs
from lab.meter import concurrent

MARKS = {"start": "0f1f8000025948", "stop": "0f1f8000035948", "row 7": "0f1f8007055948", "policy 1": "0f1f8001045948", "begin": "0f1f8000065948",
         "end": "0f1f8000075948"}
CODE = 0xffffffff81000000
MAP = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T down_write_killable
ffffffff81000100 T mas_store_prealloc
ffffffff81000200 T lock_vma_under_rcu
ffffffff81000300 t do_mprotect_pkey.part.0
ffffffff82000000 D vm_committed_as
ffffffff82000100 d other_data
"""
LOCK = 0xffff888001000000
CALLS = ["nothing", "mmap", "fault"]
TAKES, STORES, LOOKS, PROTECTS = (CODE + 0x100 * number + 8 for number in range(4))


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    made = tmp_path_factory.mktemp("conflicts") / "driver"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-I", paths.REPO / "lab/meter", "-o", made, paths.REPO / "tests/lab/conflicts_driver.c"], check=True)
    return made


@pytest.fixture
def run(driver, tmp_path):
    """The samples that the plugin takes of some lines; a mark is of CPU 1, unless the line says which."""
    def execute(*lines):
        words = [f"i {line[-1] if line[-2:] in (' 1', ' 3') else 1} {MARKS[line.removesuffix(' 3')]}" if line.removesuffix(" 3") in MARKS else line for line in lines]
        subprocess.run([driver, f"out={tmp_path / 'samples'}"], input="\n".join(words), text=True, check=True)
        return [json.loads(line) for line in (tmp_path / "samples").read_text(encoding="ascii").splitlines()]
    return execute


def pair(first, second):
    """The lines of one pair: accesses of CPU 1, then of CPU 3."""
    return ["begin", *(f"{kind} 1 {CODE + 1:x} {address:x}" for kind, address in first), "end",
            "begin 3", *(f"{kind} 3 {CODE + 2:x} {address:x}" for kind, address in second), "end 3"]


# --- the plugin

@pytest.mark.parametrize("first, second, conflicts", [
    ([("w", 0x1000)], [("r", 0x1038)], [[CODE + 1, 0x1000, 1, CODE + 2, 0x1038, 0]]),
    ([("r", 0x1000)], [("w", 0x1000)], [[CODE + 1, 0x1000, 0, CODE + 2, 0x1000, 1]]),
    ([("r", 0x1000)], [("r", 0x1000)], []),
    ([("w", 0x1000)], [("w", 0x1040)], []),
    ([("w", 0x1000), ("w", 0x1008)], [("w", 0x1010)], [[CODE + 1, 0x1000, 1, CODE + 2, 0x1010, 1]]),        # the first write
    ([("r", 0x1000), ("w", 0x1008)], [("r", 0x1010)], [[CODE + 1, 0x1008, 1, CODE + 2, 0x1010, 0]]),        # and not the read before
    ([("w", 0xdead)], [("w", 0xdead)], []),                                                                 # a device
])
def test_a_line_that_both_touch_and_one_writes(run, first, second, conflicts):
    (sample,) = run("start", "policy 1", "row 7", *pair(first, second), "stop")
    assert (sample["policy"], sample["row"], sample["full"], sample["conflicts"]) == (1, 7, False, conflicts)


def test_a_pair_begins_with_nothing(run):
    samples = run("start", *pair([("w", 0x1000)], [("w", 0x2000)]), *pair([("w", 0x2000)], [("w", 0x1000)]))
    assert [sample["conflicts"] for sample in samples] == [[], []] and samples[0]["touched"] == [1, 1]


def test_what_other_cpus_and_the_program_itself_do_is_not_counted(run):
    lines = ["start", "begin", f"w 2 {CODE:x} 1000", "w 1 400000 1000", "end", "begin 3", f"w 3 {CODE:x} 1000", "end 3"]
    assert run(*lines)[0]["touched"] == [0, 1]


def test_nothing_is_counted_between_samples_and_before_the_start(run):
    lines = [*pair([("w", 0x1000)], [("w", 0x1000)]), "start", f"w 1 {CODE:x} 1000", *pair([], [("w", 0x1000)])]
    assert [sample["conflicts"] for sample in run(*lines)] == [[], []]


def test_too_many_lines_are_told(run):
    (sample,) = run("start", *pair([("w", 64 * number) for number in range(40000)], []))
    assert sample["full"]
    with pytest.raises(LabError, match="more lines"):
        concurrent.parse(json.dumps(sample), concurrent.Names(MAP), CALLS)


# --- names

@pytest.fixture
def names():
    made = concurrent.Names(MAP)
    made.find_lock([[[TAKES, LOCK + 8, 1, TAKES, LOCK + 8, 1], [TAKES, LOCK, 1, TAKES, LOCK, 1], [STORES, LOCK - 64, 1, STORES, LOCK - 64, 1]]])
    return made


@pytest.mark.parametrize("conflict, name", [
    ([TAKES, LOCK, 1, TAKES, LOCK, 1], "mm.mmap_lock.count: down_write_killable"),
    ([TAKES, LOCK + 8, 1, LOOKS, LOCK + 0x38, 0], "mm.mmap_lock.owner, mm.mm_lock_seq: down_write_killable, lock_vma_under_rcu"),
    ([LOOKS, LOCK + 0x38, 0, TAKES, LOCK + 8, 1], "mm.mmap_lock.owner, mm.mm_lock_seq: down_write_killable, lock_vma_under_rcu"),
    ([STORES, LOCK - 0x78, 1, STORES, LOCK - 0x78, 1], "mm.mm_mt: mas_store_prealloc"),
    ([STORES, 0xffff888002000000, 1, LOOKS, 0xffff888002000010, 0], "maple tree: mas_store_prealloc, lock_vma_under_rcu"),
    ([LOOKS, 0xffff888002000000, 1, LOOKS, 0xffff888002000000, 1], "VMA: lock_vma_under_rcu"),
    ([PROTECTS, 0xffffffff82000008, 1, PROTECTS, 0xffffffff82000008, 1], "vm_committed_as+0x8: do_mprotect_pkey"),
    ([PROTECTS, 0xffff888002000000, 1, PROTECTS, 0xffff888002000000, 1], "?: do_mprotect_pkey"),
])
def test_names_of_lines(names, conflict, name):
    assert names.name(conflict) == name


def test_without_the_lock_there_is_no_mm_struct():
    made = concurrent.Names(MAP)
    made.find_lock([])
    assert made.name([TAKES, LOCK, 1, TAKES, LOCK, 1]) == "?: down_write_killable"


# --- what is made of samples

MEET, STORE, ODD = [TAKES, LOCK, 1, TAKES, LOCK, 1], [STORES, 0xffff888002000000, 1, STORES, 0xffff888002000000, 1], [PROTECTS, 0x1000, 1, PROTECTS, 0x1000, 1]


def samples(count=concurrent.SAMPLES, change=lambda row, conflicts: conflicts):
    """Two threads that map meet at the lock and at two lines of the maple tree; one sample of mmap and fault has a line besides."""
    made = []
    for policy in range(len(concurrent.POLICIES)):
        made.append({"policy": policy, "row": concurrent.WARMING_UP, "full": False, "conflicts": [ODD] * 9})
        for row, of in enumerate(concurrent.pairs(CALLS)):
            for number in range(count):
                conflicts = [MEET, STORE, STORE] if of == ("mmap", "mmap") else [MEET, *([ODD] if not number else [])] if of == ("mmap", "fault") else []
                made.append({"policy": policy, "row": row, "full": False, "conflicts": change(row, conflicts)})
    return "".join(json.dumps(sample) + "\n" for sample in made)


def found(**how):
    return concurrent.parse(samples(**how), concurrent.Names(MAP), CALLS)


def broken(**how):
    return [check.text for check in concurrent.check(found(**how), CALLS) if not check.passed]


def test_lines_are_those_of_more_than_half_of_the_samples():
    made = found()
    assert concurrent.usual(made["linux", "mmap", "mmap"]) == {"mm.mmap_lock.count: down_write_killable": 1, "maple tree: mas_store_prealloc": 2}
    assert concurrent.usual(made["hydra", "mmap", "fault"]) == {"mm.mmap_lock.count: down_write_killable": 1}
    assert concurrent.usual(made["radixvm", "nothing", "fault"]) == {}


def test_values():
    made = {(entry["policy"], entry["case"], entry["metric"]): entry["value"] for entry in concurrent.entries_of(found())}
    assert made["linux", "mmap and mmap", "lines"] == 3 and made["linux", "mmap and mmap", "maple tree: mas_store_prealloc"] == 2
    assert made["linux", "mmap and fault", "lines"] == 1 and made["linux", "mmap and fault", "lines_mean"] == 1.05


def test_a_good_instrument_passes():
    assert broken() == []


@pytest.mark.parametrize("how, text", [
    ({"change": lambda row, conflicts: [ODD] if row == 0 else conflicts}, "linux: a thread that does nothing meets no other"),
    ({"change": lambda row, conflicts: [STORE]}, "linux: two threads that call mmap meet at mmap_lock"),
    ({"change": lambda row, conflicts: [MEET] if row == 5 else conflicts}, "linux: two threads that drop pages, fault or read do not meet at mmap_lock"),
    ({"count": concurrent.SAMPLES - 1}, f"linux: {concurrent.SAMPLES} samples of each pair"),
])
def test_an_instrument_that_is_wrong_fails(how, text):
    assert text in broken(**how)


def test_the_bench_writes_what_it_found(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(concurrent, "measure", lambda nodes: found())
    monkeypatch.setattr(concurrent, "calls_of_program", lambda: CALLS)
    words = ["bench", "concurrent", "--nodes", "4", "--json", str(tmp_path / "json"), "--csv", str(tmp_path / "csv")]
    assert cli.dispatch(cli.parser().parse_args(words)) == 0
    shown = capsys.readouterr().out
    assert "mm.mmap_lock.count: down_write_killable: mmap, mmap/fault" in shown and "maple tree: mas_store_prealloc: mmap 2" in shown
    assert len(json.loads((tmp_path / "json").read_text())) == len(list(csv.DictReader((tmp_path / "csv").open(encoding="utf-8")))) == len(concurrent.entries_of(found()))


@pytest.mark.parametrize("words", [["--nodes", "3"], ["--nodes", "2", "4"], ["--runs", "2"], ["--policies", "linux"], ["--rows", "x"], ["--png", "x.png"]])
def test_what_it_cannot_do_is_refused(monkeypatch, words):
    monkeypatch.setattr(concurrent, "measure", lambda nodes: pytest.fail("it measured"))
    with pytest.raises(LabError) as caught:
        cli.dispatch(cli.parser().parse_args(["bench", "concurrent", *words]))
    assert caught.value.status == 2 and words[0] in str(caught.value)


def test_it_is_listed():
    assert "concurrent" in verb.listing()


def test_the_program_has_the_calls_that_the_checks_need(cache):
    calls = concurrent.calls_of_program()
    assert calls[0] == "nothing" and {"mmap", "munmap", "dontneed", "fault"} < set(calls) and len(concurrent.pairs(calls)) < concurrent.WARMING_UP
    assert programs.conflicts_plugin().exists()


def test_the_program_does_each_pair(cache):
    said = subprocess.run([programs.workloads() / "conflicts", "--cpus", "0,0", "--samples", "1", "--policy", "2"], capture_output=True, text=True, check=True, timeout=300)
    rows = [json.loads(line) for line in said.stdout.splitlines()]
    assert rows == [{"policy": 2, "row": row} for row in range(len(concurrent.pairs(concurrent.calls_of_program())))]


# --- the kernel's mm_struct

def compile_offsets(fields):
    """Compile, as the kernel's own files, that each field is where fields says; returns the compiler's complaints."""
    build.kernel("lab")
    objects = build.objects_of(build.tree(), "lab")
    saved = (objects / "mm/.init-mm.o.cmd").read_text(encoding="utf-8").splitlines()[0]
    flags = re.sub(r" -Wp,-MMD,\S+", "", saved.partition(" := ")[2].partition(" -c -o ")[0])
    text = "#include <linux/mm_types.h>\n" + "".join(
        f"static_assert((long)offsetof(struct mm_struct, {name}) - (long)offsetof(struct mm_struct, mmap_lock) == {offset});\n" for offset, name in fields)
    done = subprocess.run(f"{flags} -fsyntax-only -x c -", shell=True, cwd=objects, env=build.make_environment(), input=text, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if "static assertion failed" in done.stderr else 0), done.stderr
    return re.findall(r"static assertion failed.*", done.stderr)


FIELDS = [(offset, name) for offset, name in concurrent.MM.items() if name not in ("mmap_lock", "more")]


@pytest.mark.machine
def test_the_fields_of_the_mm_struct_are_where_the_kernel_has_them():
    assert len(FIELDS) > 20 and compile_offsets(FIELDS) == []
    assert len(compile_offsets([(offset + 8, name) for offset, name in FIELDS])) == len(FIELDS)
