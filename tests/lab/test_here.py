# SPDX-License-Identifier: GPL-2.0-only
"""./hydra here: refusals, the plan, the statistics, the processor's counters, and that no failure loses a finished run."""
import errno
import json
import subprocess
import sys

import faked_machine
import pytest
import test_benches

from lab import cli, paths
from lab.bench import choice
from lab.errors import LabError
from lab.here import guest_timed, here, here_plan, perf_events, this_machine
from lab.measure import spread
from lab.policies import POLICIES


@pytest.fixture
def place(tmp_path):
    return faked_machine.machine(tmp_path / "root")


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch, cache):
    monkeypatch.setattr(this_machine.os, "geteuid", lambda: 0)
    monkeypatch.setattr(here, "tools_for", lambda made: {name: f"/built/{name}" for name in ("hydractl", "shootdown", "locality", "footprint", "prefetch", "patterns", "miniatures")})
    monkeypatch.setattr(perf_events, "tool", lambda: None)
    monkeypatch.setattr(here_plan.setup, "missing_packages", lambda _: [])


def call(place, tmp_path, *words, programs=None, out="report.html"):
    programs = programs or faked_machine.Programs(test_benches.GOOD)
    status = here.here_verb(cli.parser().parse_args(["here", "--out", str(tmp_path / out), *words]), place, programs)
    return status, json.loads((tmp_path / out).with_suffix(".json").read_text()), programs


# Refusals

@pytest.mark.parametrize("nodes, changed, user, said, todo", [
    (2, {name.split("/")[-1]: None for name in faked_machine.FILES if "/hydra/" in name}, 0, "no Hydra", "Install it on a server"),
    (2, {}, 1000, "run by root", "sudo"),
    (2, {"supported": "no: Xen PV\n"}, 0, "supported says 'no: Xen PV'", "hydra.rst"),
    (2, {"supported": None}, 0, "supported says 'nothing'", "hydra.rst"),
    (1, {}, 0, "has 1 NUMA node with CPUs", "numactl --hardware"),
    (2, {"allow": "nobody\n"}, 0, "not even root", "echo cap_sys_nice")])
def test_a_machine_that_cannot_measure_is_refused(tmp_path, nodes, changed, user, said, todo):
    with pytest.raises(LabError, match=said) as caught:
        this_machine.refuse(faked_machine.machine(tmp_path, nodes, **changed), user)
    assert caught.value.status == 2 and todo in caught.value.todo


def test_the_refusal_comes_before_any_package_is_installed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(this_machine, "here", lambda: this_machine.Place(tmp_path))
    monkeypatch.setattr(cli.setup, "ensure", lambda *_: pytest.fail("a package was installed"))
    assert cli.main(["here"]) == 2
    assert "no Hydra" in capsys.readouterr().err


def test_a_server_gets_no_emulator(monkeypatch):
    asked = []
    monkeypatch.setattr(here_plan.setup, "ensure_packages", asked.append)
    monkeypatch.setattr(here_plan.setup, "ensure_environment", lambda: here.pathlib.Path(sys.prefix))
    for verb in ("here", "demo"):
        here_plan.setup.ensure([verb, "prefetch"])
    assert asked == [here_plan.setup.HERE, None] and set(here_plan.setup.HERE) < {*here_plan.setup.PACKAGES}
    assert not any("qemu" in name or "linux-source" in name for name in here_plan.setup.HERE)


def test_a_machine_that_can_measure_is_not_refused(place):
    this_machine.refuse(place)


@pytest.mark.parametrize("words, said", [
    (["nothing"], "'nothing': there is no such measurement"), (["steps"], "plugin of the emulator"), (["prefetch", "--runs", "0"], "must be 1 to 100"),
    (["prefetch", "--policies", "linux,hydro"], "there is no policy 'hydro'"), (["prefetch", "--policies", ","], "names no policy"),
    (["--workload", " "], "no command given"), (["--workload", "true", "--policies", "H-3"], "a command cannot run under H-3, which"),
    (["operations"], "none of these measurements can run"), (["prefetch", "--resume"], "--resume needs --json"),
    (["prefetch", "--policies", "abis"], "none of these measurements can run"),
    (["prefetch", "--json", "{out}"], "name the same file"), (["prefetch", "--json", "/nowhere/at/all.json"], "there is no directory")])
