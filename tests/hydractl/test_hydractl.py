# SPDX-License-Identifier: GPL-2.0-only
"""hydractl on the host: arguments, exit statuses, and parsing, with trees of files in place of /proc and /sys."""

import errno
import json
import os
import subprocess

import pytest

from faked_kernel import ACCEPTS, HYDRA, OLDER_HYDRA, kernel_answers, make

TABLES = """\
domain 0 node 0 local_leaves 900 remote_leaves 100 hinting_leaves 20
domain 1 node 1 local_leaves 0 remote_leaves 0 hinting_leaves 0
node 0 pagetable_kib 812
node 1 pagetable_kib 8
"""

CHECK_BAD = """\
violation 1 address 0x7f0000001000 domain 1: maps frame 0x12, the canonical entry 0x13: "wrong"
violation 3 address 0x7f0000200000 domain 0: not a sharer
violations 5
"""


def assert_makes_no_sense(kernel, command, file):
    """A command with --json ends with an error that names the file, and prints no data for a script."""
    done = kernel.run(*command, "--json")
    assert done.returncode == 2
    assert f"cannot make sense of {file}" in done.stderr
    assert done.stdout == ""


# Arguments

@pytest.mark.parametrize("command, status", [(["run"], 125), (["set", "1"], 2)])
@pytest.mark.parametrize("option, value, message", [
    ("--policy", "hydra,prefech=4", "unknown setting 'prefech': choose domains, replication, prefetch or filter, as in hydra,prefetch=4"),
    ("--policy", "hydra,prefetch", "unknown setting 'prefetch'"),
    ("--policy", "hydra,,prefetch=4", "unknown setting ''"),
    ("--policy", "hydra,prefetch=10", "prefetch degree '10' is not a number from 0 to 9"),
    ("--policy", "hydra:filter=page", "unknown filter 'page': choose none, table, entry, accessed or auto"),
    ("--policy", "linux,prefetch=4", "policy 'linux' replicates nothing"),
    ("--policy", "prefetch=4,hydra", "unknown setting 'hydra'"),
    ("--policy", "", "unknown policy ''"),
    ("--policy", "hydro", "unknown policy 'hydro': choose linux, hydra, mitosis, radixvm, abis, auto or hydra-nofilter"),
    ("--filter", "page", "unknown filter 'page': choose none, table, entry, accessed or auto"),
    ("--domains", "socket", "unknown domains 'socket': choose node, llc, core or auto"),
    ("--replication", "now", "unknown replication 'now': choose lazy or eager"),
    ("--prefetch", "10", "prefetch degree '10' is not a number from 0 to 9"),
    ("--prefetch", "-1", "prefetch degree '-1' is not a number from 0 to 9"),
    ("--prefetch", "3x", "prefetch degree '3x' is not a number from 0 to 9"),
    ("--prefetch", "", "prefetch degree '' is not a number from 0 to 9"),
    ("--prefetch", " 3", "prefetch degree ' 3' is not a number from 0 to 9"),
    ("--prefetch", "18446744073709551619", "is not a number from 0 to 9"),
])
def test_bad_setting_is_refused(kernel, command, status, option, value, message):
    arguments = [*command, f"{option}={value}"] + (["true"] if command == ["run"] else [])
    done = kernel.run(*arguments, preexec_fn=ACCEPTS)
    assert done.returncode == status
    assert message in done.stderr
    assert "--help" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments, status, message", [
    ([], 2, "no command"),
    (["fly"], 2, "unknown command 'fly'"),
    (["run"], 125, "no program to run"),
    (["run", "--policy", "linux", "--filter", "none", "true"], 125, "policy 'linux' replicates nothing"),
    (["set", "1"], 2, "nothing to set"),
    (["set", "--policy", "hydra"], 2, "no process named: give PIDs, --tree, --cgroup, --unit or --all"),
    (["set", "--policy", "hydra", "1", "--all"], 2, "give PIDs or --system, not both"),
    (["set", "--vm", "--policy", "hydra", "1", "2"], 2, "--vm needs one PID"),
    (["status", "1", "--json", "--csv"], 2, "give --json or --csv, not both"),
    (["stat", "--repeat", "0", "true"], 125, "'0' is not a number of runs from 1 to 10000"),
    (["run", "--unit", "nginx"], 125, "no program to run"),
    (["stat"], 125, "no program to run"),
    (["off"], 2, "no process named"),
    (["off", "1", "--all"], 2, "give PIDs or --system, not both"),
    (["off", "--all", "--tree", "1"], 2, "give one of --tree, --cgroup, --unit and --system"),
    (["allow", "root"], 2, "unknown word 'root': choose anybody, cap_sys_nice or nobody"),
    (["allow", "nobody", "anybody"], 2, "one word only"),
    (["tables"], 2, "no PID given"),
    (["check"], 2, "no PID given"),
    (["status", "1", "2"], 2, "one PID only"),
    *[([command, pid], 2, f"'{pid}' is not a PID") for command in ("status", "tables", "check")
      for pid in ("0", "self", "+1", "99999999999", "1 ")],
])
def test_wrong_usage(kernel, arguments, status, message):
    done = kernel.run(*arguments, preexec_fn=ACCEPTS)
    assert done.returncode == status
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", [[], ["run"], ["set"], ["status"], ["tables"], ["check"], ["export"], ["top"], ["stat"], ["off"], ["allow"], ["explain"], ["why"]])
def test_help_teaches(kernel, command):
    done = kernel.run(*command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: " + " ".join(["hydractl", *command]))
    assert "Exit status: " in done.stdout


@pytest.mark.parametrize("arguments, status", [
    (["run", "true"], 125), (["set", "--policy", "hydra", "1"], 2), (["status"], 2), (["status", "1"], 2),
    (["tables", "1"], 2), (["check", "1"], 2), (["export"], 2),
    (["top", "--batch"], 2), (["stat", "true"], 125), (["off", "--all"], 2), (["allow", "nobody"], 2), (["explain", "1"], 2), (["why", "1"], 2),
])
def test_kernel_without_hydra(kernel, arguments, status):
    kernel.process(1, hydra=HYDRA, hydra_tables=TABLES, hydra_check="ok tables 1 entries 1\n")
    for path in kernel.hydra.iterdir():
        path.unlink()
    kernel.hydra.rmdir()
    done = kernel.run(*arguments, preexec_fn=ACCEPTS)
    assert done.returncode == status
    assert done.stderr == (f"hydractl: this kernel has no Hydra ({kernel.hydra} is missing): "
                           "boot a kernel built with CONFIG_HYDRA_MM\n")
    assert done.stdout == ""
    assert (kernel.proc / "1" / "hydra").read_text() == HYDRA


# run

def test_run_gives_the_exit_status_of_the_program(kernel):
    assert kernel.run("run", "true", preexec_fn=ACCEPTS).returncode == 0
    assert kernel.run("run", "--", "sh", "-c", "exit 7", preexec_fn=ACCEPTS).returncode == 7
    assert kernel.run("run", "sh", "-c", "kill -TERM $$", preexec_fn=ACCEPTS).returncode == -15


def test_run_leaves_the_options_of_the_program_alone(kernel):
    done = kernel.run("run", "--policy", "hydra", "--prefetch", "0", "echo", "--policy", "x", "--", "-n",
                      preexec_fn=ACCEPTS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "--policy x -- -n\n", "")


def test_run_leaves_files_and_signals_alone(kernel):
    look = ["sh", "-c", "ls /proc/self/fd; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"]
    reader, writer = os.pipe()
    try:
        options = {"pass_fds": (reader, writer), "preexec_fn": ACCEPTS, "stdin": subprocess.DEVNULL}
        direct = subprocess.run(look, capture_output=True, text=True, check=True, **options)
        assert kernel.run("run", *look, **options).stdout == direct.stdout
    finally:
        os.close(reader)
        os.close(writer)


def test_run_without_such_a_program(kernel):
    done = kernel.run("run", "no-such-program-anywhere", preexec_fn=ACCEPTS)
    assert done.returncode == 127
    assert done.stderr == "hydractl: cannot run 'no-such-program-anywhere': No such file or directory\n"


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_run_what_is_not_executable(kernel, tmp_path, kind):
    path = tmp_path / "it"
    if kind == "file":
        path.write_text("text\n")
    else:
        path.mkdir()
    done = kernel.run("run", path, preexec_fn=ACCEPTS)
    assert done.returncode == 126
    assert done.stderr == f"hydractl: cannot run '{path}': Permission denied\n"


def test_run_settings_the_kernel_cannot_do(kernel, tmp_path):
    done = kernel.run("run", "--filter", "entry", "touch", tmp_path / "it", preexec_fn=kernel_answers(errno.EOPNOTSUPP))
    assert done.returncode == 125
    assert "cannot do 'hydra,domains=node,replication=lazy,prefetch=9,filter=entry': choose --domains node, --replication lazy, and --filter none" in done.stderr
    assert not (tmp_path / "it").exists()


NOT_ACCESSED = "no filter=accessed: the vendor of this CPU promises nothing"


def test_run_says_why_the_machine_cannot(kernel):
    (kernel.hydra / "supported").write_text(f"yes\n{NOT_ACCESSED}\n")
    refuses = kernel_answers(errno.EOPNOTSUPP)
    done = kernel.run("run", "--filter", "accessed", "true", preexec_fn=refuses)
    assert done.returncode == 125
    assert f"cannot do 'hydra,domains=node,replication=lazy,prefetch=9,filter=accessed' ({NOT_ACCESSED[3:]})" in done.stderr
    done = kernel.run("run", "--filter", "entry", "true", preexec_fn=refuses)
    assert done.returncode == 125
    assert "filter=entry': choose --domains node, --replication lazy, and --filter none" in done.stderr


def test_status_says_what_the_machine_cannot(kernel):
    (kernel.hydra / "supported").write_text(f"yes\n{NOT_ACCESSED}\nno more: than that\n")
    got = kernel.json("status")
    assert (got["supported"], got["missing"]) == ("yes", [NOT_ACCESSED, "no more: than that"])
    shown = kernel.run("status").stdout
    assert f"supported                  yes\n{' ' * 27}{NOT_ACCESSED}\n{' ' * 27}no more: than that\nreplica limit" in shown


def test_run_on_a_machine_that_cannot(kernel):
    (kernel.hydra / "supported").write_text("no: Xen PV guest\n")
    done = kernel.run("run", "true", preexec_fn=kernel_answers(errno.EOPNOTSUPP))
    assert done.returncode == 125
    assert "Hydra cannot work on this machine (no: Xen PV guest)" in done.stderr


def test_run_says_why_the_kernel_refused(kernel):
    done = kernel.run("run", "--policy", "linux", "true", preexec_fn=kernel_answers(errno.EINVAL))
    assert done.returncode == 125
    assert "the kernel refused the settings 'linux': Invalid argument" in done.stderr


# set

@pytest.mark.parametrize("options, written", [
    (["--policy", "linux"], "linux"),
    (["--policy", "hydra"], "hydra,domains=node,replication=lazy,prefetch=9,filter=table"),
    (["--policy", "hydra-nofilter"], "hydra,domains=node,replication=lazy,prefetch=9,filter=none"),
    (["--policy", "hydra", "--prefetch", "0", "--filter", "accessed"],
     "hydra,domains=node,replication=lazy,prefetch=0,filter=accessed"),
    (["--policy", "hydra,prefetch=4"], "hydra,domains=node,replication=lazy,prefetch=4,filter=table"),
    (["--policy", "hydra:prefetch=4:filter=entry"], "hydra,domains=node,replication=lazy,prefetch=4,filter=entry"),
    (["--policy", "hydra,prefetch=4", "--prefetch", "3"], "hydra,domains=node,replication=lazy,prefetch=3,filter=table"),
    (["--policy", "prefetch=2"], "hydra,domains=llc,replication=eager,prefetch=2,filter=entry"),
    (["-p", "hydra", "-P", "4", "-R", "eager"], "hydra,domains=node,replication=eager,prefetch=4,filter=table"),
    (["-p", "hydra", "-d", "4", "-r", "eager"], "hydra,domains=node,replication=eager,prefetch=4,filter=table"),
    (["--policy", "hydra", "--filter", "entry"], "hydra,domains=node,replication=lazy,prefetch=9,filter=entry"),
    (["--policy", "hydra", "--filter", "auto"], "hydra,domains=node,replication=lazy,prefetch=9,filter=auto"),
    (["--policy", "mitosis"], "hydra,domains=node,replication=eager,prefetch=9,filter=none"),
    (["--replication", "lazy"], "hydra,domains=llc,replication=lazy,prefetch=4,filter=entry"),
    (["--policy", "radixvm"], "hydra,domains=core,replication=lazy,prefetch=0,filter=entry"),
    (["--policy", "abis"], "hydra,domains=core,replication=lazy,prefetch=9,filter=accessed"),
    (["--policy", "auto"], "hydra,domains=auto,replication=lazy,prefetch=9,filter=auto"),
    (["--policy", "auto", "--filter", "table"], "hydra,domains=auto,replication=lazy,prefetch=9,filter=table"),
    (["--policy", "abis", "--domains", "llc"], "hydra,domains=llc,replication=lazy,prefetch=9,filter=accessed"),
    (["--domains", "core"], "hydra,domains=core,replication=eager,prefetch=4,filter=entry"),
    (["--prefetch", "2"], "hydra,domains=llc,replication=eager,prefetch=2,filter=entry"),
    (["--filter", "none"], "hydra,domains=llc,replication=eager,prefetch=4,filter=none"),
])
def test_set_writes_the_text_form(kernel, options, written):
    now = "policy custom\ndomains llc\nreplication eager\nprefetch 4\nfilter entry\nactive 1\n"
    directory = kernel.process(7, hydra=now)
    done = kernel.run("set", *options, 7)
    # The file now has what was written, not what the kernel would say.
    assert (done.returncode, done.stdout) == (0, "") and "process 7 has the settings, but hydractl cannot make sense of" in done.stderr
    assert (directory / "hydra").read_text() == written


def test_set_of_one_setting_needs_a_policy_that_has_it(kernel):
    now = "policy linux\ndomains machine\nreplication lazy\nprefetch 0\nfilter none\nactive 0\n"
    directory = kernel.process(7, hydra=now)
    done = kernel.run("set", "--prefetch", "2", 7)
    assert done.returncode == 2
    assert "give --policy too" in done.stderr
    assert (directory / "hydra").read_text() == now


@pytest.mark.parametrize("line", ["domains galaxy", "prefetch 10", "prefetch many", "filter 1"])
def test_set_does_not_build_on_what_it_does_not_understand(kernel, line):
    key = line.split()[0]
    now = "".join(line + "\n" if old.startswith(key + " ") else old + "\n" for old in HYDRA.splitlines())
    directory = kernel.process(7, hydra=now)
    done = kernel.run("set", "--prefetch" if key != "prefetch" else "--filter", "1" if key != "prefetch" else "none", 7)
    assert done.returncode == 2
    assert "cannot make sense of" in done.stderr
    assert (directory / "hydra").read_text() == now


@pytest.mark.parametrize("command", [["set", "--policy", "hydra"], ["status"], ["tables"], ["check"]])
def test_no_such_process(kernel, command):
    done = kernel.run(*command, 4242)
    assert done.returncode == 2
    assert done.stderr == "hydractl: no process 4242\n"


@pytest.mark.parametrize("command, file", [("status", "hydra"), ("tables", "hydra_tables"), ("check", "hydra_check")])
@pytest.mark.parametrize("files", [True, False])
def test_kernel_thread(kernel, command, file, files):
    # The kernel's file is empty, or opening it fails (ESRCH; here ENOENT).
    kernel.process(2, "kthreadd", **({file: ""} if files else {}))
    done = kernel.run(command, 2)
    assert done.returncode == 2
    assert "process 2 has no user memory (a kernel thread, " in done.stderr


NAMES = [
    ("größer 本", "größer 本", "größer 本"),
    (b"\033[31mRED\033]0;x\007", "\\033[31mRED\\033]0;x\\007", "\033[31mRED\033]0;x\007"),
    (b"line\nbreak\x7f", "line\\012break\\177", "line\nbreak\x7f"),
    ("csi\u009b31m", "csi\\302\\23331m", "csi\u009b31m"),
    ("rtl\u202e", "rtl\\342\\200\\256", "rtl\u202e"),
    (b"\xff\xc3(\xc0\x80", "\\377\\303(\\300\\200", "\ufffd\ufffd(\ufffd\ufffd"),
    (b"cut \xe2\x82", "cut \\342\\202", "cut \ufffd\ufffd"),
    (b"\xed\xa0\x80\xf4\x90\x80\x80", "\\355\\240\\200\\364\\220\\200\\200", 7 * "\ufffd"),
    ('odd "name"\\', 'odd "name"\\', 'odd "name"\\'),
]


@pytest.mark.parametrize("name, shown, in_json", NAMES)
def test_names_of_any_bytes(kernel, name, shown, in_json):
    kernel.process(12, name, hydra=HYDRA, hydra_tables=TABLES, hydra_check="ok tables 1 entries 1\n")
    for command in (["status", 12], ["tables", 12], ["check", 12], ["status"]):
        done = kernel.run(*command)
        assert done.returncode == 0 and (f"process 12 ({shown})" if len(command) == 2 else f" {shown} ") in done.stdout
        assert not any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in done.stdout)
        text = kernel.run(*command, "--json").stdout
        assert text.isprintable() or text[:-1].isprintable()
        got = json.loads(text)
        assert (got["processes"][0] if len(command) == 1 else got)["comm"] == in_json


