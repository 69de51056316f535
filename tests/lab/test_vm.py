# SPDX-License-Identifier: GPL-2.0-only
"""The virtual machine's description, the way of the command into the machine, and the result of a run. (No machine
boots.)"""
import os
import pty
import select
import shutil
import subprocess
import threading

import pytest

from lab import cli
from lab.errors import LabError
from lab.machine import run, terminal, vm


@pytest.mark.parametrize("arguments", [
    ["a b", "c'd", 'e"f', "$HOME", "`id`", "*", "", "new\nline", "\\", "--", "-n", "ü", "; exit 3"]])
def test_arguments_arrive_as_they_were(tmp_path, arguments):
    text = vm.script(["printf", "%s\\0", *arguments], str(tmp_path), "/nowhere/bin dir").replace(vm.SHARED, str(tmp_path))
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout.split("\0")[:-1] == arguments, done.stderr
    assert (tmp_path / "status").read_text() == "0\n"


@pytest.mark.parametrize("command, status", [(["sh", "-c", "exit 7"], "7"), (["no-such-command-anywhere"], "127"),
                                             (["/etc/passwd"], "126"), (["sh", "-c", "kill -TERM $$"], "143")])
def test_the_status_is_left_in_the_shared_directory(tmp_path, command, status):
    text = vm.script(command, "/", "/bin").replace(vm.SHARED, str(tmp_path))
    subprocess.run(["sh", "-c", text], capture_output=True, check=False)
    assert (tmp_path / "status").read_text().strip() == status
    assert (tmp_path / "started").exists()


def test_the_machine_is_described_node_by_node():
    assert vm.Machine(nodes=2, cpus_per_node=3, memory="1G").arguments() == [
        "--memory", "1024M", "--cpus", "6,sockets=2,cores=3,threads=1", "--numa", "512M,cpus=0-2", "--numa", "512M,cpus=3-5"]


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"nodes": 17}, {"cpus_per_node": 0}, {"nodes": 16, "cpus_per_node": 5},
                                   {"memory": "lots"}, {"memory": "128M"}, {"memory": "900T"}])
def test_an_impossible_machine_is_refused(wrong):
    with pytest.raises(LabError, match="--") as caught:
        vm.Machine(**wrong).check()
    assert caught.value.status == 2


@pytest.mark.parametrize("memory, mib", [("2G", 2048), ("1536M", 1536), ("2g", 2048), ("2GB", 2048), ("1GiB", 1024), ("1T", 2**20)])
def test_sizes_of_memory(memory, mib):
    assert vm.Machine(nodes=1, memory=memory).mib() == mib


@pytest.mark.parametrize("wrong", [{"memoryless": (4,)}, {"memoryless": (1,), "cpuless": (1,)}, {"cpuless": (0, 1, 2, 3)}])
def test_a_machine_needs_memory_and_cpus(wrong):
    with pytest.raises(LabError, match="node|machine"):
        vm.Machine(**wrong).check()


def test_kernel_parameters_reach_the_machine(tmp_path):
    command = vm.virtme_command("bzImage", vm.Machine(append=["pti=on hydra=hydra", "quiet"]), tmp_path)
    given = [value for option, value in zip(command, command[1:]) if option == "-a"]
    assert given[-3:] == ["pti=on", "hydra=hydra", "quiet"]
    assert "oops=panic" in given


def result(directory, status=None, log="", started=True, ended=""):
    (directory / "console.log").write_text(log)
    if status is not None:
        (directory / "status").write_text(f"{status}\n")
    if started:
        (directory / "started").touch()
    return vm.verdict(directory, ended)


WARNING = "[ 1.0] WARNING: CPU: 1 PID: 1 at a.c:1\n"


def test_a_good_run_gives_the_commands_status(tmp_path):
    run = result(tmp_path, 7, "[ 1.0] all is well\n")
    assert (run.status, run.trouble) == (7, "")


def test_a_warning_overrules_success(tmp_path):
    run = result(tmp_path, 0, WARNING)
    assert run.status == vm.MACHINE_FAILED and "a.c:1" in run.trouble


