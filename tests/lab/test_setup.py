# SPDX-License-Identifier: GPL-2.0-only
"""Setting up a machine: what is missing is named with one command; an environment is whole or made again."""
import contextlib
import os
import resource
import subprocess
import sys

import pytest

from lab import cli, paths, setup
from lab.bench import verb
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


def test_an_installation_that_was_cut_off_is_ended_before_apt_runs(cache, monkeypatch):
    commands, left = [], [["wrk"], ["wrk"], []]
    monkeypatch.setattr(setup, "missing_packages", lambda *_: left.pop(0))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(setup.children, "logged", lambda _what, command, *_, **__: commands.append(command))
    setup.ensure_packages()
    assert commands[0] == ["dpkg", "--configure", "-a"]
    assert [command[:2] for command in commands[1:]] == [["apt-get", "update"], ["apt-get", "install"]]


def test_a_package_is_unpacked_once_and_whole_or_not_at_all(cache, monkeypatch):
    commands = []

    def fake_logged(_what, command, _log, cwd, **_):
        commands.append(command)
        (cwd / "files").mkdir(exist_ok=True)
        (cwd / "files/program").touch()
        if len(commands) == 2:
            raise LabError("no space")
    monkeypatch.setattr(setup.children, "logged", fake_logged)
    with pytest.raises(LabError, match="no space"):
        setup.unpacked("memcached")
    place = setup.unpacked("memcached")
    assert (place / "program").exists() and place == setup.unpacked("memcached") and len(commands) == 4
    assert commands[0] == ["apt-get", "download", "memcached"] and [path.name for path in place.parent.iterdir()] == ["memcached"]


def test_an_environment_without_its_stamp_is_made_again(cache, monkeypatch):
    made = []

    def fake_logged(what, step, _log, **_):
        made.append(step)
        setup.environment_dir().mkdir(parents=True, exist_ok=True)
        if len(made) == 2:
            raise LabError(f"{what} failed")
    monkeypatch.setattr(setup.children, "logged", fake_logged)
    with pytest.raises(LabError, match="install"):
        setup.ensure_environment()
    (setup.environment_dir() / "half").touch()
    directory = setup.ensure_environment()
    assert len(made) == 4 and (directory / "complete").exists() and not (directory / "half").exists()
    assert setup.ensure_environment() == directory and len(made) == 4


@pytest.mark.parametrize("cache, said", [
    ("/tmp/sp ace", "cannot be at '/tmp/sp ace'"), ("/tmp/a:b", "cannot be at"), ("/tmp/a,b", "cannot be at"),
    ("/dev/null/x", "cannot make the directory /dev/null/x"), ("/proc/1", "the cache /proc/1 may not be")])
def test_a_cache_that_cannot_be_used_is_refused_before_anything_is_set_up(monkeypatch, capsys, cache, said):
    monkeypatch.setenv("HYDRA_CACHE", cache)
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).startswith("/proc"))
    monkeypatch.setattr(setup, "ensure", lambda _: pytest.fail("it was set up"))
    assert cli.main(["kernel"]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("number, said", [(28, "hydra: /full: No space left on device\n  Free some space"),
                                          (13, "hydra: /full: Permission denied\n")])
def test_what_the_system_refuses_is_a_message(cache, monkeypatch, capsys, number, said):
    def fail(_):
        raise OSError(number, os.strerror(number), "/full")
    monkeypatch.setattr(setup, "ensure", fail)
    assert cli.main(["kernel"]) == 1
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("words", [
    ["demo", "--json", "/nonexistent/x.json"], ["demo", "--png", "/nonexistent/x.png"], ["bench", "mprotect", "--json", "/dev"],
    ["bench", "steps", "--json", "/nonexistent/x.json"], ["bench", "steps", "--plot", "/nonexistent/x.png"]], ids=" ".join)
def test_results_that_cannot_be_written_are_refused_before_measuring(monkeypatch, words):
    for where in (verb.measure, verb.steps_verbs.steps):
        monkeypatch.setattr(where, "measure", lambda _: pytest.fail("it measured"))
    with pytest.raises(LabError, match="cannot write /") as caught:
        cli.dispatch(cli.parser().parse_args(words))
    assert caught.value.status == 2


def test_trying_an_output_leaves_nothing_and_keeps_what_was_there(tmp_path):
    (tmp_path / "old").write_text("values")
    paths.try_output(tmp_path / "new", str(tmp_path / "old"), None)
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and (tmp_path / "old").read_text() == "values"


def test_without_a_verb_the_help_is_shown(capsys):
    assert cli.main([]) == 2
    assert "Start here:" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["kernel", "extra"], ["test", "--lnog"], ["bench", "munmap", "x"], ["run", "--nodse", "2"]])
def test_a_wrong_word_shows_the_usage_of_its_verb(capsys, words):
    with pytest.raises(SystemExit) as caught:
        cli.parser().parse_args(words)
    shown = capsys.readouterr().err
    assert caught.value.code == 2 and shown.startswith(f"usage: ./hydra {words[0]} ") and f"./hydra {words[0]}: error: " in shown


def test_a_list_needs_no_package(tmp_path):
    """Neither Debian's nor Python's: a Python without the packages of the environment prints the list, and the cache stays as it is."""
    code = "import sys; sys.path = [path for path in sys.path if 'site-packages' not in path]; " \
           "from lab import cli, setup; setup.ensure = None; sys.exit(cli.main(['bench', '--list']))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, cwd=paths.REPO,
                          env=dict(os.environ, HYDRA_CACHE=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=""))
    assert done.returncode == 0 and "footprint" in done.stdout and not list((tmp_path / "cache").glob("venv*")), done.stderr


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


@contextlib.contextmanager
def small_files():
    """A write of more than 1 KiB fails, as on a full disk.

    The limit holds for this whole process. It must end before the test does: pytest itself writes to files then.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("there", [False, True])
def test_where_the_disk_is_full_nothing_half_written_is_left(tmp_path, there):
    target = tmp_path / "values.json"
    if there:
        target.write_text("old")
    message = "cannot write .*values.json: File too large; nothing was written"
    with pytest.raises(LabError, match=message) as caught, small_files():
        paths.write_result(target, "x" * 2000, "values")
    assert "Free some space" in str(caught.value)
    assert [path.read_text() for path in tmp_path.iterdir()] == (["old"] if there else [])


def test_results_may_go_to_a_stream_and_through_a_link(tmp_path):
    with pytest.raises(LabError, match="cannot write /dev/full: No space left on device"):
        paths.write_result("/dev/full", "x", "values")
    paths.try_output("/dev/full")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    paths.write_result(tmp_path / "link", b"bytes", "values")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there").read_bytes() == b"bytes"