def test_the_columns_of_the_table_stay_in_place(kernel):
    kernel.process(12, "größer", hydra=HYDRA)
    kernel.process(13, "groesser", hydra=HYDRA)
    assert len({line.index(" hydra ") for line in kernel.run("status").stdout.splitlines() if "sser" in line or "ßer" in line}) == 1


# status

def test_status_of_a_process(kernel):
    kernel.process(12, hydra=HYDRA)
    got = kernel.json("status", 12)
    assert got == {
        "pid": 12, "comm": "httpd", "policy": "hydra", "domains": "node", "replication": "lazy", "prefetch": 9,
        "filter": "table", "active": 1, "split": 1, "count": 0, "fills": 12, "prefetched": 3400, "propagated": 56, "flushes": 78,
        "cpus_interrupted": 9, "cpus_interrupted_across": 8, "cpus_spared": 1234, "fallbacks": 0, "reclaimed": 4, "forgotten": 6, "barriers": 3, "replica_tables": 21,
        "replica_kib": 84, "upper_tables": 6, "split_state": "split",
        "per_domain": [
            {"domain": 0, "node": 0, "root": "own", "replica_tables": 10, "replica_kib": 40, "upper_tables": 3,
             "fills": 5, "forgotten": 2},
            {"domain": 1, "node": 1, "root": "canonical", "replica_tables": 11, "replica_kib": 44, "upper_tables": 3,
             "fills": 7, "forgotten": 4},
        ],
    }
    lines = [line.split() for line in kernel.run("status", 12).stdout.splitlines()]
    assert ["process", "12", "(httpd)"] in lines
    assert ["cpus_spared", "1234"] in lines
    assert ["1", "1", "canonical", "11", "44", "3", "7", "4"] in lines