def test_a_machine_that_died_silently(tmp_path):
    run = result(tmp_path, None, "[ 1.0] last words\n")
    assert run.status == vm.MACHINE_FAILED and "last words" in run.trouble and "before the command did" in run.trouble


def test_a_machine_that_did_not_boot(tmp_path):
    run = result(tmp_path, None, "", started=False, ended="the machine did not boot within 300 s")
    assert run.status == vm.MACHINE_FAILED and "did not boot" in run.trouble


def test_a_time_limit(tmp_path):
    run = result(tmp_path, None, "[ 1.0] busy\n", ended="the time limit of 5 s was reached")
    assert run.status == vm.TIMED_OUT and "time limit" in run.trouble


class Child:
    """A machine without an end."""

    def poll(self):
        return None


def test_waiting_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(vm.time, "sleep", lambda _: None)
    assert "time limit" in vm.wait(Child(), tmp_path, 0.05)
    monkeypatch.setattr(vm, "BOOT_LIMIT", 0.05)
    assert "did not boot" in vm.wait(Child(), tmp_path, 60)
    (tmp_path / "started").touch()
    (tmp_path / "console.log").write_text("[ 1.0] Kernel panic - not syncing: test\n")
    monkeypatch.setattr(vm, "PANIC_GRACE", 0.05)
    assert "panicked" in vm.wait(Child(), tmp_path, 60)


STALE = """\
[   28.663100] Oops: int3: 0000 [#1] SMP NOPTI\r
[   28.664200] RIP: 0010:exc_page_fault+0x1c1/0x310\r
[   28.664300] Code: 00 00 0f 1f 44 00 eb <0e> 48 8b\r
[   28.670000] Kernel panic - not syncing: Fatal exception in interrupt\r
"""


@pytest.fixture
def boots(cache, monkeypatch):
    """A faked machine: what each boot leaves, the last one again and again. Returns what runs a command, and the directories."""
    made = []

    def runs(*left, **options):
        def fake_boot(_command, _machine, directory, *_):
            log, started, said, ended = left[min(len(made), len(left) - 1)]
            made.append(directory)
            (directory / "console.log").write_text(log)
            (directory / "output").write_text(said)
            if started:
                (directory / "started").touch()
            if started and not (log or ended):
                (directory / "status").write_text("3\n")
            if options.get("stdin"):
                os.read(options["stdin"].fileno(), 100)
            return ended
        monkeypatch.setattr(vm, "boot", fake_boot)
        return vm.run(["true"], **options), made
    monkeypatch.setattr(vm.build, "kernel", lambda _config: "bzImage")
    monkeypatch.setattr(vm.programs, "hydractl", lambda: "hydractl")
    return runs


@pytest.mark.parametrize("started, log, ended, again", [
    (False, "[ 0.6] pci 0000:00:02.0: BAR 1\n", "", True), (True, "[ 0.6] pci\n", "", False), (False, WARNING, "", False),
    (False, "[ 0.6] pci\n", "the machine did not boot within 300 s", False)])
def test_only_a_dead_emulator_is_started_again(boots, started, log, ended, again):
    result, made = boots((log, started, "", ended))
    assert result.status == vm.MACHINE_FAILED
    assert len(made) == (vm.BOOT_ATTEMPTS if again else 1)


@pytest.mark.parametrize("started", [False, True])
def test_a_run_that_the_emulator_spoilt_starts_again_and_says_why(boots, capsys, started):
    result, made = boots((STALE, started, "", ""), ("", True, "", ""))
    assert (result.status, result.trouble, len(made)) == (3, "", 2)
    assert "once more: the emulator ran a breakpoint that was gone" in capsys.readouterr().err


def test_a_run_that_the_emulator_spoils_each_time(boots):
    result, made = boots((STALE, True, "", ""))
    assert (result.status, len(made)) == (vm.MACHINE_FAILED, vm.BOOT_ATTEMPTS)


