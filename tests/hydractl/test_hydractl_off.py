# SPDX-License-Identifier: GPL-2.0-only
"""hydractl off: processes become plain Linux; hydractl allow: which processes may choose settings; hydractl default: those of all others."""
import errno
import json

import pytest

from faked_kernel import ACCEPTS, HYDRA, kernel_answers, refuses_changes, refuses_files, refuses_text

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


# default

ETC = "# A comment\nHYDRA_DEFAULT=auto\n# Another\n"


@pytest.fixture
def package(kernel, tmp_path):
    """The files of the package, with the service enabled; run() is hydractl's."""
    wants = tmp_path / "etc/systemd/system/sysinit.target.wants"
    wants.mkdir(parents=True)
    (wants / "hydra.service").touch()
    (tmp_path / "etc/default").mkdir()
    (tmp_path / "etc/default/hydra").write_text(ETC)
    (kernel.hydra / "default").write_text("auto\n")
    kernel.etc = tmp_path / "etc"
    kernel.default = lambda *arguments, **options: kernel.run("default", *arguments, environment={"HYDRACTL_ETC": str(kernel.etc)}, **options)
    return kernel


def now_and_file(kernel):
    return (kernel.hydra / "default").read_text(), (kernel.etc / "default/hydra").read_text()


@pytest.mark.parametrize("words, settings", [
    (["hydra"], "hydra"), (["linux"], "linux"), (["hydra,prefetch=4"], "hydra,prefetch=4"), (["hydra:prefetch=4:filter=entry"], "hydra,prefetch=4,filter=entry"),
    (["--policy", "hydra", "--prefetch", "4"], "hydra,prefetch=4"), (["hydra-nofilter"], "hydra,filter=none"), (["hydra-nofilter,prefetch=1"], "hydra,prefetch=1,filter=none"),
    (["hydra,filter=table"], "hydra"), (["hydra,domains=core,filter=accessed"], "abis"), (["mitosis", "--domains", "core"], "mitosis,domains=core")])
def test_a_default_holds_now_and_after_a_boot(package, words, settings):
    """In the kernel's names: the file is for the kernel's file."""
    done = package.default(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert now_and_file(package) == (settings, f"# A comment\nHYDRA_DEFAULT={settings}\n# Another\n")
    assert package.default().stdout == f"now      {settings}\nat boot  {settings} ({package.etc}/default/hydra)\n"


def test_a_default_until_the_next_boot(package):
    assert package.default("hydra", "--now").returncode == 0 and now_and_file(package) == ("hydra", ETC)
    assert package.default().stdout.startswith("now      hydra\nat boot  auto (")
    (package.etc / "default/hydra").unlink()
    assert package.default("linux", "-N").returncode == 0


@pytest.mark.parametrize("text, value, changed", [
    ("HYDRA_DEFAULT=\n", None, "HYDRA_DEFAULT=hydra\n"), ("", None, "HYDRA_DEFAULT=hydra\n"), ("# no newline", None, "# no newline\nHYDRA_DEFAULT=hydra\n"),
    ("HYDRA_DEFAULT='mitosis'\nHYDRA_DEFAULT=\"abis\" \nX=1\n", "abis", "HYDRA_DEFAULT=hydra\nX=1\n"), ("#HYDRA_DEFAULT=abis\n", None, "#HYDRA_DEFAULT=abis\nHYDRA_DEFAULT=hydra\n")])
def test_files_as_people_write_them(package, text, value, changed):
    (package.etc / "default/hydra").write_text(text)
    got = json.loads(package.default("--json").stdout)
    assert got == {"now": "auto", "boot": value, "enabled": True}
    assert package.default("hydra").returncode == 0 and now_and_file(package)[1] == changed


def test_a_service_that_is_not_enabled(package):
    (package.etc / "systemd/system/sysinit.target.wants/hydra.service").unlink()
    done = package.default("hydra")
    assert done.returncode == 2 and "holds until the next boot only, as the service is not enabled: 'systemctl enable hydra'" in done.stderr
    assert now_and_file(package)[0] == "hydra" and "HYDRA_DEFAULT=hydra\n" in now_and_file(package)[1]
    assert package.default().stdout.endswith("at boot  the kernel's: the service hydra is not enabled\n")


@pytest.mark.parametrize("number, why", [(errno.EPERM, "cannot change the default: be root"), (errno.EINVAL, "the kernel refused the settings 'hydra'"),
                                         (errno.EOPNOTSUPP, "this kernel, or this machine, cannot do 'hydra'")])
def test_a_default_that_the_kernel_refuses(package, number, why):
    done = package.default("hydra", preexec_fn=refuses_changes(number))
    assert done.returncode == 2 and why in done.stderr and now_and_file(package) == ("auto\n", ETC)


def test_a_default_without_the_package(package):
    (package.etc / "default/hydra").unlink()
    done = package.default("hydra")
    assert done.returncode == 2 and "from which the service hydra sets the default at boot" in done.stderr and (package.hydra / "default").read_text() == "auto\n"


def test_a_file_that_cannot_be_written_changes_nothing(package):
    done = package.default("hydra", preexec_fn=refuses_files(errno.EROFS))
    assert done.returncode == 2 and f"cannot write {package.etc}/default/hydra: Read-only file system; the default stays 'auto'" in done.stderr
    assert now_and_file(package)[0] == "auto" and now_and_file(package)[1] == ETC


@pytest.mark.parametrize("words, message", [
    (["prefetch=4"], "name a policy, too"), (["--now"], "name a policy, too"), (["hydra", "linux"], "one policy only, with its settings behind commas"), (["hydro"], "unknown policy 'hydro'")])
def test_wrong_usage_of_default(package, words, message):
    done = package.default(*words)
    assert done.returncode == 2 and message in done.stderr and now_and_file(package) == ("auto\n", ETC)