def test_status_says_of_a_process_that_is_not_under_hydra_why_nothing_moves(kernel):
    kernel.process(12, hydra=HYDRA.replace("active 1", "active 0"))
    assert kernel.run("status", 12).stdout.startswith("process 12 (httpd): not under Hydra, its counters stand still\n")


def test_status_of_a_process_that_is_counted_under_linux(kernel):
    counted = HYDRA.replace("active 1", "active 0").replace("count 0", "count 1").replace("replica_tables 21", "ended_flushes 5\nreplica_tables 21")
    kernel.process(12, hydra=counted)
    assert kernel.run("status", 12).stdout.startswith("process 12 (httpd): not under Hydra, but its flushes are counted\n")
    assert kernel.json("status", 12)["ended_flushes"] == 5


def test_an_older_kernel_does_not_tell_what_went_to_other_nodes(kernel):
    """The counter is missing, not 0."""
    kernel.process(12, hydra=OLDER_HYDRA)
    assert "cpus_interrupted_across" not in kernel.json("status", 12) | kernel.json("status", "--tree", 12)
    assert "across" not in kernel.run("status", "--tree", 12).stdout + kernel.run("status", 12).stdout
    kernel.process(13, hydra=HYDRA)
    assert kernel.json("status", "--tree", 13)["cpus_interrupted_across"] == 8


