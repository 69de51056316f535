# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench refcache: what is made of samples. (No machine boots here; test_concurrent.py has the plugin.)"""
import collections
import json

import pytest

from lab import cli
from lab.bench import verb
from lab.errors import LabError
from lab.meter import concurrent, counters


def found(count=concurrent.SAMPLES, **lines):
    """Samples of each pair of one counter with itself; one sample of each has three lines more."""
    made = {}
    for counter, usual in {**counters.LINES, **lines}.items():
        samples = [collections.Counter({"?: refcache_pairs_read": usual + 3 * (not number)}) for number in range(count)]
        made["linux", counter, counter] = concurrent.Found(samples)
    return made


def failed(**how):
    return [check.text for check in counters.check(found(**how)) if not check.passed]


def test_what_is_expected_passes():
    assert failed() == []


@pytest.mark.parametrize("how, text", [({"atomic": 0}, "atomic: 1 lines"), ({"refcache": 1}, "refcache: 0 lines"), ({"nothing": 1}, "nothing: 0 lines"),
                                       ({"count": concurrent.SAMPLES - 1}, f"atomic: {concurrent.SAMPLES} samples")])
def test_what_is_not_fails(how, text):
    assert text in failed(**how)


def test_it_shows_and_writes_what_it_found(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(concurrent, "measure", lambda *_: found())
    assert cli.dispatch(cli.parser().parse_args(["bench", "refcache", "--json", str(tmp_path / "json")])) == 0
    assert "percpu_ref" in capsys.readouterr().out
    assert {entry["case"]: entry["value"] for entry in json.loads((tmp_path / "json").read_text())} == counters.LINES


@pytest.mark.parametrize("words", [["--nodes", "4"], ["--runs", "2"], ["--rows", "x"]])
def test_what_it_cannot_do_is_refused(monkeypatch, words):
    monkeypatch.setattr(concurrent, "measure", lambda *_: pytest.fail("it measured"))
    with pytest.raises(LabError) as caught:
        cli.dispatch(cli.parser().parse_args(["bench", "refcache", *words]))
    assert caught.value.status == 2


def test_it_is_listed():
    assert "refcache" in verb.listing()


def test_the_program_has_the_counters(cache):
    assert concurrent.calls_of_program(*counters.OPTIONS) == list(counters.LINES)
