# SPDX-License-Identifier: GPL-2.0-only
"""guest_migrate.py: the order in which it asks QEMU, and what it makes of the answers; QEMU and the kernel are faked."""
import contextlib
import json
import os
import types

import pytest

from lab.bench import migrate
from lab.guest import guest_migrate

inner = guest_migrate.guest_inner
SETTINGS = "vm 0\npolicy hydra\nactive 1\nfallbacks 0\ndropped 0\ncopied {copied}\nnested_tables {tables}\n"
DOMAINS = "".join(f"domain {domain} node {domain} tables {{each}} copied 9 moves 1 fallbacks 0 given_up 0\n" for domain in range(4))
CHECKED = "vm 0\ntables 40 misplaced 0 violations 0\n"
READY = "hydra: group 0: CPUs 0\r\nmigrate: threads 4 groups 4\r\n"
REPORT = "migrate: data 0x7f0000000000 pages 4096 written {written} wrong 0 error {error} pooled 2048 refused 0 away 0 violations 0\r\n"


class Qemu:
    """It stands for the process, its monitor, and what counts events."""

    def __init__(self, proc, log):
        out, self.said = os.pipe()
        self.stdin, self.stdout, self.pid = self, os.fdopen(out, "rb", buffering=0), 7
        self.home, self.log, self.asked, self.rounds, self.downtime = proc / "7", log, [], 0, 0
        self.home.mkdir(parents=True)
        self.status, self.exits, self.changed, self.hypercalls, self.error, self.written = None, 100, 1000, 10, 0, 500
        self.tables(10)
        (self.home / "hydra_vm_check").write_text(CHECKED)

    def tables(self, each):
        (self.home / "hydra_vm").write_text(SETTINGS.format(copied=each, tables=4 * each) + DOMAINS.format(each=each))

    def poll(self):
        return None

    def flush(self):
        pass

    def write(self, words):
        assert words == b"\n"
        self.asked.append("line")
        self.hypercalls += 5
        os.write(self.said, REPORT.format(written=self.written, error=self.error).encode())

    def count(self):
        return self.changed

    def close(self):
        self.asked.append("closed")

    def ask(self, name, **arguments):
        self.asked.append(name)
        if name == "cont":
            os.write(self.said, READY.encode())
        elif name == "query-stats":
            return [{"stats": [{"name": which, "value": value} for which, value in (("exits", self.exits), ("pf_taken", self.exits // 10), ("hypercalls", self.hypercalls))]}] * 2
        elif name == "migrate-set-parameters":
            self.downtime = arguments.get("downtime-limit", self.downtime)
            self.asked[-1] = dict(arguments)
        elif name == "migrate":
            self.status, self.uri = "active", arguments["uri"]
            self.log.write_text("7@1.2:kvm_vm_ioctl type 0x4010ae42, arg 0x7\n")
        elif name == "migrate-continue":
            assert arguments == {"state": self.status} == {"state": "pre-switchover"}
            self.status = "completed"
            self.changed += 512
            self.log.write_text(self.log.read_text() + 2 * "7@1.3:kvm_vm_ioctl type 0xc018aec0, arg 0x7\n7@1.3:kvm_vm_ioctl type 0x4008ae61, arg 0x7\n")
        elif name == "query-migrate":
            return self.migration()
        return {}

    def migration(self):
        if self.status is None:
            return {}
        if self.status == "active":
            self.rounds += 1
            self.exits += 10
            self.tables(11)
            if self.downtime == guest_migrate.AT_ONCE:
                self.status = "pre-switchover"
        pages = 70000 + 300 * (self.status == "completed")
        return {"status": self.status, "ram": {"dirty-sync-count": self.rounds, "normal": pages - 5, "duplicate": 5}, "error-desc": "no room"}


@pytest.fixture
def qemu(monkeypatch, tmp_path):
    directory = tmp_path / "there"
    directory.mkdir()
    machine = Qemu(tmp_path / "proc", directory / "log")
    machine.directory = directory
    machine.log.touch()
    (tmp_path / "id").write_text("123\n")
    (tmp_path / "violations").write_text("0\n")
    (tmp_path / "stream-hydra").write_bytes(bytes(4096))
    machine.violations = tmp_path / "violations"

    @contextlib.contextmanager
    def started(command, _directory, nodes, expose):
        machine.command, machine.nodes, machine.expose = command, nodes, expose
        yield machine, machine
    monkeypatch.setenv("HYDRA_OUT", str(tmp_path))
    monkeypatch.setattr(inner, "PROC", tmp_path / "proc")
    monkeypatch.setattr(inner, "started", started)
    monkeypatch.setattr(guest_migrate, "CHANGED", tmp_path / "id")
    monkeypatch.setattr(guest_migrate, "VIOLATIONS", machine.violations)
    monkeypatch.setattr(guest_migrate, "Event", lambda number: machine if number == 123 else pytest.fail("another event"))
    monkeypatch.setattr(guest_migrate.time, "sleep", lambda _: None)
    monkeypatch.setattr(guest_migrate.guest_walks, "look", lambda _monitor, _pid, wanted: [types.SimpleNamespace(vcpus=2, pages={"ll": len(wanted) // 4096 * 2})] * 2)
    return machine


def options(case, column="hydra"):
    step = next(step for step in migrate.BENCH.steps if (step.case, step.policy) == (case, column))
    return guest_migrate.arguments(step.command[step.command.index(migrate.HERE.name) + 1:])


def test_the_source_stops_after_rounds_of_the_log(qemu):
    seen = guest_migrate.measure(options("leaves"), qemu.directory)
    parameters = [asked for asked in qemu.asked if isinstance(asked, dict)]
    assert parameters == [{"downtime-limit": guest_migrate.NEVER}, {"max-bandwidth": guest_migrate.SLOW}, {"downtime-limit": guest_migrate.AT_ONCE}]
    assert qemu.asked.index("line") < qemu.asked.index("migrate") < qemu.asked.index("migrate-continue") and qemu.asked[-1] == "closed"
    assert qemu.uri == f"exec:cat >'{qemu.violations.with_name('stream-hydra')}'" and (qemu.nodes, qemu.expose) == (4, True)
    assert (seen["trees"], seen["rounds"] > 3, seen["stream"], seen["violations"], seen["written"]) == (4, True, 4096, 0, 500)
    assert seen["running"]["tables"] == 4 and seen["running"]["holds"] == 1 and seen["running"]["exits"] == 20 * seen["rounds"]
    assert seen["stopped"] == {"exits": 0, "pf_taken": 0, "entries": 512, "holds": 2, "pages": 300, "tables": 0, "copied": 0}


def test_what_the_source_says_is_taken_by_the_bench(qemu):
    step = migrate.BENCH.steps[1]
    found = migrate.taken(step, json.loads(json.dumps(guest_migrate.measure(options(step.case, step.policy), qemu.directory))))
    values = {metric: value for metric, value, _ in found}
    assert values["stopped_entries"] == 512 and values["running_holds"] == 1 and values["stream_kib"] == 4


@pytest.mark.parametrize("case, expose", [("hydra", True), ("stock", False)])
def test_the_target_goes_on_once_all_has_come(qemu, case, expose):
    qemu.status, qemu.written, qemu.error = "completed", 900, 0 if expose else 5
    if not expose:
        os.write(qemu.said, f"hydra: {guest_migrate.TELLS_NO_MORE} where\r\n".encode())
    seen = guest_migrate.measure(options(case), qemu.directory)
    assert (qemu.nodes, qemu.expose) == (2, expose) and "-incoming" in qemu.command and "exec:cat 'stream-hydra'" in qemu.command
    assert [asked for asked in qemu.asked if asked in ("cont", "line")] == ["cont", "line"]
    assert (seen["told_no_more"], seen["error"], seen["hypercalls"], seen["hypercalls_later"], seen["written"]) == (not expose, qemu.error, 10, 0, 900)
    found = {metric: value for metric, value, _ in migrate.taken(migrate.BENCH.steps[2], seen)}
    assert (found["all_there"], found["both_local_share"], found["trees"]) == (1, 1, 4)


def test_a_failed_migration_is_told(qemu):
    qemu.status = "failed"
    with pytest.raises(inner.Failure, match="has failed: no room"):
        guest_migrate.measure(options("hydra"), qemu.directory)


@pytest.mark.parametrize("said, kind", [("WARNING: CPU: 1 PID: 7 at mm", "Failure"), ("Oops: int3: 0000", "Spoilt"), ("BUG: sleeping function", "Failure")])
def test_a_kernel_that_complains_is_told(qemu, said, kind):
    qemu.status = "completed"
    os.write(qemu.said, f"{said}\r\n".encode())
    with pytest.raises(inner.Failure, match=said.split(":", maxsplit=1)[0]) as caught:
        guest_migrate.measure(options("hydra"), qemu.directory)
    assert type(caught.value).__name__ == kind


def test_violations_are_all_that_were_counted(qemu):
    qemu.violations.write_text("3\n")
    assert guest_migrate.violations(qemu.pid) == 3
    (qemu.home / "hydra_vm_check").write_text("vm 0\n")
    with pytest.raises(inner.Failure, match="not checked"):
        guest_migrate.violations(qemu.pid)


def test_one_tree_without_domains(qemu):
    (qemu.home / "hydra_vm").write_text(SETTINGS.format(copied=0, tables=9))
    assert guest_migrate.of_machine(qemu.pid) == {"trees": 1, "tables": 9, "fallbacks": 0, "copied": 0, "dropped": 0}
    (qemu.home / "hydra_vm").write_text(SETTINGS.format(copied=0, tables=9) + DOMAINS.format(each=0).replace("tables 0", "tables 2", 1))
    assert guest_migrate.of_machine(qemu.pid)["trees"] == 1


def test_another_number_of_groups_is_told(qemu, monkeypatch):
    monkeypatch.setattr(inner, "answer", lambda _machine, words: (words.search("migrate: threads 4 groups 0\n"), "the host does not tell"))
    with pytest.raises(inner.Failure, match="0 groups"):
        guest_migrate.measure(options("leaves"), qemu.directory)


def test_the_commands_of_both_sides_make_the_same_machine(qemu):
    guest_migrate.measure(options("leaves"), qemu.directory)
    source = qemu.command
    qemu.status = "completed"
    guest_migrate.measure(options("stock"), qemu.directory)
    same = len(os.path.commonprefix([source, qemu.command]))
    assert source[same:] == ["-trace", "kvm_vm_ioctl", "-D", str(qemu.log)] and qemu.command[same] == "-incoming"
