# SPDX-License-Identifier: GPL-2.0-only
"""Packages on the host: man pages and completion of hydractl, the boot default, Debian's configurations, the store."""
import errno
import os
import pathlib
import re
import shlex
import subprocess
import time

import pytest

from lab import children, cli, paths
from lab.errors import LabError
from lab.machine import initramfs, programs
from lab.package import chroot, flavours, inside, kernels, releases, store, system, verb
from lab.test import server

TOOL = paths.REPO / "tools/hydractl"
DEBIAN = paths.REPO / "debian"


@pytest.fixture(scope="module")
def hydractl():
    return programs.hydractl()


@pytest.fixture(scope="module")
def commands(hydractl):
    text = subprocess.run([hydractl, "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^  ([a-z-]+)  +\S", text.partition("\nCommands")[2].partition("\n\n")[0], re.M)
    assert len(found) >= 5
    return found


@pytest.fixture(scope="module")
def pages(hydractl, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pages")
    subprocess.run([TOOL / "man/make-pages", hydractl, "1.0", directory], check=True)
    return directory


def read(page):
    return subprocess.run(["man", "--local-file", page], capture_output=True, text=True, check=True,
                          env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}).stdout


def test_each_command_has_a_man_page(pages, commands):
    assert {path.name for path in pages.iterdir()} == {"hydractl.1", *(f"hydractl-{command}.1" for command in commands)}


def test_the_man_page_names_each_command_and_its_page(pages, commands):
    text = (pages / "hydractl.1").read_text(encoding="utf-8")
    for command in commands:
        assert re.search(rf"^\.TP\n{command}\n", text, re.M) and f".BR hydractl\\-{command} (1)" in text


def test_a_page_has_the_options_of_its_command(pages, commands, hydractl):
    for command in commands:
        text = (pages / f"hydractl-{command}.1").read_text(encoding="utf-8").replace("\\-", "-").replace("\\fR", "").replace("\\fB", "")
        helped = subprocess.run([hydractl, command, "--help"], capture_output=True, text=True, check=True).stdout
        options = re.findall(r"^  +(?:-.,)? +(--[a-z-]+)", helped, re.M)
        assert "--help" in options and [option for option in options if option not in text] == []


@pytest.mark.skipif(not pathlib.Path("/usr/bin/man").exists(), reason="no man")
def test_the_page_of_the_program_is_readable(pages):
    text = read(pages / "hydractl.1")
    assert "[Service]\n" in text and "/etc/default/hydra" in text and "hydractl status\n" in text


def completed(hydractl, line):
    """The words that bash offers behind a line."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    script = f"""
        . /usr/share/bash-completion/bash_completion
        . {TOOL / 'completion.bash'}
        compopt() {{ :; }}
        COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; COMP_CWORD={len(words) - 1}
        COMP_WORDS=({shlex.join(words)})
        _hydractl hydractl "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True,
                          env={"PATH": f"{hydractl.parent}:/usr/bin:/bin", "HOME": "/"})
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_offers_each_command(hydractl, commands):
    assert completed(hydractl, "hydractl ") == commands


@pytest.mark.parametrize("line, offered", [
    ("hydractl chec", ["check"]),
    ("hydractl run --po", ["--policy="]),
    ("hydractl run -p h", ["hydra", "hydra-nofilter"]),
    ("hydractl run --domains ", ["node", "llc", "core", "auto"]),
    ("hydractl set --filter a", ["accessed", "auto"]),
    ("hydractl stat -P ", [str(degree) for degree in range(10)]),
    ("hydractl top -d ", []),
    ("hydractl status --j", ["--json"]),
    ("hydractl --vers", ["--version"]),
    ("hydractl allow ", ["anybody", "cap_sys_nice", "nobody"]),
    ("hydractl off --a", ["--all"]),
    ("hydractl set --uni", ["--unit="]),
    ("hydractl default h", ["hydra", "hydra-nofilter"]),
    ("hydractl default --n", ["--now"]),
    ("hydractl replay /etc/fsta", ["/etc/fstab"]),
    ("hydractl explain --se", ["--seconds="]),
])
def test_completion_offers(hydractl, line, offered):
    assert completed(hydractl, line) == offered


def test_completion_offers_processes(hydractl):
    assert "1" in completed(hydractl, "hydractl set --policy hydra ")