def test_status_passes_on_what_later_kernels_add(kernel):
    kernel.process(12, hydra=HYDRA.replace("fills 12\n", "fills 12\nnew_counter 5\n") + "epoch 3 of 4\n")
    assert kernel.json("status", 12)["new_counter"] == 5


@pytest.mark.parametrize("text, named", [
    (HYDRA.replace("flushes 78\n", ""), "flushes"),
    (HYDRA.replace("flushes 78\n", "flushes\n"), "flushes"),
    (HYDRA.replace("flushes 78\n", "flushes -78\n"), "flushes"),
    (HYDRA.replace("flushes 78\n", "flushes 0x4e\n"), "flushes"),
    (HYDRA.replace("flushes 78\n", "flushes 99999999999999999999\n"), "flushes"),
    (HYDRA.replace("policy hydra\n", ""), "policy"),
    (HYDRA.replace("count 0", "count some"), "count"),
    (HYDRA.replace("cpus_interrupted_across 8", "cpus_interrupted_across -8"), "cpus_interrupted_across"),
    (HYDRA + "ended_fills many\n", "ended_fills"),
    (HYDRA.replace("barriers 3", "barriers few"), "barriers"),
    ("x " * 99 + "\n", "Bad message"),
])
def test_status_that_makes_no_sense(kernel, text, named):
    kernel.process(12, hydra=text)
    kernel.process(13, "other", hydra=HYDRA)
    assert_makes_no_sense(kernel, ["status", 12], f"{kernel.proc}/12/hydra ({named})")
    # One process does not hide the others.
    done = kernel.run("status", "--json")
    assert done.returncode == 0 and [process["comm"] for process in json.loads(done.stdout)["processes"]] == ["other"]
    assert "1 process left out: cannot make sense of" in done.stderr


