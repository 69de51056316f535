# SPDX-License-Identifier: GPL-2.0-only
"""hydractl set of several processes; hydractl run and stat of a tree, a cgroup or a unit while a program runs."""
import contextlib
import errno
import json
import os
import re
import sys
import threading

import pytest

from faked_kernel import ACCEPTS, HYDRA, SOURCE, becomes, kernel_answers, refuses_changes

LINUX = HYDRA.replace("policy hydra", "policy linux").replace("domains node", "domains machine").replace("active 1", "active 0").replace("split 1", "split 0")
WRITTEN = "hydra,domains=node,replication=lazy,prefetch=4,filter=table"
BEFORE = "hydra,domains=node,replication=lazy,prefetch=9,filter=table"
# A process of which the settings are changed has it by prctl(): not one in a group's place.
REFUSES_ALL = kernel_answers(errno.EINVAL)
# A kernel in the program's hands: it understands what hydractl has written, and counts.
KERNEL = f"""
import os, pathlib, re, sys
proc = pathlib.Path(os.environ["HYDRACTL_PROC"])
HYDRA = {HYDRA!r}
def settings():
    return {{int(path.parent.name): path.read_text() for path in proc.glob("[0-9]*/hydra")}}
def count(pid, flushes, ended=0, parent=None):
    directory = proc / str(pid)
    directory.mkdir(exist_ok=True)
    if parent: (directory / "stat").write_text(f"{{pid}} (x) S {{parent}}" + 17 * " 0" + f" {{10 ** 12}}")
    text = HYDRA.replace("count 0", "count 1").replace("flushes 78", f"flushes {{flushes}}") + f"ended_flushes {{ended}}\\n"
    (directory / "part").write_text(text)
    (directory / "part").rename(directory / "hydra")
"""


def program(lines):
    return ["--", sys.executable, "-c", KERNEL + lines]


@pytest.fixture
def some(kernel):
    """12, its child 13, and 20; 14 is plain Linux. 12 and 14 are of a unit, and so is kernel thread 2."""
    kernel.process(2, "kthreadd", parent=0, hydra="")
    for pid, parent, text in ((12, 1, HYDRA), (13, 12, HYDRA), (14, 12, LINUX), (20, 1, HYDRA)):
        kernel.process(pid, parent=parent, hydra=text)
    kernel.cgroup("/system.slice/web.service", 12, 14, 2)
    return kernel


# set

@pytest.mark.parametrize("arguments, pids", [(["--unit", "web"], [12, 14]), (["--tree", 12], [12, 13, 14]), (["--cgroup", "/system.slice"], [12, 14]),
                                             (["--all"], [12, 13, 14, 20]), (["--system"], [12, 13, 14, 20]), ([13, 20], [13, 20])])
def test_set_of_several(some, arguments, pids):
    """Also those that are under Linux's policy, and those that had other settings."""
    before = {pid: some.text(pid) for pid in (12, 13, 14, 20)}
    done = some.run("set", "--policy", "hydra,prefetch=4", *arguments)
    assert done.returncode == 0, done.stderr
    assert {pid: some.text(pid) for pid in before} == {pid: WRITTEN if pid in pids else text for pid, text in before.items()}


def test_set_of_one_setting_leaves_the_others_and_linux_alone(some):
    done = some.run("set", "--prefetch", "4", "--unit", "web")
    assert (done.returncode, some.text(12), some.text(14)) == (0, WRITTEN, LINUX)
    assert "those under policy linux stay, as settings mean nothing there without --policy" in done.stdout and "1 linux" not in done.stdout


def test_set_says_what_it_has_done(some):
    some.threads(12, 0, 2)
    some.threads(14, 0)
    alone = HYDRA.partition("domain 0")[0].replace("split 1", "split 0")
    command = ["set", "--policy", "hydra", "--unit", "web", "--wait=30"]
    with becomes(some, 12, alone, HYDRA), becomes(some, 14, alone):
        done = some.run(*command)
    assert (done.returncode, done.stdout) == (0, "2 processes have the settings: 1 split, 1 one-thread\n")
    with becomes(some, 12, HYDRA), becomes(some, 14, alone):
        got = json.loads(some.run(*command, "--json").stdout)
    assert (got["group"], got["name"], got["failed"]) == ("unit", "web", 0)
    assert [(process["pid"], process["policy"], process["split_state"]) for process in got["processes"]] == [(12, "hydra", "split"), (14, "hydra", "one-thread")]
    with becomes(some, 12, HYDRA), becomes(some, 14, alone):
        lines = some.run(*command, "--csv").stdout.splitlines()
    assert lines[0] == "group,name,waited,failed,pid,comm,policy,split_state"
    assert [line.split(",")[:2] + line.split(",")[3:] for line in lines[1:]] == [
        ["unit", "web", "0", "12", "httpd", "hydra", "split"], ["unit", "web", "0", "14", "httpd", "hydra", "one-thread"]]