def test_completion_of_the_program_that_run_runs(hydractl):
    assert "bash" in completed(hydractl, "hydractl run bas") and "bash" in completed(hydractl, "hydractl run --policy hydra -- bas")


def test_completion_offers_every_policy(hydractl):
    policies = re.findall(r"^\t\{ \"([a-z-]+)\", '[a-z]', \"[a-z]", (TOOL / "settings.c").read_text(encoding="utf-8"), re.M)
    assert "abis" in policies and completed(hydractl, "hydractl set --policy ") == policies


def test_the_package_has_the_version_of_the_tool():
    of_tool = re.search(r"VERSION='\"([^\"]*)\"'", (TOOL / "Makefile").read_text(encoding="utf-8"))[1]
    assert re.match(r"hydractl \(([^)]*)\)", (DEBIAN / "changelog").read_text(encoding="utf-8"))[1] == of_tool


def test_the_documents_that_the_tool_names_are_in_the_package():
    texts = [path.read_text(encoding="utf-8") for path in [*TOOL.glob("*.c"), TOOL / "man/hydractl.h2m", TOOL / "man/make-pages"]]
    named = {name for text in texts for name in re.findall(r"docs/[\w-]+\.md", text)}
    shipped = [name for kind in ("docs", "examples") for name in (DEBIAN / f"hydractl.{kind}").read_text(encoding="utf-8").split()]
    inputs = {path for source in programs.SOURCES["package-hydractl"] for path in programs.files_below(paths.REPO / source)}
    pages = {name for text in texts for name in re.findall(r"[\w-]+\.(?:md|rst)(?=\.gz)", text.replace("\\", ""))}
    assert pages == {pathlib.PurePath(name).name for name in shipped if not name.startswith("tools/")}
    assert not any(re.search(r"Documentation/[\w/-]+\.rst", text.replace("\\", "")) for text in texts)
    assert "docs/hydractl.md" in named <= set(shipped) and "tools/bpftrace/flushes.bt" in shipped
    assert [name for name in shipped if paths.REPO / name not in inputs] == []
    copied = re.search(r"^cp -r --parents (.*) \S+$", (DEBIAN / "build-in").read_text(encoding="utf-8"), re.M)[1].split()
    assert [name for name in shipped if not any(name.startswith(f"{source}/") for source in copied)] == []
    assert [path for path in inputs if not any(path.match(source) or path.is_relative_to(paths.REPO / source) for source in copied)] == []


@pytest.fixture
def boot_default(tmp_path):
    """The service's script with a directory in place of /sys and /run."""
    kernel = tmp_path / "sys/kernel/mm/hydra"
    kernel.mkdir(parents=True)
    (kernel / "default").write_text("linux\n")
    (kernel / "supported").write_text("yes\n")
    script = tmp_path / "boot-default"
    text = (DEBIAN / "boot-default").read_text(encoding="utf-8")
    script.write_text(text.replace("/sys/", f"{tmp_path}/sys/").replace("/run/", f"{tmp_path}/"))

    def run(verb, default):
        return subprocess.run(["sh", script, verb], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "HYDRA_DEFAULT": default})
    return kernel / "default", run


def test_the_service_sets_the_default_and_sets_it_back(boot_default):
    default, run = boot_default
    assert run("start", "hydra").returncode == 0 and default.read_text() == "hydra\n"
    assert run("stop", "hydra").returncode == 0 and default.read_text() == "linux\n"


def test_a_default_of_hydractl_is_set_at_the_next_boot(boot_default, hydractl, tmp_path):
    """hydractl writes the file that systemd reads for the service."""
    default, run = boot_default
    file = tmp_path / "etc/default/hydra"
    file.parent.mkdir(parents=True)
    file.write_text((DEBIAN / "hydra-defaults").read_text())
    roots = {"HYDRACTL_SYS": str(tmp_path / "sys"), "HYDRACTL_ETC": str(tmp_path / "etc")}
    subprocess.run([hydractl, "default", "hydra:prefetch=4"], env=roots, check=False)
    default.write_text("linux\n")                     # a boot
    value, = re.findall(r"^HYDRA_DEFAULT=(.*)$", file.read_text(), re.M)
    assert run("start", value).returncode == 0 and default.read_text() == "hydra,prefetch=4\n"
    changed = set(file.read_text().splitlines()) ^ set((DEBIAN / "hydra-defaults").read_text().splitlines())
    assert changed == {"HYDRA_DEFAULT=auto", "HYDRA_DEFAULT=hydra,prefetch=4"}


