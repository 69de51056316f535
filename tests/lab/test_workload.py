# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench --workload: the plan, what the guest counts, and what the table and the files have of it. (No machine boots.)"""
import csv
import json
import re

import pytest

from lab import cli, paths
from lab.bench import choice, verb, workload
from lab.errors import LabError
from lab.guest import guest_workload
from lab.measure import report, values as measured

COMMAND = "my-test --threads 8 [x] $A $_B^ | tail -1"
SAID = {"seconds": 2.0, "processes": 3, "split": 1, "running": 0, "unreadable": 0, "fills": 7, "prefetched": 0, "propagated": 5, "flushes": 9,
        "cpus_interrupted": 4, "cpus_spared": 12, "fallbacks": 0, "reclaimed": 0, "peak_replica_kib": 64, "machine_tlb_interrupts": 40, "pagetable_kib": 300}


def words(*given):
    return cli.parser().parse_args(["bench", *given])


def settings(*given):
    return choice.settings(words("--workload", "x", *given))


def test_policies_may_have_settings(capsys):
    assert list(settings()) == ["linux", "mitosis", "radixvm", "abis", "hydra"] and settings()["abis"] == ("--policy", "abis")
    made = settings("--policies", "hydra-nofilter,hydra:filter=accessed:prefetch=4,linux")
    assert made == {"linux": ("--policy", "linux"), "hydra-nofilter": ("--policy", "hydra-nofilter"),
                    "hydra,filter=accessed,prefetch=4": ("--policy", "hydra", "--filter", "accessed", "--prefetch", "4")}
    assert settings("--policies", "hydra-nofilter,hydra,filter=accessed,prefetch=4,linux") == made
    assert capsys.readouterr().err == ""
    assert settings("--policies", "hydra,filter=accessed", "--prefetch", "4") == {key: made[key] for key in ("linux", "hydra,filter=accessed,prefetch=4")}
    capsys.readouterr()
    assert list(settings("--policies", "hydra")) == ["linux", "hydra"] and "Linux is measured, too" in capsys.readouterr().err


@pytest.mark.parametrize("given, said", [("hydar", "there is no policy 'hydar'"), ("hydra:filter", "'filter' in 'hydra,filter' is no setting"), ("prefetch=4,hydra", "there is no policy 'prefetch=4'"),
                                         ("linux,prefetch=4", "policy linux replicates nothing"),
                                         ("hydra:filter=fine", "'filter=fine' in"), ("hydra:prefetch=10", "'prefetch=10' in"),
                                         ("hydra:colour=red", "'colour=red' in"), ("", "names no policy")])
def test_wrong_policies(given, said):
    with pytest.raises(LabError, match=re.escape(said)) as caught:
        settings("--policies", given)
    assert caught.value.status == 2


def test_the_first_run_is_not_counted_and_every_second_is_backwards():
    assert workload.plan(["linux", "hydra"], 3) == [(0, "linux"), (1, "linux"), (1, "hydra"), (2, "hydra"), (2, "linux"), (3, "linux"), (3, "hydra")]


def entries(runs=3, columns=("linux", "hydra"), **more):
    planned = workload.plan(columns, runs)
    said = [{"step": step, "said": {**SAID, "seconds": run + (column == "linux"), "machine_tlb_interrupts": 40 + run, **more}}
            for step, (run, column) in enumerate(planned) if run]
    return workload.entries_of(COMMAND, planned, said, runs)


def test_values_are_those_of_their_column_and_run():
    made = entries()
    assert [(entry["policy"], entry["run"], entry["value"]) for entry in made if entry["metric"] == "machine_tlb_interrupts"] == [
        ("linux", 1, 41), ("hydra", 1, 41), ("hydra", 2, 42), ("linux", 2, 42), ("linux", 3, 43), ("hydra", 3, 43)]
    assert {entry["case"] for entry in made} == {COMMAND} and "processes" not in {entry["metric"] for entry in made}
    assert "run" not in entries(1)[0]


