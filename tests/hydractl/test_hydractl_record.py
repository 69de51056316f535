# SPDX-License-Identifier: GPL-2.0-only
"""hydractl record and replay: what top shows, later."""
import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from faked_kernel import HYDRA, under_auto
from faked_terminal import Terminal
from test_hydractl_top import counting

NOON = 1764158400            # 2025-11-26 12:00 UTC
UTC = {"TZ": "UTC"}


def look(at, *processes, begins=False, whole=True, moment=None, kind=0, name=None):
    """A line of a recording: processes are (PID, name, text), or a PID whose text is that of the look before."""
    listed = [{"pid": one} if isinstance(one, int) else dict(zip(("pid", "comm", "hydra"), one)) for one in processes]
    return json.dumps({"time": float(at), "moment": float(at if moment is None else moment), "begins": begins, "whole": whole, "kind": kind, "name": name,
                       "processes": listed, "unreadable": 0, "not_understood": 0}) + "\n"


@pytest.fixture
def day(kernel, tmp_path):
    """Four looks, ten seconds apart; the third is an hour later, of another recorder."""
    path = tmp_path / "day"
    path.write_text(look(NOON, (12, "web", counting(sent=100)), (13, "idle", HYDRA), begins=True)
                    + look(NOON + 10, (12, "web", counting(sent=600)), 13, whole=False)
                    + look(NOON + 3610, (12, "other", counting(sent=50)), begins=True)
                    + look(NOON + 3620, (12, "other", counting(sent=60)), whole=False))
    return path


def replay(kernel, path, *arguments, status=0):
    done = kernel.run("replay", path, *arguments, environment=UTC)
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if "--json" in arguments else done


def record(kernel, path, *arguments, **options):
    return kernel.run("record", "--delay", "0.1", *arguments, path, **options)


def test_what_is_recorded_is_what_top_shows(kernel, tmp_path):
    """The last look, and its rates. Processes that are not under Hydra are left out, as in top."""
    kernel.process(12, "größer\n", hydra=HYDRA)
    kernel.process(13, "plain", hydra=HYDRA.replace("active 1", "active 0"))
    kernel.process(14, "auto", hydra=under_auto("split", "saves", gain_ppm=2000))
    command = [kernel.program, "record", "--delay", "2", "--count", "2", str(tmp_path / "it")]
    with subprocess.Popen(command, env=kernel.environment()) as child:
        while not (tmp_path / "it").exists() or not os.path.getsize(tmp_path / "it"):
            time.sleep(0.05)
        (kernel.proc / "12" / "hydra").write_text(HYDRA.replace("cpus_interrupted 9", "cpus_interrupted 109"))
    assert child.returncode == 0
    first, second = replay(kernel, tmp_path / "it", "--json")
    assert abs(second["time"] - time.time()) < 60 and 1 < second["seconds"] < 60 and first["seconds"] == 0
    live = json.loads(kernel.run("top", "--json", "--delay", "0.1", "--count", "1").stdout)
    assert [process["pid"] for process in second["processes"]] == [12, 14] == sorted(process["pid"] for process in live["processes"])
    assert abs(second["processes"][0]["sent_per_second"] * second["seconds"] - 100) < 0.01
    timeless = [{key: value for key, value in process.items() if key != "sent_per_second"} for process in second["processes"]]
    assert timeless == [{key: value for key, value in process.items() if key != "sent_per_second"} for process in live["processes"]]


def test_a_replay_needs_no_kernel_with_hydra(kernel, day):
    for path in kernel.hydra.iterdir():
        path.unlink()
    kernel.hydra.rmdir()
    assert len(replay(kernel, day, "--json")) == 4


def test_looks_that_belong_together_are_compared(kernel, day):
    looks = replay(kernel, day, "--json")
    assert [one["time"] - NOON for one in looks] == [0, 10, 3610, 3620]
    assert [[(process["comm"], process["sent_per_second"]) for process in one["processes"]] for one in looks] == [
        [("web", 0), ("idle", 0)], [("web", 50), ("idle", 0)], [("other", 0)], [("other", 1)]]


@pytest.mark.parametrize("at, found", [("12:00", 0), ("12:00:09", 0), ("12:00:10", 1), ("12:59:59", 1), ("2025-11-26 12:30", 1), ("2025-11-26T13:00:10", 2), (f"{NOON + 3615}.5", 2),
                                       ("23:00", 3), ("2030-01-01 00:00", 3)])
def test_the_look_of_a_time(kernel, day, at, found):
    one, = replay(kernel, day, "--json", "--at", at)
    assert one["time"] == NOON + [0, 10, 3610, 3620][found]


def test_yesterday(kernel, tmp_path):
    now = time.time()
    midnight = now - now % 86400
    (tmp_path / "it").write_text(look(midnight - 86400 + 60, begins=True) + look(midnight - 86400 + 180) + look(midnight))
    one, = replay(kernel, tmp_path / "it", "--json", "--at", "yesterday 00:02")
    assert one["time"] == int(midnight) - 86400 + 60