def test_without_a_choice_the_kernels_default_stays(boot_default):
    default, run = boot_default
    assert run("start", "").returncode == 0 and run("stop", "").returncode == 0 and default.read_text() == "linux\n"


def test_a_refused_default_is_told(boot_default):
    default, run = boot_default
    default.unlink()
    default.symlink_to("/proc/version")              # can be read, and not written
    done = run("start", "hydro")
    assert done.returncode == 1 and "'hydro'" in done.stderr and "/etc/default/hydra" in done.stderr


def test_auto_where_hydra_does_not_run_is_no_failure(boot_default):
    default, run = boot_default
    default.unlink()
    default.symlink_to("/proc/version")
    (default.parent / "supported").write_text("no: Xen PV\n")
    done = run("start", "auto")
    assert done.returncode == 0 and "all programs stay plain Linux here: no: Xen PV" in done.stdout
    assert run("stop", "auto").returncode == 0


def test_what_hydra_needs_comes_from_its_kconfig():
    needs = flavours.needs()
    assert needs["NUMA"] is True and needs["PREEMPT_RT"] is False


def test_a_lost_option_is_named():
    fit = {name: "y" for name, wanted in flavours.needs().items() if wanted}
    with pytest.raises(LabError, match="CONFIG_OF_DEBIAN=m became n"):
        flavours.complain("amd64", [("OF_DEBIAN", "m", "n")], fit)
    with pytest.raises(LabError, match="CONFIG_PREEMPT_RT=y: Hydra needs n"):
        flavours.complain("rt", [("HYDRA_MM", "y", "n")], {**fit, "PREEMPT_RT": "y"})
    with pytest.raises(LabError, match="and 5 more"):
        flavours.complain("old", [(f"GONE_{number}", "y", "n") for number in range(flavours.SHOWN + 5)], fit)


def test_debians_options_stay_but_for_what_the_tools_decide():
    given = {"NUMA": "y", "GCC_VERSION": "120200", "MODULE_SIG": "y", "LOCALVERSION": '""'}
    assert flavours.with_hydra(given, "amd64") == {"NUMA": "y", "MODULE_SIG": "y", "MODULE_SIG_ALL": "y", "HYDRA_MM": "y",
                                                   "LOCALVERSION": '"-amd64-hydra"'}


@pytest.mark.parametrize("given, added", [({"KVM_AMD": "m"}, True), ({"KVM_INTEL": "y"}, True), ({"KVM": "m"}, False), ({}, False)])
def test_virtual_machines_have_hydra_where_there_is_kvm(given, added):
    assert ("KVM_HYDRA" in flavours.with_hydra(given, "amd64")) == added


def test_the_image_depends_on_what_makes_it_boot():
    control = "Source: linux-hydra\n\nPackage: linux-image-6.12-hydra\nArchitecture: amd64\n\nPackage: linux-libc-dev\nX: y\n\n" \
              "Package: linux-image-6.12-hydra-dbg\nSection: debug\n"
    made = kernels.improved(control)
    assert made.count("Depends: initramfs-tools") == 1 and "hydra\nDepends:" in made and "linux-libc-dev" not in made and made.endswith("debug\n")


def test_programs_of_the_headers_are_stripped_and_keep_their_dates(tmp_path):
    program, script, unlinked = tmp_path / "scripts/basic/fixdep", tmp_path / "scripts/mkversion", tmp_path / "scripts/mod/empty.o"
    for path in (program, unlinked):
        path.parent.mkdir(parents=True)
    for words in (["-o", program], ["-c", "-o", unlinked]):
        subprocess.run(["gcc", "-x", "c", *words, "-"], input="int main(void) { return 0; }", text=True, check=True)
    script.write_text("#!/bin/sh\n", encoding="ascii")
    script.chmod(0o755)
    os.utime(program, (1000, 1000))
    kernels.strip_programs(tmp_path)

    def symbols(path):
        return subprocess.run(["nm", path], capture_output=True, text=True, check=False).stdout
    assert not symbols(program) and program.stat().st_mtime == 1000
    assert "main" in symbols(unlinked) and script.read_text(encoding="ascii") == "#!/bin/sh\n"
    assert subprocess.run([program], check=False).returncode == 0