def test_wrong_words_are_refused(place, tmp_path, words, said):
    with pytest.raises(LabError, match=said) as caught:
        call(place, tmp_path, *(word.format(out=tmp_path / "report.html") for word in words))
    assert caught.value.status == 2 and not (tmp_path / "report.html").exists()


def test_a_full_disk_is_refused_before_the_first_run(place, tmp_path, monkeypatch):
    monkeypatch.setattr(here.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 2**20}))
    with pytest.raises(LabError, match="nearly full: 1 MiB free") as caught:
        call(place, tmp_path, "prefetch")
    assert caught.value.status == 2 and "--out and --json" in caught.value.todo


# The plan

def units(place, *names, policies=None):
    made, skipped = here_plan.units(names, None, place.nodes(), policies)
    return {unit.name: unit for unit in made}, skipped


def test_the_policies_of_each_case_take_turns(place):
    made, _ = units(place, "footprint", "munmap", policies=["hydra", "abis"])
    plan = [(run, task.row, task.case, task.policy) for run, _, task in here_plan.plan(list(made.values()), 3)]
    forward, backward = ["linux", "abis", "hydra"], ["hydra", "abis", "linux"]
    for run, order in ((1, forward), (2, backward), (3, forward)):
        for row, case in (("footprint", "none"), ("footprint", "some"), ("footprint", "full"), ("munmap", "")):
            assert [policy for at, *of, policy in plan if (at, *of) == (run, row, case)] == order
    assert [entry[0] for entry in plan] == sorted(entry[0] for entry in plan) and len(plan) == 3 * 4 * 3


def test_linux_is_always_measured_and_a_policy_names_its_columns(place):
    columns = here_plan.columns_of(choice.BENCHES["prefetch"])
    assert here_plan.chosen_columns(columns, ["hydra"]) == ["linux", *(f"H-{degree}" for degree in range(10))]
    assert here_plan.chosen_columns(columns, ["H-4"]) == ["linux", "H-4"]
    columns = here_plan.columns_of(choice.BENCHES["sharing"])
    assert here_plan.chosen_columns(columns, ["hydra", "node-entry"]) == ["linux", "hydra", "node, entry"]


@pytest.mark.parametrize("nodes, per_node, name, cpus", [
    (2, 64, "footprint", 16), (4, 2, "footprint", 2), (2, 64, "allocators", 1), (2, 64, "apps", 64), (4, 256, "pipeline", 125), (2, 1000, "prefetch", 1)])
def test_a_measurement_gets_as_many_cpus_as_its_program_can_use(tmp_path, nodes, per_node, name, cpus):
    made, skipped = units(faked_machine.machine(tmp_path, nodes, per_node), name)
    assert skipped == {} and [len(own) for own in made[name].nodes.values()] == [cpus] * nodes


def test_the_papers_programs_have_more_memory_here_and_times(place, tmp_path):
    def said(step):
        return {"operations": 4, "pagetable_kib": 9, **{phase: {"seconds": 2e-6, "interrupts": 1, "faults": 2, "fills": 3} for phase in ("load", "first", "steady")}}
    status, document, programs = call(place, tmp_path, "miniatures", "--policies", "linux,hydra", "--runs", "1", programs=faked_machine.Programs({"miniatures": said}))
    assert status == 0 and len(programs.tasks) == 2 * 8
    assert [entry["value"] for entry in document["values"] if (entry["case"], entry["policy"], entry["metric"]) == ("gups", "hydra", "steady_us_per_op")] == [0.5]
    words = " ".join(map(str, programs.commands[0]))
    assert '"--mib", "2048"' in words and "gups: random words of a table are updated: time of an operation" in (tmp_path / "report.html").read_text()


def test_what_cannot_run_here_is_named_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(here_plan, "file_system", lambda _: "tmpfs")
    monkeypatch.setattr(here_plan.setup, "missing_packages", lambda packages: list(packages))
    monkeypatch.setattr(here_plan.shutil, "which", lambda *_, **__: None)
    made, skipped = units(faked_machine.machine(tmp_path / "small", 40, 1), *here_plan.names())
    assert set(made) == {"locality", "prefetch", "pipeline", "apps", "spinners", "miniatures"}
    said = {"operations": "plugin of the emulator", "sizes": "plugin of the emulator", "programs": "--workload", "sweeps": "--workload", "nested": "vCPUs", "follow": "all virtual machines", "walks": "a whole machine", "migrate": "another host", "auto": "the emulator's clock", "wander": "the emulator skips time", "placed": "by the emulator", "pipeline-64": "it is 'pipeline'", "sharing": "on 'tmpfs'", "allocators": "apt install libjemalloc2",
            "mprotect": "2 CPUs on each node; this machine has a node with 1", "munmap": "2 CPUs", "apache": "2 CPUs", "footprint": "at most 32 threads"}
    assert set(skipped) == set(said) and [name for name, words in said.items() if words not in skipped[name]] == []
    assert "Not on this machine, whose smallest node has 1 CPUs: local 2, local 4, local 8, protect 2" in made["spinners"].note
    made, skipped = units(faked_machine.machine(tmp_path / "wide", 2, 2), "apache")
    assert "apt install apache2-bin wrk" in skipped["apache"]


