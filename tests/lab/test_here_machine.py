# SPDX-License-Identifier: GPL-2.0-only
"""./hydra here in the emulator: needs the built kernel."""
import json
import subprocess
import sys

import pytest
from test_html_report import Page
from test_machine import HYDRA

from lab import paths
from lab.bench import footprint
from lab.here import html_report
from lab.machine import programs

pytestmark = pytest.mark.machine


NODES, DATA = 2, 8           # leaf tables that each node writes


def test_a_measurement_and_a_command_on_the_machines_own_nodes(tmp_path):
    programs.hydractl(), programs.workloads()        # built on the host: what is built in the machine is lost with it
    here = ["env", f"HYDRA_CACHE={paths.cache()}", sys.executable, str(HYDRA), "here", "footprint", "--policies", "hydra", "--runs", "1", "--workload", "sleep 0.1",
            "--values-only"]
    done = subprocess.run([HYDRA, "run", "--nodes", str(NODES), "--memory", "1536M", "--out", tmp_path / "out", "--", "sh", "-c",
                           '"$@" --json $HYDRA_OUT/report.json && ls -A /dev/shm', "sh", *here], capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""                         # nothing is left in the machine's /dev/shm
    document = json.loads((tmp_path / "out/report.json").read_text())
    assert document["failed"] == [] and document["ended"] == ""
    cases = [*(("footprint", sharing) for sharing in footprint.SHARINGS), ("workload", "sleep 0.1")]
    assert {tuple(key) for key in document["done"]} == {(1, *case, policy) for case in cases for policy in ("linux", "hydra")}
    leaves = {(value["run"], value["case"], value["policy"]): value["value"] for value in document["values"] if value["metric"] == "leaf_tables"}
    assert leaves == {(1, sharing, policy): NODES * DATA * (NODES if policy == "hydra" and sharing != "none" else 1)
                      for sharing in footprint.SHARINGS for policy in ("linux", "hydra")}
    page = Page(html_report.page(document))          # drawn here: matplotlib reads its fonts in small pieces, which takes minutes in the machine
    assert page.tags.count("img") == 2
    for words in ("2 CPUs (0-1)", "a virtual machine", "boot parameters", "leaf page tables of the data", "sleep 0.1", "node-loads (any"):
        assert words in page.words