def test_an_interrupted_build_goes_on_with_its_version(cache, tmp_path, monkeypatch):
    (tmp_path / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 9\n")
    monkeypatch.setenv("HYDRA_LINUX_SRC", str(tmp_path))
    shop = kernels.Workshop(tmp_path, "package", "amd64")
    first = kernels.version_of(shop, "a")
    assert re.fullmatch(r"6\.12\.9-1\+hydra\d{8}\.\d{4}", first["version"])
    monkeypatch.setattr(kernels.time, "gmtime", lambda: time.struct_time((2040, 1, 1, 0, 0, 0, 0, 1, 0)))
    assert kernels.version_of(shop, "a") == first and kernels.version_of(shop, "b")["version"] == "6.12.9-1+hydra20400101.0000"


def test_a_first_build_estimates_its_steps_by_the_options(cache, tmp_path):
    shop = kernels.Workshop(tmp_path, "package", "amd64")
    (shop.objects / ".config").write_text("CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_D=12\n")
    assert kernels.steps(shop) == int(2 * kernels.STEPS_PER_OPTION)
    (shop.home / "steps").write_text("77")
    assert kernels.steps(shop) == 77
    (shop.objects / "vmlinux.a").touch()
    assert kernels.steps(shop) is None


@pytest.mark.parametrize("words, message", [
    (["--only", "hydractl", "--flavour", "amd64"], "mean nothing there"),
    (["--flavour", "amd64", "--flavour", "cloud-amd64", "--config", "x"], "one flavour"),
    (["--config", "/nonexistent"], "cannot read the configuration /nonexistent"),
])
def test_wrong_arguments_are_told_before_any_work(tmp_path, words, message):
    with pytest.raises(LabError, match=message):
        verb.package_verb(cli.parser().parse_args(["package", str(tmp_path / "out"), *words]))
    assert not (tmp_path / "out").exists()


def test_the_release_of_this_machine_is_debians_name():
    version = pathlib.Path("/etc/debian_version").read_text(encoding="ascii").partition(".")[0].strip()
    assert releases.title(releases.here()) in (f"Debian {version}", f"Debian {releases.here()}")


@pytest.mark.parametrize("words, kinds", [
    ([], ["hydractl", "amd64"]), (["--only", "hydractl"], ["hydractl"]), (["--only", "kernel", "--flavour", "cloud-amd64"], ["cloud-amd64"]),
    (["--config", "my.config"], ["hydractl", "amd64"])])
def test_for_another_release_the_lab_there_is_told_the_same(cache, tmp_path, monkeypatch, words, kinds):
    (tmp_path / "my.config").write_text("CONFIG_NUMA=y\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb.setup, "ensure_packages", lambda _: None)
    told = []

    def run(release, command, shared):
        told.append((release, command, shared))
        there = cli.parser().parse_args([str(word) for word in command[1:]])
        assert verb.kinds_of(there) == kinds and pathlib.Path(there.directory) == shared[0] == tmp_path / "out"
        assert not there.config or pathlib.Path(there.config).read_text(encoding="utf-8") == "CONFIG_NUMA=y\n"
        assert bool(there.config) == ("--config" in words)
        return f"{tmp_path}/out/a.deb\n"
    monkeypatch.setattr(verb.inside, "run", run)
    other = next(release for release in releases.TITLES if release != releases.here())
    assert verb.package_verb(cli.parser().parse_args(["package", "out", "--release", other, *words])) == 0
    assert [release for release, _, _ in told] == [other]


def test_a_function_called_in_another_release_gets_its_words_and_returns_texts(monkeypatch):
    monkeypatch.setattr(inside, "run", lambda _, command: subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert inside.call("another", releases.title, "trixie") == inside.call(releases.here(), releases.title, "trixie") == "Debian 13"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_system_sees_what_it_shares_with_this_machine_and_nothing_else(tmp_path):
    root, shared = tmp_path / "root", tmp_path / "shared"
    for name in ("proc", "sys", "dev", "bin"):
        (root / name).mkdir(parents=True)
    shared.mkdir()
    (shared / "file").write_text("seen")
    initramfs.lay(root, [initramfs.program(name) for name in ("env", "cat", "ls")])
    assert children.run(chroot.entered(root, ["cat", shared / "file"], [shared])) == (0, "seen")
    assert children.run(chroot.entered(root, ["ls", tmp_path, "/"], [pathlib.Path("/"), shared]))[1].count("shared") == 1
    assert "NAME=value" in children.run(chroot.entered(root, ["env"], NAME="value"))[1] and not list((root / "proc").iterdir())


def test_the_server_has_a_service_with_a_drop_in_and_the_tests(tmp_path):
    program = tmp_path / "coherence"
    program.write_text("")
    server.prepare(tmp_path / "root", "6.12-hydra", [program])
    units = tmp_path / "root/etc/systemd/system"
    assert "ExecStart=\nExecStart=hydractl run -- " in (units / "hydra-test-dropin.service.d/hydra.conf").read_text()
    assert "RELEASE=6.12-hydra" in (units / "hydra-test.service").read_text()
    assert "'/opt/hydra-test/coherence -V" in (units / "hydra-test-programs.service").read_text()
    assert (tmp_path / "root/opt/hydra-test/coherence").exists()


# What a machine does, as commands of a shell in its directory: the seconds of a boot end with the first message, and a boot without one is made again.
HANGS, STARTS = "sleep 99", "echo '[ 0.0] Linux' >console.log; sleep 5; printf '### begin packages\\nok 1 - a\\n### end packages 0\\n' >results"


@pytest.mark.parametrize("machines, boots, passed", [([STARTS], 1, True), ([HANGS, STARTS], 2, True), ([HANGS] * 3, 2, False)])
def test_a_server_that_hangs_before_its_first_message_is_booted_again(cache, tmp_path, monkeypatch, machines, boots, passed):
    made = []

    def emulator(_machine, _disk, directory):
        made.append(directory)
        return ["sh", "-c", f"cd {directory} && {machines[len(made) - 1]}"]
    monkeypatch.setattr(system, "emulator", emulator)
    monkeypatch.setattr(system.vm, "BOOT_LIMIT", 4)
    monkeypatch.setattr(server, "BOOTS", 2)
    outcomes = server.in_emulator(system.System(tmp_path), "a Debian", [])
    assert len(made) == boots and all(not outcome.failed for outcome in outcomes) == passed


def test_packages_are_kept_whole_and_found_by_their_inputs(cache, tmp_path):
    package = tmp_path / "a.deb"
    package.write_text("a")
    assert store.find("amd64", "0" * 16) == []
    kept = store.keep("amd64", "0" * 16, [package])
    assert store.find("amd64", "0" * 16) == kept and [path.read_text() for path in kept] == ["a"]
    for number in range(1, 8):
        store.keep("amd64", f"{number:016}", [package])
    assert len(list((cache / "packages").iterdir())) == store.KEEP


def test_what_a_package_needs_is_read_from_the_package(tmp_path):
    control = tmp_path / "a/DEBIAN/control"
    control.parent.mkdir(parents=True)
    control.write_text("Package: a\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b.c>\nDescription: a\nDepends: libc6 (>= 2.34), x | y\n")
    subprocess.run(["dpkg-deb", "--build", tmp_path / "a", tmp_path / "a.deb"], check=True, capture_output=True)
    assert chroot.needed([tmp_path / "a.deb"]) == ["libc6", "x"]


def test_a_full_disk_leaves_no_package(cache, tmp_path, monkeypatch):
    def full(_source, target):
        target.write_text("a part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
    monkeypatch.setattr(store.shutil, "copyfile", full)
    with pytest.raises(OSError):
        store.keep("amd64", "0" * 16, [tmp_path / "a.deb"])
    with pytest.raises(OSError):
        store.deliver([tmp_path / "a.deb"], tmp_path)
    assert store.find("amd64", "0" * 16) == [] and list((cache / "packages").iterdir()) == [] and list(tmp_path.glob("*.deb*")) == []


def test_what_is_delivered_is_whole(tmp_path):
    package = tmp_path / "a.deb"
    package.write_text("a")
    target = tmp_path / "out"
    target.mkdir()
    assert store.deliver([package], target) == [target / "a.deb"]
    with pytest.raises(OSError):
        store.deliver([tmp_path / "missing.deb"], target)
    assert [path.name for path in target.iterdir()] == ["a.deb"]


def test_a_directory_that_may_not_be_written_is_told_before_the_build(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="cannot write"):
        verb.output_directory(tmp_path / "file/below")