@pytest.mark.parametrize("change, name", [
    (("filter table", "filter none"), "hydra-nofilter"), (("filter table", "filter entry"), "custom"),
    (("prefetch 9", "prefetch 3"), "custom"), (("domains node", "domains galaxy"), "custom")])
def test_a_policy_is_shown_by_the_name_that_run_takes(kernel, change, name):
    kernel.process(12, hydra=HYDRA.replace("policy hydra", "policy custom").replace(*change))
    assert kernel.json("status", 12)["policy"] == kernel.json("status")["processes"][0]["policy"] == name
    assert ["policy", name] in map(str.split, kernel.run("status", 12).stdout.splitlines())
    assert f" {name} " in kernel.run("status").stdout


def test_violations_found_are_called_so(kernel):
    assert "violations found           0\n" in kernel.run("status").stdout


@pytest.mark.parametrize("command", ["tables", "check", "set"])
def test_help_tells_what_it_costs(kernel, command):
    told = " ".join(kernel.run(command, "--help").stdout.split())
    assert {"set": "interrupt every CPU", "check": "every page fault, mmap and munmap of the process waits",
            "tables": "wait while the kernel walks the page tables"}[command] in told


def test_help_is_a_command_too(kernel):
    assert kernel.run("help").stdout == kernel.run("--help").stdout != ""
    assert kernel.run("help").returncode == 0


