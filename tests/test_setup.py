# SPDX-License-Identifier: GPL-2.0-only
"""Setting up a machine: what is missing is named with one command; an environment is whole or made again."""
import io
import os
import subprocess

import pytest

from lab import paths, setup
from lab.errors import LabError


def test_no_root_and_a_missing_package(monkeypatch):
    monkeypatch.setattr(setup, "missing_packages", lambda *_: ["wrk", "bison"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError) as caught:
        setup.ensure_packages()
    assert "apt-get install -y --no-install-recommends wrk bison" in str(caught.value)
    assert caught.value.status != 0


def test_nothing_missing_asks_nothing(monkeypatch):
    monkeypatch.setattr(setup, "missing_packages", lambda *_: [])
    monkeypatch.setattr(setup, "run_apt", lambda *_: pytest.fail("apt was run"))
    setup.ensure_packages()


def test_installed_and_missing_are_told_apart(monkeypatch):
    answer = "installed gcc\nnot-installed wrk\nconfig-files bison\n"
    monkeypatch.setattr(setup, "PACKAGES", ["gcc", "wrk", "bison", "never-heard-of"])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, answer, ""))
    assert setup.missing_packages() == ["wrk", "bison", "never-heard-of"]


def test_apt_that_fails_is_quoted(tmp_path):
    fake = tmp_path / "apt-get"
    fake.write_text("#!/bin/sh\necho 'E: Unable to locate package wrk'\nexit 100\n")
    fake.chmod(0o755)
    with pytest.raises(LabError, match="Unable to locate package wrk"):
        setup.run_apt([str(fake), "install", "wrk"], tmp_path / "log")


def test_progress_of_apt():
    out = io.StringIO()
    progress = setup.AptProgress(out)
    for line in ("dlstatus:1:10.5:Retrieving file 1 of 9", "pmstatus:wrk:50.0:Unpacking wrk", "pmstatus:wrk:bad:x", "noise"):
        progress.feed(line)
    progress.close()
    assert out.getvalue() == "  downloading 10 %\n  installing 50 %\n"


def test_an_environment_without_its_stamp_is_made_again(cache, monkeypatch):
    made = []

    def fake_run(step, **_):
        directory = setup.environment_dir()
        made.append(step)
        directory.mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(step, 1 if len(made) == 2 else 0)
    monkeypatch.setattr(subprocess, "run", fake_run)
    with pytest.raises(LabError, match="install"):
        setup.ensure_environment()
    (setup.environment_dir() / "half").touch()
    directory = setup.ensure_environment()
    assert len(made) == 4 and (directory / "complete").exists() and not (directory / "half").exists()
    assert setup.ensure_environment() == directory and len(made) == 4


def test_no_space_is_said(tmp_path):
    with pytest.raises(LabError, match=r"not enough disk space to test: .* 999999999 GiB needed"):
        paths.need_space(tmp_path, 999999999, "test")


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "stamp"
    target.write_text("old")

    def dies(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        paths.write_whole(target, "new")
    assert target.read_text() == "old"
    paths.remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["stamp"]
