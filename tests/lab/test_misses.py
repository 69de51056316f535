# SPDX-License-Identifier: GPL-2.0-only
"""The model of TLBs and its plugin: page walks of streams of accesses, computed by hand. And which of them read a near table."""
import json
import random
import subprocess

import pytest

from lab import paths
from lab.errors import LabError
from lab.machine import programs
from lab.meter import misses

PAGE, TABLE, START = 4096, 2 << 20, 1 << 40
MARKS = {"start": "0f1f8000025948", "stop": "0f1f8000035948", "begin": "0f1f8000065948", "end": "0f1f8000075948"}
CR3, CR3_FROM_R8, INVLPG, INVPCID, CR4, SWAPGS = "0f22df", "410f22d8", "0f013f", "660f388207", "0f22e0", "0f01f8"


@pytest.fixture(scope="module", params=[1, 4], ids=lambda version: f"version {version}")
def driver(tmp_path_factory, request):
    made = tmp_path_factory.mktemp("misses") / "driver"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-DVERSION={request.param}", "-I", paths.REPO / "lab/meter", "-o", made, paths.REPO / "tests/lab/misses_driver.c"],
                   check=True)
    return made


@pytest.fixture
def run(driver, tmp_path):
    """What the plugin reports of some lines; of several samples the list."""
    def execute(*lines, options=()):
        out = tmp_path / "samples"
        words = "\n".join(f"i 0 {MARKS[line]}" if line in MARKS else line for line in lines)
        subprocess.run([driver, f"out={out}", *options], input=words, text=True, check=True)
        return [json.loads(line) for line in out.read_text(encoding="ascii").splitlines()]
    return execute


def reads(pages, times=1, cpu=0):
    return [f"a {cpu} {START + page * PAGE:#x}" for _ in range(times) for page in pages]


def counted(run, warm, then, **options):
    """(accesses, found in the second TLB alone, walks, walks without a PDE) of CPU 0 after it has been warmed up."""
    (sample,) = run("start", *warm, "begin", *then, "end", "stop", **options)
    (cpu,) = sample["cpus"]
    assert sum(walks for _, walks in cpu["tables"]) == cpu["walks"] and not sample["left_out"]
    return cpu["accesses"], cpu["second"], cpu["walks"], cpu["long"]


@pytest.mark.parametrize("pages, found", [
    # A single page walks once; 64 pages fit the first TLB; the 65th shares a set of four with four others; 1,536 fit the second TLB.
    ([7], (1000, 0, 0, 0)), (range(64), (64000, 0, 0, 0)), (range(65), (65000, 5000, 0, 0)), (range(1536), (1536000, 1536000, 0, 0)),
    # The 1,537th page shares a set of 12 with 12 others: 13 walks a pass. Their PDEs are there.
    (range(1537), (1537000, 1524000, 13000, 0)),
    # Strides: of 16 pages, all are in one set of the first TLB; of 128 pages, in one set of the second.
    (range(0, 16 * 5, 16), (5000, 5000, 0, 0)), (range(0, 16 * 4, 16), (4000, 0, 0, 0)), (range(0, 128 * 12, 128), (12000, 12000, 0, 0)),
    (range(0, 128 * 13, 128), (13000, 0, 13000, 0)),
    # A page of each leaf table: 32 PDEs are cached, 33 are not.
    (range(0, 512 * 32, 512), (32000, 0, 32000, 0)), (range(0, 512 * 33, 512), (33000, 0, 33000, 33000))])