def test_installation(program, tmp_path):
    assert make(f"O={program.parent}", f"DESTDIR={tmp_path}", "PREFIX=/usr", "install").returncode == 0
    assert os.access(tmp_path / "usr/bin/hydractl", os.X_OK)


def test_a_build_directory_with_a_space_is_refused():
    made = make("O=a b")
    assert made.returncode != 0 and "O is 'a b': make cannot build in a directory with spaces" in made.stderr


def test_version(kernel):
    assert "hydractl 1.0, for Hydra in Linux 6.12\nrunning kernel: " in kernel.run("--version").stdout
    assert kernel.run("--version").stdout.endswith(", with Hydra\n")


def test_status_of_the_system(kernel):
    kernel.process(2, "kthreadd", hydra="")
    kernel.process(100, hydra=HYDRA)
    kernel.process(12, hydra=HYDRA.replace("filter table", "filter none").replace("policy hydra", "policy custom")
                   .replace("prefetch 9", "prefetch 8"))
    kernel.process(13, "idle", hydra=HYDRA.replace("active 1", "active 0"))
    (kernel.proc / "14").mkdir()
    (kernel.hydra / "replica_limit_kib").write_text("4096\n")
    got = kernel.json("status")
    processes = got.pop("processes")
    assert [(process["pid"], process["filter"]) for process in processes] == [(12, "none"), (100, "table")]
    assert got == {
        "default": "linux", "allow": "anybody", "supported": "yes", "missing": [], "replica_limit_kib": 4096, "violations": 0,
        "domains": [{"domain": 0, "node": 0, "cpus": "0-1"}, {"domain": 1, "node": 1, "cpus": "2-3"}],
    }
    lines = [line.split() for line in kernel.run("status").stdout.splitlines()]
    assert ["0", "0", "0-1"] in lines
    assert ["12", "httpd", "custom", "node", "8", "none", "84", "78", "9", "1234"] in lines
    assert not any("idle" in line for line in lines)