@contextlib.contextmanager
def lists(path, *texts):
    """Each reader of the file finds the next text, and all further ones the last."""
    path.unlink()
    os.mkfifo(path)
    done, left = threading.Event(), list(texts)

    def answer():
        while not done.wait(0.1):
            with contextlib.suppress(OSError):              # no reader yet
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                os.write(fd, (left.pop(0) if len(left) > 1 else left[0]).encode())
                os.close(fd)
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("command", [["set", "--policy", "hydra"], ["off"]])
def test_what_a_unit_starts_meanwhile_is_changed_too(some, command):
    some.process(50, parent=12, hydra=HYDRA)
    with lists(some.sys / "fs/cgroup/system.slice/web.service/cgroup.procs", "12\n", "12\n50\n"):
        assert some.run(*command, "--unit", "web").returncode == 0
    assert some.text(12) == some.text(50) != HYDRA


def test_set_of_several_waits_in_vain(some):
    some.threads(12, 0, 2)
    asleep = HYDRA.partition("domain 0")[0].replace("split 1", "split 0")
    with becomes(some, 12, asleep), becomes(some, 14, LINUX):
        done = some.run("set", "--policy", "hydra", "--wait=3", "--unit", "web")
    assert (done.returncode, done.stdout) == (1, "2 processes have the settings: 1 linux, 1 asleep\n")


def test_set_names_each_process_that_stays(some):
    done = some.run("set", "--policy", "hydra", "--unit", "web", preexec_fn=refuses_changes(errno.EPERM))
    assert done.returncode == 2 and done.stdout == "0 processes have the settings\n"
    assert [done.stderr.count(f"not permitted to change process {pid}: be its owner or root\n") for pid in (12, 14)] == [1, 1]
    done = some.run("set", "--policy", "hydra", 4242, 12, 2)
    assert done.returncode == 2 and "no process 4242\n" in done.stderr and "process 2 has no user memory" in done.stderr and some.text(12) == BEFORE


def test_set_of_what_is_not_understood(some):
    (some.proc / "12" / "hydra").write_text("policy galaxy\n")
    done = some.run("set", "--policy", "hydra", 12, 20)
    assert done.returncode == 2 and "cannot make sense of what the kernel says of process 12" in done.stderr and some.text(20) == BEFORE


# run

def test_run_lends_settings_to_a_unit(some, tmp_path):
    """Meanwhile the unit has the settings, also what it starts; then each has its own again. The program has none."""
    lines = f"""
import json
pathlib.Path({str(tmp_path / 'seen')!r}).write_text(json.dumps(settings()))
count(50, 0, parent=12); count(51, 0, parent=50)
sys.exit(7)
"""
    custom = HYDRA.replace("policy hydra", "policy custom").replace("prefetch 9", "prefetch 3")
    (some.proc / "12" / "hydra").write_text(custom)
    done = some.run("run", "--policy", "hydra,prefetch=4", "--unit", "web", *program(lines), preexec_fn=REFUSES_ALL)
    assert done.returncode == 7, done.stderr
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen == {"2": "", "12": WRITTEN, "14": WRITTEN, "13": HYDRA, "20": HYDRA}
    own = BEFORE.replace("prefetch=9", "prefetch=3")
    assert {pid: some.text(pid) for pid in (12, 13, 14, 20, 50, 51)} == {12: own, 13: HYDRA, 14: "linux", 20: HYDRA, 50: own, 51: own}