@pytest.mark.parametrize("at, message", [
    ("11:59", "the recording begins later, at 2025-11-26 12:00:00"), ("noon", "time 'noon' is not understood: write 14:05,"), ("12:00 ", "is not understood"), ("", "is not understood"),
    ("1.2.3", "is not understood")])
def test_no_look_of_a_time(kernel, day, at, message):
    done = replay(kernel, day, "--batch", f"--at={at}", status=2)
    assert message in done.stderr and done.stdout == ""


def test_several_looks_from_a_time_on(kernel, day):
    assert len(replay(kernel, day, "--json", "--at", "12:00:10", "--count", "2")) == 2 and len(replay(kernel, day, "--json", "--count", "3")) == 3
    assert len(replay(kernel, day, "--json", "--at", "12:00:10", "--count", "99")) == 3


def test_a_moment_as_text_and_as_csv(kernel, day):
    lines = replay(kernel, day, "--batch", "--at", "12:00:10", "--sort", "pid").stdout.splitlines()
    assert lines[0].startswith("2025-11-26 12:00:10  2 processes, 10.0 s: 50 sent/s,") and lines[3].split()[0] == "*PID"
    assert lines[4].split()[:3] == ["12", "hydra", "50"] and lines[4].split()[-1] == "web"
    lines = replay(kernel, day, "--csv").stdout.splitlines()
    names = lines[0].split(",")
    assert len(lines) == 1 + 6 and [line.split(",")[names.index("comm")] for line in lines[1:]] == ["web", "idle", "web", "idle", "other", "other"]


def test_a_size_is_kept(kernel, tmp_path):
    """All looks of the two files are there, the last one with its texts, and no file has more than half."""
    for pid in range(10, 360):
        kernel.process(pid, hydra=HYDRA)
    for _ in range(6):       # each recorder begins with all texts
        done = record(kernel, tmp_path / "it", "--size", "1", "--count", "2")
        assert done.returncode == 0, done.stderr
    sizes = [(tmp_path / name).stat().st_size for name in ("it", "it.1")]
    assert max(sizes) <= 1 << 19 and min(sizes) > 0 and sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["it", "it.1"]
    looks = replay(kernel, tmp_path / "it", "--json")
    assert 3 <= len(looks) < 12 and all(len(one["processes"]) == 350 and one["replica_kib"] == 350 * 84 for one in looks)


def test_a_text_that_stays_is_not_written_again(kernel, tmp_path):
    kernel.process(12, hydra=HYDRA)
    assert record(kernel, tmp_path / "it", "--count", "3").returncode == 0
    lines = [json.loads(line)["processes"][0] for line in (tmp_path / "it").read_text().splitlines()]
    assert [sorted(process) for process in lines] == [["comm", "hydra", "pid"], ["pid"], ["pid"]]


def test_a_look_that_is_larger_than_the_file(kernel, tmp_path):
    for pid in range(10, 1010):
        kernel.process(pid, hydra=HYDRA)
    done = record(kernel, tmp_path / "it", "--size", "1", "--count", "1")
    assert done.returncode == 2 and "KiB: give at least --size 2" in done.stderr and not (tmp_path / "it").read_text()
    assert record(kernel, tmp_path / "it", "--size", "2", "--count", "1").returncode == 0


def test_a_recorder_goes_on_where_another_was_ended(kernel, tmp_path, day):
    """Also in the middle of a line; and rates are not those between the two."""
    kernel.process(12, hydra=counting(sent=10000))
    with open(day, "a", encoding="utf-8") as file:
        file.write(look(NOON + 3630, 12)[:40])
    assert record(kernel, day, "--count", "2").returncode == 0
    looks = replay(kernel, day, "--json")
    assert len(looks) == 6 and [one["sent_per_second"] for one in looks[4:]] == [0, 0] and looks[4]["seconds"] == 0