def test_what_is_counted_is_named_and_files_have_each_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(workload, "run", lambda _: entries(nr_tlb_remote_flush=6))
    files = {kind: str(tmp_path / f"values.{kind}") for kind in ("json", "csv", "png")}
    assert verb.bench_verb(words("--workload", COMMAND, *(part for kind, name in files.items() for part in (f"--{kind}", name)))) == 0
    shown = " ".join(re.sub(r"[│┃]", " ", capsys.readouterr().out).split())
    for said in ("my-test --threads 8 [x] $A", "interrupts for TLB shootdowns", "the line TLB", "/proc/interrupts", "nr_tlb_remote_flush", "VmPTE of /proc/PID/status", "Counted by Hydra", "41–43",
                 "an emulator's time, Linux = 1", "0.67 (0.50–0.75)", "Counts that differ between runs"):
        assert said in shown, said
    assert "reclaimed" not in shown          # nothing was
    with open(files["csv"], encoding="utf-8") as source:
        rows = list(csv.DictReader(source))
    assert len(rows) == len(entries(nr_tlb_remote_flush=6)) and rows[0] == {
        "row": "workload", "case": COMMAND, "policy": "linux", "metric": "machine_tlb_interrupts", "value": "41", "unit": "interrupts", "run": "1"}
    assert (tmp_path / "values.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_rarely_needed_is_shown_if_it_was():
    assert "reclaimed" in {line.metric for line in workload.lines(COMMAND, entries(reclaimed=2))}
    assert all(line.metric in measured.EMULATED or not line.title.startswith("an emulator") for line in workload.lines(COMMAND, entries()))
    report.table("title", workload.lines(COMMAND, entries(1)), entries(1))


@pytest.mark.parametrize("given, said", [([" "], "no command given"), (["x", "--nodes", "17"], "--nodes 17"), (["x", "--memory", "lots"], "--memory lots"),
                                         (["x", "--runs", "0"], "--runs 0"), (["x", "--samples", "9"], "--samples is for the measurement 'steps'"),
                                         (["x", "--csv", "/nonexistent/x"], "cannot write /nonexistent/x")])
def test_wrong_words_are_refused_before_a_kernel_is_built(monkeypatch, given, said):
    monkeypatch.setattr(workload.build, "kernel", lambda: pytest.fail("it builds"))
    with pytest.raises(LabError, match=said):
        verb.bench_verb(words("--workload", *given))


def test_the_machine_gets_the_plan(monkeypatch):
    ran = []
    monkeypatch.setattr(workload.build, "kernel", lambda: "bzImage")
    monkeypatch.setattr(workload.programs, "hydractl", lambda: "/bin/hydractl")
    monkeypatch.setattr(workload.measure, "run_guest", lambda *given: ran.append(given) or [{"step": step, "said": SAID} for step in (1, 2)])
    made = workload.run(words("--workload", COMMAND, "--policies", "linux,hydra:filter=entry", "--nodes", "2", "--cpus-per-node", "3", "--memory", "1G",
                              "--timeout", "77"))
    ((command, machine, _, _, limit, what),) = ran
    steps = json.loads(command[command.index("--plan") + 1])
    assert (machine.nodes, machine.cpus_per_node, machine.memory, limit, what) == (2, 3, "1G", 77, f"'{COMMAND}'")
    assert command[command.index("--command") + 1] == COMMAND
    assert [(step["settings"], step.get("warm", False)) for step in steps] == [
        (["--policy", "linux"], True), (["--policy", "linux"], False), (["--policy", "hydra", "--filter", "entry"], False)]
    assert {entry["policy"] for entry in made} == {"linux", "hydra,filter=entry"}


HYDRACTL = """\
#!/bin/sh
echo "$*" >>{log}
while [ "$1" != -- ]; do [ "$1" = --output ] && summary=$2; shift; done
shift
echo '{{"command": "x", "status": 0, "seconds": 0.5, "fills": 3, "machine_tlb_interrupts": null}}' >$summary
exec "$@"
"""


@pytest.fixture
def guest(tmp_path, capsys, monkeypatch):
    """Runs the guest's program with a hydractl that only starts the command."""
    (tmp_path / "hydractl").write_text(HYDRACTL.format(log=tmp_path / "log"))
    (tmp_path / "hydractl").chmod(0o755)
    monkeypatch.setenv("HYDRA_OUT", "/nowhere")

    def run(command, *steps):
        plan = [{"doing": f"step {number}", "settings": ["--policy", "hydra"], **step} for number, step in enumerate(steps)]
        monkeypatch.setattr(guest_workload.sys, "argv", ["x", "--hydractl", str(tmp_path / "hydractl"), "--command", command, "--plan", json.dumps(plan)])
        status = guest_workload.main()
        seen = capsys.readouterr()
        return status, [json.loads(line) for line in seen.out.splitlines()], seen.err
    return run


def test_the_guest_counts_each_step_but_the_first(guest, tmp_path):
    status, lines, errors = guest("echo $((3 + 4)) ${HYDRA_OUT-unset}; echo said >&2", {"warm": True}, {})
    assert (status, errors) == (0, "") and [line.get("doing") for line in lines] == ["step 0", "step 1", None]
    assert lines[-1]["step"] == 1 and lines[-1]["output"] == "7 unset\nsaid\n"
    said = lines[-1]["said"]
    assert (said["seconds"], said["fills"]) == (0.5, 3) and said["pagetable_kib"] >= 0 and "machine_tlb_interrupts" not in said and "status" not in said
    assert "stat --json --output" in (tmp_path / "log").read_text() and "--policy hydra -- /bin/sh -c echo" in (tmp_path / "log").read_text()


def test_a_command_that_fails_is_told_with_its_output(guest):
    status, lines, errors = guest("echo why; exit 3", {})
    assert status == 1 and lines == [{"doing": "step 0"}] and "step 0: the command failed: exit status 3" in errors and errors.endswith("why\n\n")


def test_page_tables_are_those_of_the_programs_processes(guest):
    """64 MiB in a child of a child: 32 tables of 4 KiB at least."""
    status, lines, _ = guest("sh -c 'python3 -c \"import mmap, time; m = mmap.mmap(-1, 1 << 26); m[::4096] = bytes(len(m) // 4096); time.sleep(1)\"; true'; true", {})
    assert status == 0 and 128 < lines[-1]["said"]["pagetable_kib"] < 2000
    assert guest_workload.page_tables_kib([2 ** 22 + 1]) == 0 and guest_workload.descendants(2 ** 22 + 1) == []


def test_events_of_the_tlb(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 5\nnr_tlb_remote_flush 7\nnr_tlb_remote_flush_received 21\npgfault 3\n")
    assert guest_workload.tlb_events(tmp_path / "vmstat") == {"nr_tlb_remote_flush": 7, "nr_tlb_remote_flush_received": 21}
    assert set(guest_workload.tlb_events(tmp_path / "vmstat")) < set(workload.METRICS)


def test_what_the_tool_counts_has_a_name():
    """Of hydractl stat's names of counters each has a line."""
    text = (paths.REPO / "tools/hydractl/counters.c").read_text(encoding="utf-8")
    names = re.search(r"counter_keys\[[^]]*\] = \{(.*?)\};", text, re.S)[1]
    counters = re.findall(r'"(\w+)"', names)
    assert counters[:8] == ["fills", "prefetched", "propagated", "flushes", "cpus_interrupted", "cpus_interrupted_across", "cpus_spared",
                            "fallbacks"]
    assert set(counters[:counters.index("reclaimed") + 1]) <= set(workload.METRICS)
