# SPDX-License-Identifier: GPL-2.0-only
"""hydractl off: processes become plain Linux; hydractl allow: which processes may choose settings."""
import errno

import pytest

from faked_kernel import ACCEPTS, HYDRA, kernel_answers, refuses_changes, refuses_text

LINUX = HYDRA.replace("policy hydra", "policy linux").replace("active 1", "active 0").replace("split 1", "split 0")
NOBODY = "no process may choose settings ('hydractl allow' says so); 'hydractl allow anybody', by root, ends that"


def settings(kernel, pid):
    return (kernel.proc / str(pid) / "hydra").read_text()


@pytest.fixture
def some(kernel):
    """Under Hydra: 12, its child 13, and 20. 14 is plain Linux, and 2 a kernel thread."""
    kernel.process(2, "kthreadd", parent=0, hydra="")
    for pid, parent, text in ((12, 1, HYDRA), (13, 12, HYDRA), (14, 12, LINUX), (20, 1, HYDRA)):
        kernel.process(pid, parent=parent, hydra=text)
    return kernel


def test_all(some):
    done = some.run("off", "--all")
    assert (done.returncode, done.stdout) == (0, "3 processes were under Hydra, and plain Linux now\n")
    assert [settings(some, pid) for pid in (12, 13, 14, 20)] == ["linux", "linux", LINUX, "linux"]


def test_pids(some):
    done = some.run("off", 12, 14)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 process was under Hydra, and plain Linux now\n", "")
    assert [settings(some, pid) for pid in (12, 13, 14, 20)] == ["linux", HYDRA, LINUX, HYDRA]


def test_groups(some):
    some.cgroup("/system.slice/web.service", 20)
    assert some.run("off", "--unit", "web").stdout.startswith("1 process was")
    assert some.run("off", "--tree", 12).stdout.startswith("2 processes were")
    assert [settings(some, pid) for pid in (12, 13, 14, 20)] == ["linux", "linux", LINUX, "linux"]


def test_the_default_stays_and_is_named(some):
    assert "default" not in some.run("off", "--all").stdout
    (some.hydra / "default").write_text("hydra,domains=node\n")
    done = some.run("off", "--all")
    assert "programs that start later get the default, which is 'hydra,domains=node'" in done.stdout and "hydractl default linux" in done.stdout
    assert (some.hydra / "default").read_text() == "hydra,domains=node\n"


def test_what_does_not_go_off(some):
    done = some.run("off", 4242, 2, 12)
    assert done.returncode == 2 and done.stdout.startswith("1 process was")
    assert "no process 4242\n" in done.stderr and "process 2 has no user memory" in done.stderr and settings(some, 12) == "linux"


@pytest.mark.parametrize("number, why", [(errno.EPERM, "not permitted to change process 20: be its owner or root"), (errno.ENOMEM, "cannot change process 20: Cannot allocate memory")])
def test_each_process_that_stays_is_named(some, number, why):
    for target in (["--all"], ["20", "14"]):
        done = some.run("off", *target, preexec_fn=refuses_changes(number))
        assert (done.returncode, done.stdout) == (2, "no process has become plain Linux\n")
        assert done.stderr.count(f"{why}\n") == 1 and done.stderr.count("\n") == (3 if target == ["--all"] else 1)


# allow

def test_allow_shows_and_changes(kernel):
    assert kernel.run("allow").stdout == "anybody\n"
    for word in ("cap_sys_nice", "nobody", "anybody"):
        done = kernel.run("allow", word)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "") and (kernel.hydra / "allow").read_text() == word
        assert kernel.run("allow").stdout == f"{word}\n" and kernel.json("status")["allow"] == word
        assert f"may choose settings        {word}\n" in kernel.run("status").stdout


def test_allow_of_an_older_kernel(kernel):
    (kernel.hydra / "allow").unlink()
    for arguments in ([], ["nobody"]):
        done = kernel.run("allow", *arguments)
        assert done.returncode == 2 and "older than hydractl: every process may choose settings" in done.stderr
    assert not (kernel.hydra / "allow").exists()
    assert kernel.json("status")["allow"] is None and "may choose" not in kernel.run("status").stdout


@pytest.mark.parametrize("number, why", [(errno.EPERM, "be root"), (errno.EIO, "Input/output error")])
def test_allow_may_not_be_changed(kernel, number, why):
    done = kernel.run("allow", "nobody", preexec_fn=refuses_text("nobody", number))
    assert done.returncode == 2 and f"cannot change which processes may choose settings: {why}" in done.stderr


@pytest.mark.parametrize("word, why", [
    ("anybody", "the kernel refused the settings"), ("nobody", NOBODY), ("cap_sys_nice", "only processes with CAP_SYS_NICE, as root's, may choose settings")])
@pytest.mark.parametrize("command, status", [(["run", "true"], 125), (["stat", "true"], 125), (["set", "--policy", "linux", "12"], 2)])
def test_a_refusal_names_the_reason(kernel, word, why, command, status):
    kernel.process(12, hydra=HYDRA)
    (kernel.hydra / "allow").write_text(f"{word}\n")
    done = kernel.run(*command, preexec_fn=refuses_text("linux", errno.EPERM) if command[0] == "set" else kernel_answers(errno.EPERM))
    if command[0] == "set" and word == "anybody":
        why = "not permitted to change process 12: be its owner or root"
    assert done.returncode == status and why in done.stderr


def test_a_program_that_is_plain_linux_anyway_may_be_run(kernel):
    (kernel.hydra / "allow").write_text("nobody\n")
    refuses = kernel_answers(errno.EPERM)
    assert kernel.run("stat", "--policy", "linux", "true", preexec_fn=refuses).returncode == 0
    assert kernel.run("run", "--policy", "linux", "true", preexec_fn=refuses).returncode == 0
    (kernel.hydra / "default").write_text("hydra\n")
    done = kernel.run("run", "--policy", "linux", "true", preexec_fn=refuses)
    assert done.returncode == 125 and NOBODY in done.stderr
    assert kernel.run("run", "true", preexec_fn=ACCEPTS).returncode == 0
