# SPDX-License-Identifier: GPL-2.0-only
"""hydractl export: Prometheus' text format, and files that are replaced whole."""
import os
import re
import signal
import subprocess
import time

import pytest

from faked_kernel import HYDRA, OLDER_HYDRA
from test_hydractl_vm import TREES

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? ([0-9]+(?:\.[0-9]+)?|\+Inf)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


def parsed(text):
    """{(name, labels): value}; refuses what is not the format: samples follow their TYPE, no series comes twice."""
    values, name = {}, None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert re.fullmatch(r"# TYPE hydra_[a-z_]+ (counter|gauge)", line) and (name.endswith("_total") == line.endswith("counter"))
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match and match[1] == name, line
            key = (name, *(f"{label}={re.sub(chr(92) * 2 + '(.)', chr(92) + '1', value)}" for label, value in LABEL.findall(match[2] or "")))
            assert key not in values, line
            values[key] = match[3]
    return values


@pytest.fixture
def machine(kernel):
    (kernel.proc / "interrupts").write_text("  0: 1 2 timer\nTLB:  5  37   TLB shootdowns\n")
    kernel.process(12, hydra=HYDRA)
    kernel.process(13, 'odd "name"\\\n', hydra=HYDRA.replace("cpus_spared 1234", "cpus_spared 7"))
    kernel.process(14, "idle", hydra=HYDRA.replace("active 1", "active 0"))
    return kernel


def exported(kernel, *arguments):
    done = kernel.run("export", *arguments)
    assert done.returncode == 0, done.stderr
    return parsed(done.stdout)


def test_the_metrics(machine):
    (machine.hydra / "violations").write_text("3\n")
    got = exported(machine)
    assert got[("hydra_supported",)] == "1" and got[("hydra_violations_total",)] == "3"
    assert got[("hydra_replica_limit_bytes",)] == "+Inf" and got[("hydra_machine_tlb_interrupts_total",)] == "42"
    assert got[("hydra_default_info", "settings=linux")] == "1"
    assert got[("hydra_process_info", "pid=12", "command=httpd", "policy=hydra", "domains=node", "replication=lazy", "prefetch=9", "filter=table")] == "1"
    httpd = {name: value for (name, *labels), value in got.items() if labels == ["pid=12", "command=httpd"]}
    assert httpd == {
        "hydra_process_split": "1", "hydra_process_flushes_total": "78", "hydra_process_cpus_interrupted_total": "9",
        "hydra_process_cpus_interrupted_across_total": "8",
        "hydra_process_cpus_spared_total": "1234", "hydra_process_fills_total": "12", "hydra_process_prefetched_entries_total": "3400",
        "hydra_process_propagated_entries_total": "56", "hydra_process_fallbacks_total": "0",
        "hydra_process_reclaimed_tables_total": "4", "hydra_process_forgotten_tables_total": "6", "hydra_process_barriers_total": "3", "hydra_process_replica_bytes": str(84 * 1024)}
    assert got[("hydra_process_node_replica_bytes", "pid=12", "command=httpd", "node=1")] == str(44 * 1024)
    assert got[("hydra_process_node_fills_total", "pid=12", "command=httpd", "node=0")] == "5"
    assert got[("hydra_process_cpus_spared_total", "pid=13", 'command=odd "name"\\\\012')] == "7"
    assert not any("pid=14" in key for key in got)


def test_virtual_machines_of_any_policy(machine):
    machine.process(15, "qemu", hydra=HYDRA.replace("active 1", "active 0"), hydra_vm=TREES)
    got = exported(machine)
    of = {(name, *labels[2:]): value for (name, *labels), value in got.items() if labels[:2] == ["pid=15", "command=qemu"]}
    assert of[("hydra_vm_info", "vm=0", "policy=hydra", "domains=node", "replication=", "prefetch=9", "filter=", "tables=", "expose=", "refused=-")] == "1"
    assert of[("hydra_vm_copied_entries_total", "vm=0")] == "12" and of[("hydra_vm_trees_active", "vm=1")] == "0"
    assert of[("hydra_vm_node_fallbacks_total", "vm=0", "node=1")] == "1" and of[("hydra_vm_node_tables", "vm=0", "node=0")] == "9"
    # What the kernel does not say is left out.
    assert ("hydra_vm_returns_total", "vm=0") not in of and not any(name == "hydra_vm_node_moves_total" and "vm=1" in labels for name, *labels in of)