@pytest.mark.parametrize("left", ["output", "out/values"])
def test_a_run_that_has_shown_something_says_what_it_was(boots, monkeypatch, left):
    monkeypatch.setattr(vm, "has_results", lambda _: left == "out/values")
    result, made = boots((STALE, True, "one\n" if left == "output" else "", ""))
    assert (result.status, len(made)) == (vm.MACHINE_FAILED, 1)
    first, second, *report = result.trouble.splitlines()
    assert "the emulator ran a breakpoint that was gone" in first and "nothing of Hydra" in second and "Oops: int3" in "".join(report)


def test_a_crash_of_the_kernel_is_not_the_emulators(boots):
    result, made = boots((STALE.replace("eb <0e>", "cc <0e>"), True, "", ""))
    assert len(made) == 1 and result.trouble.startswith("kernel crash")


def test_another_machine_gets_the_same_input(boots, tmp_path):
    (tmp_path / "input").write_text("gone. words")
    with open(tmp_path / "input", encoding="ascii") as stdin:
        os.lseek(stdin.fileno(), 6, os.SEEK_SET)
        result, made = boots((STALE, True, "", ""), ("", True, "", ""), stdin=stdin)
        assert (result.status, len(made)) == (3, 2)
        os.lseek(stdin.fileno(), 6, os.SEEK_SET)
        assert os.read(stdin.fileno(), 5) == b"words"


@pytest.mark.parametrize("started, boots_made", [(True, 1), (False, 2)])
def test_input_from_a_pipe_is_read_once(boots, started, boots_made):
    reader, writer = os.pipe()
    with open(reader, encoding="ascii") as stdin, open(writer, "w", encoding="ascii") as typed:
        typed.write("a word for each machine" * 50)
        typed.flush()
        result, made = boots((STALE, started, "", ""), ("", True, "", ""), stdin=stdin)
    assert len(made) == boots_made and (result.status == 3) == (boots_made == 2)


@pytest.mark.parametrize("how, given", [({}, True), ({"ready": False}, False), ({"config": "off"}, False), ({"kvm": True}, False)])
def test_the_emulators_kernel_is_not_patched_while_programs_run(tmp_path, how, given):
    assert ("hydra_ready" in vm.virtme_command("bzImage", vm.Machine(**how), tmp_path)) == given


@pytest.fixture
def held(monkeypatch):
    """The locks on runs: when a lock is closed, the run's ./hydra has ended."""
    locks = []
    monkeypatch.setattr(vm, "HELD", locks)
    yield locks
    for lock in locks:
        lock.close()


def test_of_old_runs_those_go_that_have_ended_and_hold_no_results(cache, held):
    running, fetched, unfetched = vm.run_dir(), vm.run_dir(), vm.run_dir()
    (unfetched / "out" / "results.csv").touch()
    for lock in held[1:]:
        lock.close()
    for _ in range(vm.KEEP_RUNS + 3):
        newest = vm.run_dir()
        held.pop().close()
    assert running.exists() and unfetched.exists() and newest.exists() and not fetched.exists()
    held[0].close()
    vm.run_dir()
    assert not running.exists() and unfetched.exists()


def test_results_go_where_out_says(cache, held, tmp_path, capsys):
    directory = vm.run_dir()
    run.fetch_results(directory, None)
    assert capsys.readouterr().err == ""
    (directory / "out" / "more").mkdir()
    (directory / "out" / "more" / "values").write_text("1")
    run.fetch_results(directory, None)
    assert f"left files in {directory / 'out'}" in capsys.readouterr().err
    target = run.results_directory(tmp_path / "new" / "results")
    run.fetch_results(directory, target)
    assert (target / "more" / "values").read_text() == "1" and not vm.has_results(directory)