def test_what_has_begun_meanwhile_has_no_settings_of_its_own(some):
    """Such a process has inherited what was lent to its parent: it gets the parent's former settings."""
    some.cgroup("/system.slice/web.service", 12, 50)
    some.process(50, parent=12, hydra=HYDRA.replace("prefetch 9", "prefetch 4"))
    (some.proc / "50" / "stat").write_text("50 (x) S 12" + 17 * " 0" + f" {10 ** 12}")
    assert some.run("run", "--policy", "hydra,prefetch=4", "--unit", "web", "true").returncode == 0
    assert [some.text(pid) for pid in (12, 50)] == [BEFORE, BEFORE]


def test_settings_come_back_whatever_ends_hydractl(some):
    arguments = ["run", "--policy", "hydra,prefetch=4", "--tree", "12"]
    done = some.run(*arguments, "no-such-program-anywhere")
    assert done.returncode == 127 and [some.text(pid) for pid in (12, 13, 14)] == [BEFORE, BEFORE, "linux"]
    lines = "import signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"
    for pid, text in ((12, HYDRA), (13, HYDRA), (14, LINUX)):
        (some.proc / str(pid) / "hydra").write_text(text)
    done = some.run(*arguments, *program(lines))
    assert done.returncode == 128 + 15 and [some.text(pid) for pid in (12, 13, 14)] == [BEFORE, BEFORE, "linux"]


@pytest.mark.parametrize("command", ["run", "stat"])
def test_all_have_the_settings_or_the_program_does_not_run(some, command, tmp_path):
    (some.proc / "13" / "hydra").write_text(HYDRA.replace("domains node", "domains galaxy"))
    done = some.run(command, "--policy", "hydra", "--tree", "12", "touch", tmp_path / "ran")
    assert done.returncode == 125 and "cannot make sense of the settings of process 13" in done.stderr
    assert "'touch' was not run, and all have their former settings back" in done.stderr and not (tmp_path / "ran").exists()
    assert [some.text(pid) for pid in (12, 14)] == [BEFORE, "linux"]


def test_run_in_no_such_unit(some):
    done = some.run("run", "--unit", "nginx", "true")
    assert done.returncode == 125 and "no unit nginx.service runs" in done.stderr


# stat

COUNTS = """
count(12, 1000); count(14, 500)
"""


def stat(kernel, lines, *options, status=0):
    done = kernel.run("stat", "--json", "--unit", "web", *options, *program(lines), preexec_fn=kernel.own(then=REFUSES_ALL))
    assert done.returncode == status, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def test_stat_counts_what_a_unit_does_meanwhile(some):
    """With processes that it starts, and those of them that have ended; the rest of the system does not count."""
    got = stat(some, "count(12, 178, ended=40); count(14, 98); count(50, 7, parent=12); (proc.parent / 'sys/fs/cgroup/system.slice/web.service/cgroup.procs')"
               ".write_text('12 14 50'); count(20, 9999); sys.exit(3)", status=3)
    assert (got["group"], got["name"], got["status"], got["ended_counted"]) == ("unit", "web", 3, True)
    assert got["flushes"] == (178 - 78) + 40 + (98 - 78) + 7


def test_stat_stops_counting_a_unit(some):
    stat(some, "pass")
    assert [some.text(pid) for pid in (12, 13, 14, 20)] == ["count=off", HYDRA, "count=off", HYDRA]


def test_stat_of_a_process_that_executes_another_program(some):
    """The former program's counters, also those from before the watch, are among the ended ones then."""
    assert stat(some, "count(12, 5, ended=88); count(14, 78)")["flushes"] == 5 + 88 - 78


def test_stat_of_a_process_that_others_count(some):
    """What the kernel has added up may be of other processes."""
    counted = HYDRA.replace("count 0", "count 1") + "ended_flushes 5\n"
    (some.proc / "12" / "hydra").write_text(counted)
    assert stat(some, "count(12, 80, ended=1000); count(14, 78)")["flushes"] == 2 and "count=off" not in some.text(12)


def test_stat_says_that_a_process_of_the_unit_has_ended(some):
    lines = "count(12, 78); count(14, 78)\nimport shutil; shutil.rmtree(proc / '12'); import time; time.sleep(0.5)"
    assert stat(some, lines)["ended_counted"] is False
    some.process(12, hydra=HYDRA)
    done = some.run("stat", "--unit", "web", *program(lines), preexec_fn=some.own(then=REFUSES_ALL))
    assert done.returncode == 0 and "Hydra's counters of unit web while '" in done.stderr and "1 process ended meanwhile: missing is what it, and" in done.stderr