def test_a_counter_that_an_older_kernel_lacks_is_left_out(kernel):
    kernel.process(12, hydra=OLDER_HYDRA)
    names = {name for name, *_ in exported(kernel)}
    assert "hydra_process_cpus_spared_total" in names and "hydra_process_cpus_interrupted_across_total" not in names


def test_a_limit_and_a_machine_that_cannot(machine):
    (machine.hydra / "replica_limit_kib").write_text("64\n")
    (machine.hydra / "supported").write_text("no: Xen PV guest\n")
    (machine.proc / "interrupts").unlink()
    got = exported(machine)
    assert got[("hydra_replica_limit_bytes",)] == "65536" and got[("hydra_supported",)] == "0"
    assert ("hydra_machine_tlb_interrupts_total",) not in got


def test_what_is_left_out_is_counted(machine):
    (machine.proc / "12" / "hydra").write_text("policy hydra\n")
    assert exported(machine)[("hydra_export_left_out_processes", "reason=not_understood")] == "1"


def test_only_a_group(machine):
    machine.cgroup("/work", 13)
    assert {key[1] for key in exported(machine, "--cgroup", "/work") if key[0] == "hydra_process_split"} == {"pid=13"}


def test_a_file_is_replaced_whole(machine, tmp_path):
    target = tmp_path / "out" / "hydra.prom"
    target.parent.mkdir()
    target.write_text("old\n")
    seen = target.open(encoding="ascii")
    done = machine.run("export", "--output", target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert parsed(target.read_text())[("hydra_supported",)] == "1"
    with seen:
        assert seen.read() == "old\n"
    assert [path.name for path in target.parent.iterdir()] == ["hydra.prom"] and target.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("target", ["nowhere/hydra.prom", "directory"])
def test_a_file_that_cannot_be_written(machine, tmp_path, target):
    (tmp_path / "directory").mkdir()
    done = machine.run("export", "--output", tmp_path / target)
    assert done.returncode == 2 and f"cannot write {tmp_path / target}: " in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(("hydra.prom", "directory."))]


def test_a_full_disk_leaves_the_old_file(machine, tmp_path):
    target = tmp_path / "hydra.prom"
    target.write_text("old\n")
    limit = ["prlimit", "--fsize=1000", "--", "env", "--ignore-signal=XFSZ", machine.program, "export", "--output", target]
    done = subprocess.run(limit, env=machine.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"cannot write {target}: File too large" in done.stderr
    assert target.read_text() == "old\n" and not list(tmp_path.glob("hydra.prom.*"))


def test_again_and_again(machine, tmp_path):
    target = tmp_path / "hydra.prom"
    child = subprocess.Popen([machine.program, "export", "--output", target, "--delay", "0.1"], env=machine.environment())
    try:
        until(lambda: target.exists())
        (machine.proc / "12" / "hydra").write_text(HYDRA.replace("cpus_spared 1234", "cpus_spared 5678"))
        until(lambda: "5678" in target.read_text())
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM
    finally:
        child.kill()
        child.wait()
    assert os.listdir(tmp_path / "proc") and not list(tmp_path.glob("hydra.prom.*"))


def test_a_cgroup_that_is_removed_meanwhile(machine, tmp_path):
    directory, target = machine.cgroup("/work", 13), tmp_path / "hydra.prom"
    child = subprocess.Popen([machine.program, "export", "--output", target, "--delay", "0.1", "--cgroup", "/work"],
                             env=machine.environment(), stderr=subprocess.PIPE, text=True)
    until(lambda: target.exists())
    (directory / "cgroup.procs").unlink()
    directory.rmdir()
    assert child.communicate(timeout=10)[1] == f"hydractl: cgroup /work has gone ({directory} was removed): nothing is left to watch\n"
    assert child.returncode == 3


@pytest.mark.parametrize("arguments, message", [
    (["--delay", "1"], "give --output, too"), (["--count", "1"], "--count is for --delay"), (["12"], "unexpected argument '12'"),
    (["--output", ""], "needs the name of a file"),
    *[(["--output", "x", "--delay", value], f"delay '{value}' is not a number of seconds from 0.1 to 86400")
      for value in ("0", "0.05", "-1", "nan", "0x1", "", "1s", "86401", "1.2.3")],
    *[(["--output", "x", "--delay", "1", "--count", value], f"count '{value}' is not a number") for value in ("0", "-1", "many")],
])
def test_wrong_usage_of_export(machine, arguments, message):
    done = machine.run("export", *arguments)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


def until(condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen within 10 seconds")
