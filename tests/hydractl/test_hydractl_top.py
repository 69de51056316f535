# SPDX-License-Identifier: GPL-2.0-only
"""hydractl top: rates, as text, as JSON and on a terminal."""
import json
import signal
import subprocess
import time

import pytest

from faked_kernel import HYDRA
from faked_terminal import Terminal


def counting(sent=9, spared=1234, fills=12, flushes=78, kib=84, more=""):
    return (HYDRA.replace("cpus_interrupted 9", f"cpus_interrupted {sent}").replace("cpus_spared 1234", f"cpus_spared {spared}")
            .replace("\nfills 12", f"\nfills {fills}").replace("flushes 78", f"flushes {flushes}")
            .replace("replica_kib 84", f"replica_kib {kib}").replace("upper_tables 3 fills 5", f"upper_tables 3 fills {fills}") + more)


def looks(kernel, *arguments, change=lambda: None, count=1):
    """The objects of top --json: change() is called between the first look and the second."""
    command = [kernel.program, "top", "--json", "--delay", "1", "--count", str(count), *map(str, arguments)]
    with subprocess.Popen(command, env=kernel.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        time.sleep(0.5)
        change()
        out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_rates_are_what_was_counted_between_two_looks(kernel):
    kernel.process(12, hydra=HYDRA)
    kernel.process(14, "idle", hydra=HYDRA.replace("active 1", "active 0"))
    got, = looks(kernel, change=lambda: (kernel.proc / "12" / "hydra").write_text(
        counting(sent=109, spared=11234, fills=62, flushes=1078, kib=90)))
    seconds = got["seconds"]
    assert 0.9 < seconds < 10 and abs(got["time"] - time.time()) < 60
    assert [process["pid"] for process in got["processes"]] == [12]
    process = got["processes"][0]
    assert (process["comm"], process["policy"], process["active"], process["split"]) == ("httpd", "hydra", 1, 1)
    for rates in (process, got):
        assert {key: round(rates[f"{key}_per_second"] * seconds) for key in ("sent", "spared", "fills", "flushes")} == {
            "sent": 100, "spared": 10000, "fills": 50, "flushes": 1000}
        assert rates["replica_kib"] == 90
        assert [(node["node"], round(node["fills_per_second"] * seconds), node["replica_kib"]) for node in rates["per_node"]] == [
            (0, 57, 40), (1, 0, 44)]


def test_a_new_program_has_counted_from_0(kernel):
    """A new process, and a process whose counters have gone down because it has executed another program."""
    kernel.process(12, hydra=counting(sent=1000))

    def change():
        (kernel.proc / "12" / "hydra").write_text(counting(sent=20))
        kernel.process(13, hydra=counting(sent=30))
    got, = looks(kernel, change=change)
    assert [round(process["sent_per_second"] * got["seconds"]) for process in got["processes"]] == [30, 20]


def test_processes_come_and_go(kernel):
    kernel.process(12, hydra=HYDRA)
    first, second = looks(kernel, count=2, change=lambda: kernel.end(12))
    assert first["processes"] == second["processes"] == [] and first["sent_per_second"] == 0


@pytest.mark.parametrize("order, pids", [
    ("sent", [13, 14, 12]), ("spared", [12, 14, 13]), ("fills", [14, 12, 13]), ("flushes", [14, 13, 12]), ("memory", [13, 12, 14]),
    ("pid", [12, 13, 14]), ("name", [14, 12, 13]),
])
def test_orders(kernel, order, pids):
    values = {12: ("b", counting(1, 30, 20, 10, 20)), 13: ("c", counting(3, 10, 10, 20, 30)), 14: ("a", counting(2, 20, 30, 30, 10))}

    def change():
        for pid, (name, text) in values.items():
            kernel.process(pid, name, hydra=text)
    got, = looks(kernel, "--sort", order, change=change)
    assert [process["pid"] for process in got["processes"]] == pids


def test_all_processes_and_groups(kernel):
    kernel.process(12, hydra=HYDRA.replace("active 1", "active 0"))
    kernel.process(13, parent=12, hydra=HYDRA)
    kernel.process(14, hydra=HYDRA)
    assert [process["pid"] for process in looks(kernel, "--all")[0]["processes"]] == [12, 13, 14]
    got, = looks(kernel, "--tree", 12)
    assert (got["group"], got["name"], [process["pid"] for process in got["processes"]]) == ("tree", "12", [13])


@pytest.mark.parametrize("kind", ["cgroup", "tree"])
def test_what_is_watched_goes_meanwhile(kernel, kind):
    kernel.process(12, hydra=HYDRA)
    directory = kernel.cgroup("/work", 12)
    command = [kernel.program, "top", "--batch", "--delay", "0.2", *(["--tree", "12"] if kind == "tree" else ["--cgroup", "/work"])]
    with subprocess.Popen(command, env=kernel.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert "1 process, " in child.stdout.readline()
        kernel.end(12)
        (directory / "cgroup.procs").unlink()
        directory.rmdir()
        _, err = child.communicate(timeout=30)
    assert child.returncode == 3
    assert err == ("hydractl: process 12 has ended: nothing is left to watch\n" if kind == "tree" else
                   f"hydractl: cgroup /work has gone ({directory} was removed): nothing is left to watch\n")


def test_batch(kernel):
    kernel.process(12, b"evil\033[31m", hydra=HYDRA)
    done = kernel.run("top", "--batch", "--delay", "0.1", "--count", "2")
    assert done.returncode == 0 and "\033" not in done.stdout
    tables = done.stdout.strip().split("\n\n")
    assert len(tables) == 2
    lines = [line.split() for line in tables[1].splitlines()]
    assert lines[1:] == [["node", "0:", "0", "fills/s,", "40", "KiB"], ["node", "1:", "0", "fills/s,", "44", "KiB"],
                         ["PID", "POLICY", "*SENT/S", "SPARED/S", "FILLS/S", "FLUSH/S", "REP-KIB", "AUTO", "WHY", "COMMAND"],
                         ["12", "hydra", "0", "0", "0", "0", "84", "-", "-", "evil\\033[31m"]]


def test_the_reader_of_a_batch_may_leave(kernel):
    done = subprocess.run(f"{kernel.program} top --json --delay 0.1 | head -n 1", shell=True, env=kernel.environment(),
                          capture_output=True, text=True, timeout=30, check=False)
    assert json.loads(done.stdout)["processes"] == []


@pytest.mark.parametrize("arguments, message", [
    ([], "no terminal to draw on: use --batch, --json or --csv"), (["--sort", "size"], "unknown order 'size': choose sent,"),
    (["12"], "unexpected argument '12'"), (["--delay", "0", "--batch"], "delay '0' is not a number of seconds"),
    (["--tree", "4242", "--batch"], "no process 4242"), (["--unit", "nginx", "--batch"], "no unit nginx.service runs"),
])
def test_wrong_usage_of_top(kernel, arguments, message):
    kernel.cgroup("/")
    done = kernel.run("top", *arguments)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


# On a terminal

@pytest.fixture
def draws(kernel):
    """Start hydractl top on a terminal, with one process under Hydra."""
    kernel.process(12, b"evil\033[31m", hydra=HYDRA)
    started = []

    def start(*arguments, **options):
        command = [kernel.program, "top", "--delay", "0.3", *arguments]
        started.append(Terminal(command, kernel.environment(), **options))
        return started[-1]
    yield start
    for terminal in started:
        terminal.close()


def is_restored(terminal):
    """The terminal (an xterm) has its settings back, the alternate screen has been left, and the cursor is seen."""
    written = terminal.written
    return (terminal.settings() == terminal.before and written.rfind(b"\033[?1049l") > written.rfind(b"\033[?1049h")
            and written.rfind(b"\033[?25h") > written.rfind(b"\033[?25l"))


def test_the_table_at_80_columns(draws):
    terminal = draws()
    lines = terminal.until("q quit").splitlines()
    assert lines[0].endswith("  1 process under Hydra of the system")
    assert lines[1:5] == [
        "sent 0/s  spared 0/s (0%)  fills 0/s  replicas 84 KiB",
        "node 0: 0 fills/s, 40 KiB   node 1: 0 fills/s, 44 KiB",
        "    PID POLICY          *SENT/S  SPARED/S  FILLS/S  FLUSH/S  REP-KIB COMMAND",
        "     12 hydra                 0         0        0        0       84 evil\\033[31"]
    assert lines[23] == "q quit  ? help  < > sort  p policy  Enter inspect  a all"
    terminal.keys(b"q")
    assert terminal.end() == 0


def test_keys(draws, kernel):
    terminal = draws()
    terminal.until("q quit")
    for keys, shown in [(b">", " *SPARED/S "), (b"?", "interrupts saved per second"), (b"?", " *SPARED/S "),
                        (b"\r", "domains=node,replication=lazy,"), (b"i", " *SPARED/S "), (b"<<", " *PID "), (b"a", "1 process of"),
                        (b"px", "the policy stays")]:
        terminal.keys(keys)
        terminal.until(shown)
    assert (kernel.proc / "12" / "hydra").read_text() == HYDRA
    terminal.keys(b"p")
    terminal.until("Policy of process 12? [l]inux")
    terminal.keys(b"l")
    terminal.until("process 12: policy linux")
    assert (kernel.proc / "12" / "hydra").read_text() == "linux"
    terminal.keys(b"q")
    assert terminal.end() == 0


def test_a_process_is_inspected(draws, kernel):
    more = HYDRA.replace("domain 0", "domain 2").replace("node 0", "node 7").partition("domain 2")
    kernel.process(13, "second", hydra=counting(more=more[1] + more[2]))
    terminal = draws(lines=16)
    terminal.until("second")
    terminal.keys(b"\033OB\r")                    # down
    lines = terminal.until("process 13 (second)").splitlines()
    assert lines[1:4] == ["policy hydra: domains=node,replication=lazy,", "  prefetch=9,filter=table", "threads run on several nodes"]
    assert "cpus_spared 1234 0/s".split() in map(str.split, lines)
    terminal.keys(10 * b"\033OB")                # down
    lines = terminal.until("DOMAIN NODE").splitlines()
    assert "     2    7 own              5       40       10        3         2" in lines
    assert "process 13 (second)" not in lines
    kernel.end(13)
    terminal.until("This process has ended. Enter: back.")
    terminal.keys(b"\rq")
    assert terminal.end() == 0


def test_many_processes_and_nodes(draws, kernel):
    domains = "".join(f"domain {n} node {n} root own replica_tables 1 replica_kib 4 upper_tables 1 fills {n}\n" for n in range(64))
    kernel.process(100, "many", hydra=HYDRA.partition("domain 0")[0] + domains)
    for pid in range(101, 150):
        kernel.process(pid, f"p{pid}", hydra=HYDRA)
    terminal = draws("--sort", "pid")
    shown = terminal.until("q quit")
    assert "\n...\n" in shown and " p101" in shown and " p149" not in shown
    terminal.keys(60 * b"\033OB")                 # down, and further than the end
    shown = terminal.until(" p149")
    assert " p101" not in shown and "COMMAND" in shown
    terminal.keys(b"q")
    assert terminal.end() == 0


def test_a_policy_that_cannot_be_set(draws, kernel):
    terminal = draws()
    terminal.until("q quit")
    terminal.keys(b"p")
    terminal.until("Policy of process 12?")
    kernel.end(12)
    terminal.keys(b"m")
    terminal.until("no process 12")
    terminal.keys(b"q")
    assert terminal.end() == 0


def test_a_terminal_of_20_columns(draws):
    terminal = draws(columns=20, lines=10)
    assert terminal.until("q: quit.").split() == "Terminal too small: 20x10. Needed: 35x8. Widen it, or use --batch. q: quit.".split()
    terminal.keys(b"pl")
    time.sleep(0.5)
    terminal.size(40, 10)
    assert "Policy" not in terminal.until("COMMAND") and "evil" in terminal.until("COMMAND")
    terminal.size(20, 3)
    terminal.until("Terminal too small:")
    terminal.keys(b"q")
    assert terminal.end() == 0


@pytest.mark.parametrize("how, expected", [
    (b"q", 0), (b"\x03", 0), (signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)])
def test_an_end_restores_the_terminal(draws, how, expected):
    terminal = draws(kind="xterm")
    terminal.until_written(b"q quit")
    assert terminal.settings() != terminal.before and b"\033[?1049h" in terminal.written
    if isinstance(how, bytes):
        terminal.keys(how)
    else:
        terminal.child.send_signal(how)
    assert terminal.end() == expected and is_restored(terminal)


def test_an_error_restores_the_terminal_before_its_message(draws, kernel):
    terminal = draws("--tree", "12", kind="xterm")
    terminal.until_written(b"q quit")
    kernel.end(12)
    assert terminal.end() == 3 and is_restored(terminal)
    message = b"hydractl: process 12 has ended: nothing is left to watch\r\n"
    assert terminal.written.endswith(message) and terminal.written.index(b"\033[?1049l") < terminal.written.index(message)


def test_the_count_ends_it(draws):
    terminal = draws("--count", "2", kind="xterm")
    assert terminal.end() == 0 and is_restored(terminal)


@pytest.mark.parametrize("kind, message", [
    ("no-such-kind", b"unknown type of terminal 'no-such-kind' (TERM): use --batch"),
    ("dumb", b"a terminal of type 'dumb' (TERM) cannot move its cursor: use --batch"),
])
def test_terminals_that_cannot_be_drawn_on(draws, kind, message):
    terminal = draws(kind=kind)
    assert terminal.end() == 2 and message in terminal.written