def test_status_with_nothing_to_show(kernel):
    (kernel.hydra / "domains").write_text("0 node 0 cpus \n")
    got = kernel.json("status")
    assert got["processes"] == []
    assert got["domains"] == [{"domain": 0, "node": 0, "cpus": ""}]
    assert "no process runs under Hydra" in kernel.run("status").stdout


@pytest.mark.parametrize("name, text", [
    ("violations", "some\n"), ("domains", "0 node zero cpus 0-1\n"), ("domains", "0 node 0\n"),
])
def test_system_that_makes_no_sense(kernel, name, text):
    (kernel.hydra / name).write_text(text)
    assert_makes_no_sense(kernel, ["status"], f"{kernel.hydra}/{name}")


def test_output_that_cannot_be_written(kernel):
    environment = dict(os.environ, HYDRACTL_PROC=str(kernel.proc), HYDRACTL_SYS=str(kernel.sys))
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([kernel.program, "status"], env=environment, stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False)
    assert done.returncode == 2
    assert "cannot write the output" in done.stderr


# tables

def test_tables(kernel):
    kernel.process(12, hydra_tables=TABLES)
    assert kernel.json("tables", 12) == {
        "pid": 12, "comm": "httpd",
        "per_domain": [
            {"domain": 0, "node": 0, "local_leaves": 900, "remote_leaves": 100, "hinting_leaves": 20,
             "local_leaf_share": 0.9},
            {"domain": 1, "node": 1, "local_leaves": 0, "remote_leaves": 0, "hinting_leaves": 0,
             "local_leaf_share": None},
        ],
        "per_node": [{"node": 0, "pagetable_kib": 812}, {"node": 1, "pagetable_kib": 8}],
    }
    lines = [line.split() for line in kernel.run("tables", 12).stdout.splitlines()]
    assert ["0", "0", "900", "100", "90.00", "%", "20"] in lines
    assert ["1", "1", "0", "0", "-", "0"] in lines
    assert ["0", "812", "KiB"] in lines