def test_a_second_recorder_is_refused(kernel, tmp_path):
    with open(tmp_path / "it", "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = record(kernel, tmp_path / "it", "--count", "1")
    assert done.returncode == 2 and "another hydractl records there" in done.stderr


def test_groups_are_recorded_with_their_names(kernel, tmp_path):
    kernel.cgroup("/system.slice/web.service", 12)
    kernel.process(12, hydra=HYDRA)
    kernel.process(13, hydra=HYDRA)
    assert record(kernel, tmp_path / "it", "--unit", "web", "--count", "1").returncode == 0
    one, = replay(kernel, tmp_path / "it", "--json")
    assert (one["group"], one["name"], [process["pid"] for process in one["processes"]]) == ("unit", "web", [12])
    assert record(kernel, tmp_path / "all", "--plain", "--tree", 12, "--count", "1").returncode == 0
    assert replay(kernel, tmp_path / "all", "--json")[0]["group"] == "tree"


def test_plain_processes_are_recorded_if_asked_for(kernel, tmp_path):
    kernel.process(13, "plain", hydra=HYDRA.replace("active 1", "active 0"))
    assert record(kernel, tmp_path / "it", "--plain", "--count", "1").returncode == 0
    assert replay(kernel, tmp_path / "it", "--json")[0]["processes"] == [] and len(replay(kernel, tmp_path / "it", "--json", "--plain")[0]["processes"]) == 1


@pytest.mark.parametrize("text, message", [
    (None, "cannot read"), ("", "has no recording of 'hydractl record'"), ("{}\n[1]\nno JSON\n", "has no recording"), ('{"time": 1.0, "processes": 3}\n', "has no recording")])
def test_what_is_no_recording(kernel, tmp_path, text, message):
    if text is not None:
        (tmp_path / "it").write_text(text)
    assert message in replay(kernel, tmp_path / "it", "--batch", status=2).stderr


def test_a_text_that_makes_no_sense_is_left_out(kernel, tmp_path):
    (tmp_path / "it").write_text(look(NOON, (12, "x", "policy galaxy\n"), 13, (14, "y", HYDRA), begins=True))
    one, = replay(kernel, tmp_path / "it", "--json")
    assert one["not_understood"] == 2 and [process["pid"] for process in one["processes"]] == [14]


@pytest.mark.parametrize("arguments, message", [
    (["--size", "0"], "size '0' is not a number of MiB"), (["--size", "x"], "size 'x' is not"), (["a", "b"], "one FILE only"), (["/no/such/directory/it"], "cannot write /no/such/directory/it")])
def test_wrong_usage_of_record(kernel, arguments, message):
    done = kernel.run("record", "--count", "1", *arguments)
    assert done.returncode == 2 and message in done.stderr


def test_a_full_disk_ends_the_recorder(kernel):
    kernel.process(12, hydra=HYDRA)
    done = record(kernel, "/dev/full", "--count", "1")
    assert done.returncode == 2 and "cannot write /dev/full: No space left on device" in done.stderr


def test_sigterm_leaves_whole_lines(kernel, tmp_path):
    kernel.process(12, hydra=HYDRA)
    with subprocess.Popen([kernel.program, "record", "--delay", "0.1", tmp_path / "it"], env=kernel.environment()) as child:
        while not (tmp_path / "it").exists() or os.path.getsize(tmp_path / "it") < 1000:
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
    assert child.returncode == -signal.SIGTERM and (tmp_path / "it").read_text().endswith("}\n")


# On a terminal

@pytest.fixture
def shows(kernel, day):
    started = []

    def start(*arguments, **options):
        started.append(Terminal([kernel.program, "replay", str(day), *arguments], kernel.environment(**UTC), **options))
        return started[-1]
    yield start
    for terminal in started:
        terminal.close()


LEFT, RIGHT = b"\033OD", b"\033OC"


def test_keys_go_in_time(shows):
    """To the look before and after, a minute, an hour; the ends are the last stops."""
    terminal = shows()
    assert terminal.until("look 4 of 4").startswith("2025-11-26 13:00:20 (look 4 of 4)  1 process under Hydra of the system")
    for keys, shown in [(LEFT, "13:00:10 (look 3 of 4)"), (LEFT, "12:00:10 (look 2 of 4)"), (LEFT, "look 1 of 4"), (LEFT, "look 1 of 4"), (RIGHT, "look 2 of 4"), (b" ", "look 3 of 4"),
                        (b"[", "look 2 of 4"), (b"]", "look 3 of 4"), (b"{", "look 2 of 4"), (b"}", "look 3 of 4"), (b"}", "look 4 of 4"), (b"}", "look 4 of 4"), (b"{", "look 2 of 4"),
                        (b"{", "look 1 of 4")]:
        terminal.keys(keys)
        terminal.until(shown)
    terminal.keys(RIGHT)
    lines = terminal.until("look 2 of 4").splitlines()
    assert lines[4].split()[:3] == ["12", "hydra", "50"]
    terminal.keys(b"q")
    assert terminal.end() == 0


def test_a_recorded_process_is_inspected_and_not_changed(shows, kernel):
    kernel.process(12, "now", hydra=HYDRA)
    terminal = shows("--at", "12:00:10")
    terminal.until("look 2 of 4")
    terminal.keys(b"p")
    terminal.until("a recording: no policy can be changed")
    terminal.keys(b"\r")
    assert "cpus_interrupted 600 50/s".split() in [line.split() for line in terminal.until("process 12 (web)").splitlines()]
    terminal.keys(LEFT)
    terminal.until("         100 ")
    terminal.keys(b"?")
    terminal.until("of a recording: the look before")
    terminal.keys(b"q")
    assert terminal.end() == 0 and kernel.text(12) == HYDRA