def test_results_that_find_no_place_stay_where_they_are(cache, held, tmp_path, monkeypatch):
    directory, target = vm.run_dir(), run.results_directory(tmp_path / "results")
    (directory / "out" / "values").write_text("new")
    (directory / "out" / "link").symlink_to("/etc")
    (target / "values").write_text("old")

    def full(source, part, **_):
        part.mkdir()
        (part / "values").write_text("ne")
        raise shutil.Error([(source, part, "[Errno 28] No space left on device")])
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", full)
        with pytest.raises(LabError, match=f"(?s)No space left on device.*still in {directory / 'out'}"):
            run.fetch_results(directory, target)
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("values", "old")]
    run.fetch_results(directory, target)
    assert (target / "values").read_text() == "new" and (target / "link").is_symlink()


def run_words(*words):
    return run.run_verb(cli.parser().parse_args(["run", *words]))


@pytest.mark.parametrize("words, said", [
    (["--nodes", "2", "--"], "no command"), (["--shell"], "--shell needs a terminal"),
    (["--timeout", "-5", "--", "true"], "--timeout -5: must be more than 0"),
    (["--timeout", "0", "--", "true"], "--timeout 0: must be more than 0"),
    (["--timeout", "nan", "--", "true"], "--timeout nan: must be more than 0"),
    (["--memory", "900T", "--", "true"], "this host has"),
    (["--out", "/proc/version/x", "--", "true"], "cannot make the directory /proc/version/x")])
def test_a_wrong_run_is_refused_before_a_kernel_is_built(monkeypatch, words, said):
    monkeypatch.setattr(run.build, "kernel", lambda *_: pytest.fail("it builds"))
    monkeypatch.setattr(os, "isatty", lambda _: False)
    with pytest.raises(LabError, match=said):
        run_words(*words)


@pytest.mark.parametrize("words, on_terminal, shell", [
    (["--shell"], True, ["bash"]), (["--shell", "--", "top"], True, ["top"]), (["--", "/bin/bash"], True, ["/bin/bash"]),
    (["--", "bash"], False, None), (["--", "bash", "-c", "x"], True, None), (["--", "ls"], True, None)])
def test_what_runs_on_the_terminal(cache, monkeypatch, tmp_path, words, on_terminal, shell):
    ran = []
    monkeypatch.setattr(os, "isatty", lambda _: on_terminal)
    monkeypatch.setattr(run.build, "kernel", lambda *_: "bzImage")
    monkeypatch.setattr(run.terminal, "run", lambda command, *_: ran.append(command) or vm.Result(0, "", tmp_path))
    monkeypatch.setattr(run.vm, "run", lambda *_: ran.append(None) or vm.Result(0, "", tmp_path))
    assert run_words(*words) == 0
    assert ran == [shell]


def test_a_command_of_the_machine_has_a_terminal():
    shell = "test -t 0 && test -t 1 && echo yes $TERM $(stty size); read line; echo got $line; exit 7"
    command = terminal.in_machine(["sh", "-c", shell], 90, 30, "vt100")
    done = subprocess.run(command, input=b"word\n", capture_output=True, check=False)
    assert done.returncode == 7
    assert b"yes vt100 30 90" in done.stdout and b"got word" in done.stdout


def test_keys_reach_the_machine_and_one_ends_it(monkeypatch):
    keyboard, typed = pty.openpty()
    reader, writer = os.pipe()
    killed = []
    monkeypatch.setattr(os, "kill", lambda *call: killed.append(call))
    with terminal.raw(typed):
        copying = threading.Thread(target=terminal.keys, args=(typed, writer), daemon=True)
        copying.start()
        os.write(keyboard, b"a\x03\r")
        arrived = b""
        while len(arrived) < 3:
            assert select.select([reader], [], [], 20)[0]
            arrived += os.read(reader, 1)
        os.write(keyboard, b"\x1d")
        copying.join(20)
    assert arrived == b"a\x03\r" and killed == [(os.getpid(), terminal.signal.SIGINT)]


def test_everything_after_the_dashes_is_the_commands():
    arguments = cli.parser().parse_args(["run", "--nodes", "2", "--", "ls", "--nodes", "-l"])
    assert arguments.command == ["--", "ls", "--nodes", "-l"] or arguments.command == ["ls", "--nodes", "-l"]
    assert arguments.nodes == 2