def test_tables_of_a_kernel_that_does_not_count_what_numa_balancing_has_marked(kernel):
    kernel.process(12, hydra_tables=TABLES.replace(" hinting_leaves 20", ""))
    assert [domain["hinting_leaves"] for domain in kernel.json("tables", 12)["per_domain"]] == [None, 0]
    assert ["0", "0", "900", "100", "90.00", "%", "-"] in [line.split() for line in kernel.run("tables", 12).stdout.splitlines()]


@pytest.mark.parametrize("text", [
    TABLES.replace("hinting_leaves 20", "hinting_leaves many"),
    "domain 0 node 0 local_leaves 900\nnode 0 pagetable_kib 8\n",
    "domain 0 node 0 local_leaves 900 remote_leaves -1\nnode 0 pagetable_kib 8\n",
    "domain 0 node 0 local_leaves 900 remote_leaves 1\nnode 0 pagetable_kib lots\n",
    "domain 0 node 0 local_leaves 900 remote_leaves 1\n",
    "node 0 pagetable_kib 8\n",
])
def test_tables_that_make_no_sense(kernel, text):
    kernel.process(12, hydra_tables=text)
    assert_makes_no_sense(kernel, ["tables", 12], f"{kernel.proc}/12/hydra_tables")


# check

def test_check_finds_nothing(kernel):
    kernel.process(12, hydra_check="ok tables 31 entries 15872\n")
    assert kernel.json("check", 12) == {"pid": 12, "comm": "httpd", "ok": True, "tables": 31, "entries": 15872,
                                        "violations": 0, "listed": []}
    done = kernel.run("check", 12)
    assert (done.returncode, done.stdout) == (
        0, "process 12 (httpd): all invariants hold (31 tables, 15872 entries)\n")


def test_check_with_nothing_to_check(kernel):
    kernel.process(12, hydra_check="ok tables 0 entries 0\n")
    got = kernel.json("check", 12)
    assert got["ok"] is None and got["violations"] == 0
    assert kernel.run("check", 12).stdout == "process 12 (httpd): nothing to check, no node has page tables of its own for it\n"


def test_check_finds_violations(kernel):
    kernel.process(12, hydra_check=CHECK_BAD)
    assert kernel.json("check", 12, status=1) == {
        "pid": 12, "comm": "httpd", "ok": False, "violations": 5, "listed": [
            {"invariant": "1", "address": "0x7f0000001000", "domain": 1,
             "text": 'maps frame 0x12, the canonical entry 0x13: "wrong"'},
            {"invariant": "3", "address": "0x7f0000200000", "domain": 0, "text": "not a sharer"},
        ]}
    done = kernel.run("check", 12)
    assert done.returncode == 1
    assert "process 12 (httpd): 5 violations" in done.stdout
    assert "invariant 3, address 0x7f0000200000, domain 0: not a sharer" in done.stdout


@pytest.mark.parametrize("text", [
    "fine\n",
    "ok tables 3\n",
    "ok tables 3 entries x\n",
    "ok tables 3 entries 4\nok tables 3 entries 4\n",
    "violations 0\n",
    "violation 1 address 0x1000 domain 1: cut short\n",
    "violation 1 address 0x1000 domain 1: one\nviolation 1 address 0x2000 domain 1: two\nviolations 1\n",
    "violation 1 address 0x1000 domain 1: one\nok tables 3 entries 4\n",
    "violation 1 address 1000 domain 1: no hex\nviolations 1\n",
    "violation 1 address 0xyz domain 1: no hex\nviolations 1\n",
    "violation 1 address 0x1000 domain one: no number\nviolations 1\n",
    "violation 1 address 0x1000 domain 1\nviolations 1\n",
])
def test_check_that_makes_no_sense_is_not_ok(kernel, text):
    kernel.process(12, hydra_check=text)
    assert_makes_no_sense(kernel, ["check", 12], f"{kernel.proc}/12/hydra_check")
