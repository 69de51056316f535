# SPDX-License-Identifier: GPL-2.0-only
"""The report of ./hydra here: one file that needs no other, in which no text of the machine or the user becomes HTML."""
import base64
import copy
import html.parser
import json
import re

import faked_machine
import pytest
import test_benches

from lab import cli
from lab.here import here, here_plan, html_report, perf_events, this_machine

HOSTILE = "<img src=http://evil.example/x onerror=alert(1)> & \"$\\alpha$' </script><script>alert(2)</script>"
LOADS = {"src", "href", "action", "data", "srcset", "poster", "background"}


class Page(html.parser.HTMLParser):
    """What a browser would see: tags, attributes, text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.raw = [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.raw += data
        self.texts.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(name="measured", scope="module")
def faked_measurement(tmp_path_factory):
    """The document of a faked measurement under hostile names."""
    home = tmp_path_factory.mktemp("here")

    def fail(*task):
        if task[:3] == ("footprint", "none", "abis"):
            raise here.Failure(HOSTILE)
    programs = faked_machine.Programs(test_benches.GOOD, fail=fail)
    words = ["here", "footprint", "munmap", "operations", "--workload", HOSTILE, "--runs", "2", "--out", str(home / "report.html")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYDRA_CACHE", str(home / "cache"))
        patch.setattr(this_machine.os, "geteuid", lambda: 0)
        patch.setattr(here, "tools_for", lambda made: {name: name for name in ("hydractl", "shootdown", "locality", "footprint", "prefetch")})
        patch.setattr(perf_events, "tool", lambda: None)
        here.here_verb(cli.parser().parse_args(words), faked_machine.machine(home / "root"), programs)
    return json.loads((home / "report.json").read_text())


@pytest.fixture(name="document")
def own_copy(measured):
    return copy.deepcopy(measured)


def test_it_needs_no_other_file_and_no_network(document):
    page = Page(html_report.page(document))
    assert not set(page.tags) & {"link", "iframe", "object", "embed", "form", "base"}
    assert [pair for pair in page.attributes if pair[1] in LOADS and not pair[2].startswith("data:image/png;base64,")] == []
    assert [pair for pair in page.attributes if pair[1].startswith("on")] == []
    assert [tag for tag in page.tags if tag == "script"] == ["script"] and ("script", "type", "application/json") in page.attributes
    assert not re.search(r"@import|url\(", html_report.STYLE)


def test_hostile_names_stay_text(document):
    page = Page(html_report.page(document))
    assert page.tags.count("img") == 3      # the charts
    assert HOSTILE in "".join(page.texts) and 'x="<script>alert(1)</script>"' in page.words and "Xeon <b>X</b> & Co" in page.words
    assert "b" not in page.tags
    assert json.loads(page.raw)["asked"]["workload"] == HOSTILE


def test_the_values_of_all_runs_are_in_it(document):
    page = Page(html_report.page(document))
    assert json.loads(page.raw)["values"] == document["values"]


def test_the_charts_are_pictures(document):
    charts = [value for tag, name, value in Page(html_report.page(document)).attributes if (tag, name) == ("img", "src")]
    assert all(base64.b64decode(chart.split(",")[1]).startswith(b"\x89PNG") for chart in charts)


def test_it_says_what_was_measured_and_what_was_not(document):
    page = Page(html_report.page(document)).words
    for words in ("Intel", "0xd0003d1", "hydra=hydra", "always [madvise] never", "distances 10 21", "0 node 0 cpus 0-3", "performance, powersave",
                  "operations its counts are taken by a plugin of the emulator", "footprint none, abis", "perf is not installed",
                  "not counted: page_walker_loads.dtlb_memory (Intel Haswell and Broadwell", "No count differs between runs.", "Hydra", "RadixVM"):
        assert words in page
    # Hydra takes half of Linux's time in the faked runs.
    assert "0.500 (0.500 to 0.500)" in page and "an emulator" not in page.replace("a plugin of the emulator", "")


def test_a_count_that_differs_is_marked(document):
    entry = next(value for value in document["values"] if value["metric"] == "leaf_tables" and value["policy"] == "hydra")
    entry["value"] += 1
    page = html_report.page(document)
    assert page.count('class="n differs"') == 1 and "1 of the counts differs between runs, and is marked" in page


def test_an_estimated_event_is_marked(document):
    document["values"] += [{"row": "footprint", "case": "none", "policy": "linux", "metric": "perf.node-loads", "value": 5000, "unit": "events", "run": run,
                            "estimated": True} for run in (1, 2)]
    document["events"] = {"counted": ["node-loads"], "why_none": "", "asked": True}
    page = html_report.page(document)
    assert "~5,000" in page and "loads from memory, as Linux maps it" in page and "not on this processor: node-load-misses (any" in page


def test_a_measurement_without_values_says_so(document):
    document["values"], document["ended"] = [], "by Ctrl-C, before all runs were made"
    page = html_report.page(document)
    assert page.count("No value was measured.") == 3 and "ended by Ctrl-C" in page


@pytest.mark.parametrize("value, metric, unit, said", [
    (0.5, "local_leaf_share", "share", "50.0 %"), (1234567, "leaf_tables", "tables", "1,234,567"), (1.25, "interrupts_per_op", "interrupts", "1.25"),
    (0.0012345, "seconds", "s", "0.001234"), (54321.5, "requests_per_s", "requests/s", "54,322"), (3.0, "us_per_op", "us", "3")])
def test_numbers(value, metric, unit, said):
    assert html_report.shown(value, metric, unit) == said


def test_titles_say_nothing_of_an_emulator():
    for one in (*here_plan.demo_lines.LINES, *(line for bench in here_plan.choice.BENCHES.values() for line in bench.lines)):
        title = here_plan.title_of(one)
        assert title.strip() and "emulator" not in title and "Linux = 1:" not in title