def test_every_measurement_is_known_to_the_kit():
    assert {one.name for one in choice.BENCHES.values() if not one.counted} | set(here_plan.measure.ROWS) == set(here_plan.SHAPES) | set(here_plan.EMULATED)


def test_titles_have_the_number_of_this_machines_nodes(tmp_path):
    made, _ = units(faked_machine.machine(tmp_path, 4, 8), "footprint", "munmap", "pipeline")
    titles = {name: " ".join(line.title for line in unit.lines) for name, unit in made.items()}
    assert "each of 4 nodes" in titles["footprint"] and "the 3 other nodes" in titles["munmap"] and made["footprint"].bench.machine.nodes == 4


def test_the_file_system_of_a_directory(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /my\\040data rw,relatime shared:3 - xfs /dev/sdb rw\n")
    assert here_plan.file_system("/home/me", mounts) == "ext4"
    assert here_plan.file_system("/my data/cache", mounts) == "xfs"
    assert here_plan.file_system("/my database", mounts) == "ext4"


def test_the_words_of_a_command(place):
    tools = {name: f"/built/{name}" for name in ("hydractl", "footprint", "shootdown", "locality")}
    made, _ = units(place, "footprint", "mprotect", policies=["hydra"])
    task = made["footprint"].tasks()[1]
    words = here_plan.command_of(made["footprint"], task, tools, ["perf", "stat", "--"])
    (step,) = json.loads(words[-1])
    assert step["settings"] == ["--policy", "hydra"]
    assert step["command"] == ["taskset", "-c", "0,1,2,3,4,5,6,7", "setarch", "-R", "perf", "stat", "--", "footprint", "--sharing", "none"]
    assert words[:2] == ["unshare", "--mount"] and words[words.index("--programs") + 1:words.index("--plan")] == ["/built/hydractl", "/built/footprint"]
    words = here_plan.command_of(made["mprotect"], made["mprotect"].tasks()[0], tools, ["perf", "stat", "--"])
    assert words[words.index("sh") + 1:][:3] == ["perf", "stat", "--"] and words[-2:] == ["--rows", "mprotect"]
    assert words[words.index("--policies") + 1] == "linux" and words[words.index("--runs") + 1] == "1"
    unit = here_plan.workload_unit("echo 'a  b' | wc", place.nodes(), ["hydra"])
    words = here_plan.command_of(unit, unit.tasks()[1], tools, [])
    assert words[-8:] == ["/built/hydractl", "run", "--policy", "hydra", "--", "/bin/sh", "-c", "echo 'a  b' | wc"]
    unit = here_plan.workload_unit("x", place.nodes(), here_plan.policies_of("hydra:prefetch=4"))
    assert [task.settings for task in unit.tasks()] == [("--policy", "linux"), ("--policy", "hydra", "--prefetch", "4")]
    given = cli.parser().parse_args(["here", "--workload", "x", "--prefetch", "4"])
    assert here_plan.with_options(["linux", "hydra"], given) == ["linux", "hydra,prefetch=4"]
    given.workload = None
    with pytest.raises(LabError, match="for --workload only"):
        here_plan.with_options(["hydra"], given)
    with pytest.raises(LabError, match="no policy 'hydar'"):
        here_plan.policies_of("linux,hydar,prefetch=4")


# The runs

def test_every_run_is_in_the_file_and_in_the_report(place, tmp_path):
    status, document, programs = call(place, tmp_path, "footprint", "munmap", "--policies", "linux,hydra", "--runs", "2")
    assert status == 0 and len(programs.commands) == 2 * (3 * 2 + 2) == len(document["done"])
    assert {(value["run"], value["row"]) for value in document["values"]} == {(run, row) for run in (1, 2) for row in ("footprint", "munmap")}
    assert document["ended"] == "" and document["failed"] == []
    assert "footprint" in (tmp_path / "report.html").read_text()
    assert list(tmp_path.glob(".*")) == [] and list((paths.cache()).glob("here-*")) == []


def test_a_command_of_the_user_has_one_run_that_is_not_counted(place, tmp_path):
    status, document, programs = call(place, tmp_path, "--workload", "make -j", "--runs", "3", "--policies", "hydra")
    assert status == 0 and [policy for *_, policy in programs.tasks] == ["linux", "linux", "hydra", "hydra", "linux", "linux", "hydra"]
    assert len(document["done"]) == 6 and {value["case"] for value in document["values"]} == {"make -j"}


def failing(row, case, policy, why="no luck", first=0):
    def fail(*task):
        if task[:3] == (row, case, policy) and task[3] > first:
            raise here.Failure(why)
    return fail


def test_a_measurement_that_fails_does_not_end_the_others(place, tmp_path, capsys):
    programs = faked_machine.Programs(test_benches.GOOD, fail=failing("footprint", "some", "hydra", "exit status 2: <node 1> has too few"))
    status, document, _ = call(place, tmp_path, "footprint", "--policies", "hydra", "--runs", "3", programs=programs)
    assert status == 1 and "too few" in capsys.readouterr().err
    assert document["failed"] == [{"run": 1, "row": "footprint", "case": "some", "policy": "hydra", "why": "exit status 2: <node 1> has too few"}]
    assert len(document["done"]) == 3 * 5 and programs.tasks.count(("footprint", "some", "hydra")) == 1
    assert "&lt;node 1&gt; has too few" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("end, said", [(KeyboardInterrupt, "by Ctrl-C"), (SystemExit, "before all runs"), (LabError("x"), "before all runs")])
def test_whatever_ends_it_the_finished_runs_are_kept_and_it_goes_on(place, tmp_path, end, said):
    def fail(*task):
        if task[3] == 4:
            raise end
    with pytest.raises(type(end) if isinstance(end, Exception) else end):
        call(place, tmp_path, "footprint", "--policies", "hydra", "--runs", "2", programs=faked_machine.Programs(test_benches.GOOD, fail=fail))
    document = json.loads((tmp_path / "report.json").read_text())
    assert len(document["done"]) == 3 and said in (tmp_path / "report.html").read_text()
    words = ["footprint", "--policies", "hydra", "--runs", "2", "--resume", "--json", str(tmp_path / "report.json")]
    status, document, programs = call(place, tmp_path, *words)
    assert status == 0 and len(programs.commands) == 9 and len({tuple(key) for key in document["done"]}) == 12 and document["ended"] == ""
    assert said not in (tmp_path / "report.html").read_text()
    for wrong, words in (("another choice", ["prefetch", *words[1:]]), ("another machine", words)):
        if wrong == "another machine":
            (place.root / "proc/sys/kernel/osrelease").write_text("6.12.99\n")
        with pytest.raises(LabError, match=wrong):
            call(place, tmp_path, *words)


def test_values_without_a_report_until_the_same_call_draws_it(place, tmp_path):
    words = ["footprint", "--policies", "hydra", "--runs", "2", "--json", str(tmp_path / "report.json")]
    status, document, _ = call(place, tmp_path, *words, "--values-only")
    assert status == 0 and document["values"] and not (tmp_path / "report.html").exists()
    status, _, programs = call(place, tmp_path, *words, "--resume")
    assert status == 0 and not programs.commands and (tmp_path / "report.html").exists()


def test_what_failed_is_tried_again_by_resume_and_no_value_is_there_twice(place, tmp_path):
    half = faked_machine.Programs(test_benches.GOOD)
    answer = half.demo("munmap", "hydra")[:2]

    def fails(command, limit=None, directory=None):
        if "hydra" in command:
            raise here.Failure("exit status 1: no", "".join(json.dumps(entry) + "\n" for entry in answer))
        return half(command)
    words = ["munmap", "--policies", "hydra", "--runs", "1"]
    assert call(place, tmp_path, *words, programs=fails)[0] == 1
    document = json.loads((tmp_path / "report.json").read_text())
    assert [value["metric"] for value in document["values"] if value["policy"] == "hydra"] == ["interrupts_per_op"]
    status, document, _ = call(place, tmp_path, *words, "--resume", "--json", str(tmp_path / "report.json"))
    assert status == 0 and document["failed"] == [] and len(document["values"]) == 4


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hydra_here": 0}'])
def test_resume_wants_a_file_of_its_own(place, tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(LabError, match="--resume") as caught:
        call(place, tmp_path, "prefetch", "--resume", "--json", str(tmp_path / "report.json"))
    assert caught.value.status == 2 and (tmp_path / "report.json").read_text() == text


def test_a_disk_that_fills_up_leaves_the_runs_before(place, tmp_path, monkeypatch):
    real, times = paths.write_whole, []

    def write_whole(path, text):
        times.append(path)
        if len(times) > 3:
            path.with_name(f".{path.name}.{here.os.getpid()}.part").write_text(text[:10])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, text)
    monkeypatch.setattr(here.paths, "write_whole", write_whole)
    with pytest.raises(LabError, match="No space left") as caught:
        call(place, tmp_path, "footprint", "--policies", "hydra", "--runs", "1")
    assert caught.value.status == 2
    assert len(json.loads((tmp_path / "report.json").read_text())["done"]) == 2 and list(tmp_path.glob(".*.part")) == []


@pytest.mark.parametrize("words, out, report, values", [
    (["--out", "a/b.html"], None, "a/b.html", "a/b.json"), (["--json", "c.json"], "/out", "c.html", "c.json"),
    ([], None, "hydra-here-", "hydra-here-"), ([], "/out", "/out/hydra-here-", "/out/hydra-here-")])
def test_where_the_files_go(monkeypatch, words, out, report, values):
    monkeypatch.delenv("HYDRA_OUT", raising=False)
    if out:
        monkeypatch.setenv("HYDRA_OUT", out)
    made = list(map(str, here.files_of(cli.parser().parse_args(["here", *words]))))
    assert made[0].startswith(report) and made[1].startswith(values) and made[0].endswith(".html") and made[1].endswith(".json")


def test_a_real_process_is_run_and_its_failure_told():
    assert here.execute(["sh", "-c", "echo said"], 60) == "said\n"
    with pytest.raises(here.Failure, match="exit status 3: bad") as caught:
        here.execute(["sh", "-c", "echo half; echo bad >&2; exit 3"], 60)
    assert caught.value.args[1] == "half\n"
    with pytest.raises(here.Failure, match="time limit of 0.5 s"):
        here.execute(["sleep", "100"], 0.5)


def test_a_command_is_timed(tmp_path):
    assert guest_timed.shootdowns() >= 0
    done = subprocess.run([sys.executable, "-I", guest_timed.__file__, "sh", "-c", "echo noise; exit 5"], capture_output=True, text=True, check=False)
    assert done.returncode == 5 and set(json.loads(done.stdout)) == set(here_plan.WORKLOAD_METRICS)


# Statistics

def entry(run, value, unit="interrupts", policy="hydra", **more):
    return {"row": "r", "case": "c", "policy": policy, "metric": "m", "value": value, "unit": unit, "run": run, **more}


def test_median_least_and_most_and_counts_that_differ():
    (found,) = spread.spreads([entry(1, 3), entry(3, 9), entry(2, 4)]).values()
    assert (found.median, found.least, found.most, found.differs, found.timed) == (4, 3, 9, True, False)
    (found,) = spread.spreads([entry(1, 3), entry(2, 3)]).values()
    assert not found.differs
    for unit in ("us", "s", "requests/s", "events"):
        (found,) = spread.spreads([entry(1, 3, unit), entry(2, 4, unit)]).values()
        assert not found.differs and found.timed == (unit != "events")
    (found,) = spread.spreads([entry(1, 3), entry(1, 5), entry(2, 4, estimated=True)]).values()
    assert found.by_run == {1: 4, 2: 4} and found.estimated


def test_ratios_are_those_of_the_same_run():
    found = spread.spreads([entry(run, value, "us", policy) for policy, values in (("linux", (10, 20, 40)), ("hydra", (5, 30, 20))) for run, value in enumerate(values, 1)])
    linux, hydra = found.values()
    assert spread.ratio(hydra, linux) == (1.0, 0.5, 1.5)
    assert spread.ratio(hydra, None) is None
    (zero,) = spread.spreads([entry(1, 0, "us", "linux")]).values()
    assert spread.ratio(hydra, zero) is None
    (other,) = spread.spreads([entry(9, 1, "us", "linux")]).values()
    assert spread.ratio(hydra, other) is None


# The processor's counters

def test_the_events_are_read_by_name():
    text = ("# started on Tue\n\n1234,,dtlb_load_misses.walk_completed,5000,100.00,,\n77,,node-loads,5000,42.10,,\n<not supported>,,ls_tablewalker.dside,0,100.00,,\n"
            "<not counted>,,node-load-misses,0,0.00,,\n10,,cpu_core/dtlb_store_misses.walk_completed/,5,100.00,,\n5,,cpu_atom/dtlb_store_misses.walk_completed/,5,99.90,,\n")
    assert perf_events.parse(text) == {"dtlb_load_misses.walk_completed": (1234, False), "node-loads": (77, True), "dtlb_store_misses.walk_completed": (15, False)}


def test_only_the_events_of_this_processor_are_counted():
    asked = []

    def run(words):
        if words[1] == "list":
            return subprocess.CompletedProcess(words, 0, "  dtlb_load_misses.walk_completed\n  dtlb_load_misses.walk_active_more\n  node-loads  [Hardware cache event]\n  cpu/dTLB-load-misses/\n", "")
        name = words[words.index("-e") + 1]
        asked.append(name)
        said = {"node-loads": "<not supported>"}.get(name, "7")
        return subprocess.CompletedProcess(words, 129 if name == "dTLB-load-misses" else 0, "", f"{said},,{name},5,100.00,,\n")
    assert perf_events.known("/usr/bin/perf", run) == (("dtlb_load_misses.walk_completed",), "")
    assert asked == ["dtlb_load_misses.walk_completed", "dTLB-load-misses", "node-loads"]
    assert perf_events.known(None) == ((), "perf is not installed. Install it and measure again:  apt install linux-perf")
    known, why = perf_events.known("/usr/bin/perf", lambda words: subprocess.CompletedProcess(words, 1, "", ""))
    assert known == () and "none of these events" in why
    assert perf_events.words("/usr/bin/perf", (), "f") == [] and perf_events.words(None, ("x",), "f") == []


def test_what_perf_counts_is_kept_with_the_run(place, tmp_path, monkeypatch):
    monkeypatch.setattr(perf_events, "tool", lambda: "/usr/bin/perf")
    monkeypatch.setattr(perf_events, "known", lambda _: (("node-loads", "ls_tablewalker.dside"), ""))
    programs = faked_machine.Programs(test_benches.GOOD, events=("node-loads", "ls_tablewalker.dside"))
    _, document, _ = call(place, tmp_path, "footprint", "munmap", "--workload", "true", "--policies", "hydra", "--runs", "1", programs=programs)
    found = [value for value in document["values"] if value["metric"] == "perf.node-loads"]
    assert len(found) == 3 * 2 + 2 + 2 and {value["value"] for value in found} == {1000} and {value["unit"] for value in found} == {"events"}
    assert all("-x" in " ".join(map(str, command)) for command in programs.commands)


def test_each_event_has_its_place_in_the_table_once():
    names = [event.name for event in perf_events.EVENTS]
    assert len(names) == len(set(names)) and all(event.vendor and event.meaning for event in perf_events.EVENTS)
    assert not any("," in name for name in names)


# The machine

def test_the_machine_is_described(place, tmp_path):
    facts = {what: value for _, part in this_machine.description(place) for what, value in part}
    assert facts["node 1"] == "4 CPUs (4-7), 4,096 MiB, distances 21 10" and facts["processor"] == "Xeon <b>X</b> & Co"
    assert facts["frequency governor"] == "performance, powersave" and facts["turbo"] == "off" and facts["microcode"] == "0xd0003d1"
    assert facts["domains"].endswith("1 node 1 cpus 4-7") and facts["a virtual machine"] == "no" and facts["commit of the lab"] != ""
    empty = {what: value for _, part in this_machine.description(this_machine.Place(tmp_path / "nothing")) for what, value in part}
    assert empty["processor"] == "unknown" and empty["boot parameters"] == "unknown"


def test_cpus_that_the_process_may_not_use_are_left_out(place):
    assert this_machine.Place(place.root, frozenset({1, 2, 5})).nodes() == {0: [1, 2], 1: [5]}
    assert this_machine.Place(place.root, frozenset({1, 2})).nodes() == {0: [1, 2]}
    assert this_machine.cpu_list("0-2,5\n") == [0, 1, 2, 5] and this_machine.ranges([5, 0, 1, 2]) == "0-2,5"


def test_all_policies_without_a_choice(place):
    made, _ = units(place, "munmap")
    assert [task.policy for task in made["munmap"].tasks()] == list(POLICIES)