def test_stat_lends_settings_too(some, tmp_path):
    """No more can be seen here: the files now have what was written, not what the kernel would say, so nothing can be counted."""
    done = some.run("stat", "--unit", "web", "--policy", "hydra,prefetch=4", "touch", tmp_path / "ran")
    assert done.returncode == 125 and "no process of it can be counted" in done.stderr and not (tmp_path / "ran").exists()
    assert some.text(12) == BEFORE and some.text(14) == "linux"


# stat --repeat

def repeated(kernel, tmp_path, *options, flushes=(5, 9, 6), status=0, form="--json"):
    """Each run counts another number of flushes."""
    lines = f"""
import pathlib
left = pathlib.Path({str(tmp_path / 'left')!r})
numbers = [int(word) for word in left.read_text().split()]
left.write_text(" ".join(map(str, numbers[1:])))
tool = int(os.environ.get("TOOL", os.getppid()))
seen = sum(int(word) for word in {tuple(flushes)!r}) - sum(numbers[1:])
(proc / str(tool) / "part").write_text(HYDRA.replace("count 0", "count 1") + f"ended_flushes {{seen}}\\n")
(proc / str(tool) / "part").rename(proc / str(tool) / "hydra")
sys.exit(numbers[0] == 666)
"""
    (tmp_path / "left").write_text(" ".join(map(str, flushes)))
    done = kernel.run("stat", *([form] if form else []), *options, *program(lines), preexec_fn=kernel.own(then=ACCEPTS))
    assert done.returncode == status, done.stderr
    return json.loads(done.stderr) if form == "--json" else done.stderr


def test_a_program_is_run_several_times(kernel, tmp_path):
    got = repeated(kernel, tmp_path, "--repeat", "3")
    assert (got["runs"], [(one["run"], one["flushes"], one["status"], one["with_others"]) for one in got["each"]]) == (3, [(1, 5, 0, False), (2, 9, 0, False), (3, 6, 0, False)])
    assert [got[name]["flushes"] for name in ("median", "least", "most")] == [6, 5, 9] and got["least"]["seconds"] <= got["median"]["seconds"] <= got["most"]["seconds"]
    assert got["median"]["machine_tlb_interrupts"] is None


def test_the_median_of_an_even_number_of_runs(kernel, tmp_path):
    assert repeated(kernel, tmp_path, "-r", "4", flushes=(5, 9, 6, 1))["median"]["flushes"] == 5.5
    assert repeated(kernel, tmp_path, "-r", "1", flushes=(5,))["flushes"] == 5


def test_several_runs_for_people_and_as_csv(kernel, tmp_path):
    text = repeated(kernel, tmp_path, "-r", "2", flushes=(5, 8), form=None)
    assert "median (least to greatest) of 2 runs:" in text and "6.5 (5 to 8)  TLB flushes\n" in text
    lines = repeated(kernel, tmp_path, "-r", "2", flushes=(5, 8), form="--csv").splitlines()
    names = lines[0].split(",")
    assert [line.rsplit(",", len(names) - names.index("run"))[1] for line in lines[-2:]] == ["1", "2"]
    assert [line.split(",")[names.index("flushes") - len(names)] for line in lines[-2:]] == ["5", "8"] and "median" not in names


def test_a_run_that_fails_is_the_last(kernel, tmp_path):
    got = repeated(kernel, tmp_path, "-r", "3", flushes=(5, 666, 6), status=1)
    assert (got["runs"], [one["status"] for one in got["each"]]) == (2, [0, 1])


# Options

COMMANDS = re.findall(r'^\t\{ "(\w+)", "', (SOURCE / "main.c").read_text(encoding="utf-8"), re.M)


def test_a_short_option_means_the_same_in_every_command(kernel):
    found = {}
    for command in COMMANDS:
        for short, name in re.findall(r"^ +-(\S), --([\w-]+)", kernel.run(command, "--help").stdout, re.M):
            found.setdefault(short, set()).add(name)
    assert len(COMMANDS) > 12 and len(found) > 20 and {short: names for short, names in found.items() if len(names) > 1} == {}


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"run", "allow", "off", "export", "record"}))
def test_csv_stands_beside_json(kernel, command):
    helped = kernel.run(command, "--help").stdout
    assert "-j, --json" in helped and "-c, --csv" in helped