def test_passes_over_pages(run, pages, found):
    times = 10
    assert counted(run, reads(pages), reads(pages, times)) == tuple(number * times // 1000 for number in found)


def test_the_first_pass_walks_for_each_page_and_reads_each_pde_once(run):
    assert counted(run, [], reads(range(1024))) == (1024, 0, 1024, 2)


def test_random_reads_of_twice_as_many_pages_walk_half_the_time(run):
    """Of 24 pages of a set, 12 are there: each read is as likely of one as of another."""
    draw = random.Random(7)
    accesses, _, walks, _ = counted(run, reads(draw.choices(range(3072), k=20000)), reads(draw.choices(range(3072), k=50000)))
    assert abs(walks / accesses - 0.5) < 0.01


def test_sizes_can_be_set(run):
    options = ("first=1x2", "second=1x4", "pdes=1x1")
    assert counted(run, reads(range(4)), reads(range(4), 10), options=options) == (40, 40, 0, 0)
    assert counted(run, reads(range(5)), reads(range(5), 10), options=options) == (50, 0, 50, 0)
    assert counted(run, reads([0, 512, 1024, 1536, 2048]), reads([0, 512, 1024, 1536, 2048], 10), options=options) == (50, 0, 50, 50)


@pytest.mark.parametrize("code, walks, invalidated", [(CR3, 8, 0), (CR3_FROM_R8, 8, 0), (INVPCID, 8, 0), (INVLPG, 0, 1), (CR4, 0, 0), (SWAPGS, 0, 0), ("90", 0, 0)])
def test_what_empties_the_tlbs(run, code, walks, invalidated):
    (sample,) = run("start", *reads(range(8)), "begin", f"i 0 {code}", *reads(range(8)), "end")
    assert (sample["cpus"][0]["walks"], sample["cpus"][0]["invalidated"]) == (walks, invalidated)


def test_invlpg_empties_the_pdes(run):
    warm, far = reads(range(0, 512 * 20, 512)), reads([512 * 5 + 1])
    assert counted(run, warm, far) == (1, 0, 1, 0)
    assert counted(run, warm, [f"i 0 {INVLPG}", *far]) == (1, 0, 1, 1)


def test_each_cpu_has_its_own_tlbs_and_tables(run):
    (sample,) = run("start", *reads(range(8), cpu=0), "begin", *reads(range(8), cpu=0), *reads([0, 512], cpu=3), f"i 3 {CR3}", *reads([0], cpu=0), "end")
    assert [(cpu["cpu"], cpu["walks"], sorted(cpu["tables"])) for cpu in sample["cpus"]] == [(0, 0, []), (3, 2, [[START, 1], [START + TABLE, 1]])]


def test_only_accesses_to_memory_of_programs_between_markers_count(run):
    assert run("begin", *reads(range(8)), "end") == [{"left_out": 0, "cpus": []}]
    first, second = run("start", "begin", "a 0 0xffff888000001000", *reads([1]), "end", *reads([2]), "begin", *reads([2, 3]), "end", "stop", *reads([4]))
    assert [(sample["cpus"][0]["accesses"], sample["cpus"][0]["walks"]) for sample in (first, second)] == [(1, 1), (2, 1)]


@pytest.mark.parametrize("options", [[], ["out=/dev/null", "first=0x4"], ["out=/dev/null", "colour=red"], ["out=/no/such/file"]])
def test_wrong_options_are_refused(driver, options):
    assert subprocess.run([driver, *options], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 1


def test_the_plugin_builds(cache):
    assert programs.misses_plugin().exists()


# --- near or far

DOMAINS = ["0 node 0 cpus 0-1", "1 node 1 cpus 2,3 distance 10"]
MAP = ["domain 0 start 0x10000000000 end 0x10000400000 node 0", "domain 1 start 0x10000000000 end 0x10000200000 node 0",
       "domain 1 start 0x10000200000 end 0x10000400000 node 1"]


def sample(*cpus):
    return {"left_out": 0, "cpus": [{"cpu": number, "accesses": 100, "second": 0, "walks": sum(walks for _, walks in tables), "long": 0, "invalidated": 0,
                                     "tables": tables} for number, tables in cpus]}


def test_walks_are_near_if_the_domains_table_is_on_its_node():
    seen = sample((0, [[START, 5], [START + TABLE, 7]]), (3, [[START, 11], [START + TABLE, 13], [START + 4 * TABLE, 17]]))
    assert misses.walks(seen, MAP, DOMAINS) == {"near": 25, "far": 11, "elsewhere": 17, "accesses": 200, "invalidated": 0}


def test_a_map_or_a_sample_that_makes_no_sense_is_told():
    with pytest.raises(LabError, match="domain 0 begin"):
        misses.walks(sample(), ["domain 0 begin 0x0"], DOMAINS)
    with pytest.raises(LabError, match="CPU 9"):
        misses.walks(sample((9, [[START, 1]])), MAP, DOMAINS)
    with pytest.raises(LabError, match="room"):
        misses.walks({**sample(), "left_out": 3}, MAP, DOMAINS)
