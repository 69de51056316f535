# SPDX-License-Identifier: GPL-2.0-only
"""hydractl status of several processes: trees, cgroups, systemd units, the system."""
import json

import pytest

from faked_kernel import HYDRA


def counts(pid):
    """What /proc/PID/hydra shows: interrupts and fills that tell the processes apart."""
    return (HYDRA.replace("cpus_interrupted 9", f"cpus_interrupted {pid}").replace("fills 12", f"fills {10 * pid}")
            .replace("upper_tables 3 fills 5", f"upper_tables 3 fills {4 * pid}"))


@pytest.fixture
def family(kernel):
    """1 began 100, which began 12 (a lower number) and 101; 12 began 200; 2 is a kernel thread."""
    kernel.process(2, "kthreadd", parent=0, hydra="")
    for pid, parent in ((1, 0), (100, 1), (12, 100), (101, 100), (200, 12), (300, 1)):
        kernel.process(pid, ") S 1 (", parent=parent, hydra=counts(pid))
    return kernel


def test_the_sums_of_a_tree(family):
    got = family.json("status", "--tree", 100)
    assert (got["group"], got["name"], got["processes"], got["active"], got["split"]) == ("tree", "100", 4, 4, 4)
    assert got["cpus_interrupted"] == 100 + 12 + 101 + 200
    assert got["cpus_spared"] == 4 * 1234
    assert got["per_node"] == [
        {"node": 0, "fills": 4 * 413, "replica_tables": 40, "replica_kib": 160, "upper_tables": 12},
        {"node": 1, "fills": 28, "replica_tables": 44, "replica_kib": 176, "upper_tables": 12}]
    lines = [line.split() for line in family.run("status", "--tree", 100).stdout.splitlines()]
    assert lines[0] == "process 100 and its descendants".split()
    assert ["processes", "4"] in lines and ["fills", "4130"] in lines and ["1", "28", "44", "176", "12"] in lines


def test_the_sums_of_the_system(family):
    (family.proc / "300" / "hydra").write_text(counts(300).replace("active 1", "active 0").replace("split 1", "split 0"))
    got = family.json("status", "--system")
    assert (got["group"], got["name"], got["processes"], got["active"], got["split"]) == ("system", None, 6, 5, 5)
    assert got["cpus_interrupted"] == 1 + 100 + 12 + 101 + 200 + 300


def test_no_process_under_hydra(kernel):
    kernel.process(5, hydra=HYDRA.replace("active 1", "active 0"))
    assert kernel.run("status", "--system").stdout.startswith("the system: no process of it is under Hydra\n")


def test_domains_of_one_node_are_added_up(kernel):
    core = "".join(f"domain {n} node {n // 2} root own replica_tables 1 replica_kib 4 upper_tables 1 fills {n}\n" for n in (3, 2, 1, 0))
    kernel.process(5, hydra=HYDRA.partition("domain 0")[0] + core)
    assert [(node["node"], node["fills"], node["replica_kib"]) for node in kernel.json("status", "--tree", 5)["per_node"]] == [(0, 1, 8), (1, 5, 8)]


@pytest.mark.parametrize("path", ["/work", "work", "/work/", None])
def test_the_sums_of_a_cgroup_and_of_those_below(family, path):
    directory = family.cgroup("/work", 100, 0)
    family.cgroup("/work/deep", 12, 4242)
    family.cgroup("/other", 300)
    got = family.json("status", "--cgroup", path or directory)
    assert (got["group"], got["processes"], got["cpus_interrupted"]) == ("cgroup", 2, 112)


def test_no_such_cgroup(family):
    family.cgroup("/work", 100)
    for name in ("/wurk", "wurk\033[31m"):
        done = family.run("status", "--cgroup", name)
        assert done.returncode == 2 and done.stdout == ""
        assert f"no cgroup {family.sys}/fs/cgroup/wurk" in done.stderr and "lists the cgroups" in done.stderr and "\033" not in done.stderr


def test_no_cgroups_at_all(family):
    (family.proc / "self").mkdir()
    (family.proc / "self" / "mounts").write_text("proc /proc proc rw 0 0\n")
    done = family.run("status", "--cgroup", "/work")
    assert done.returncode == 2 and "no cgroups of version 2 are mounted" in done.stderr and "--tree" in done.stderr


@pytest.mark.parametrize("name", ["nginx", "nginx.service"])
def test_the_sums_of_a_unit(family, name):
    family.cgroup("/system.slice/nginx.service", 12)
    family.cgroup("/system.slice/nginx.service/workers", 200)
    family.cgroup("/system.slice/nginx.service.d", 300)
    got = family.json("status", "--unit", name)
    assert (got["group"], got["name"], got["cpus_interrupted"]) == ("unit", name, 212)
    assert family.json("status", "--unit", "system.slice")["cpus_interrupted"] == 512


def test_a_unit_whose_name_has_a_dot(family):
    family.cgroup("/system.slice/java-1.8.service", 12)
    assert family.json("status", "--unit", "java-1.8")["processes"] == 1


def test_no_such_unit(family):
    family.cgroup("/system.slice", 100)
    done = family.run("status", "--unit", "nginx")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (f"hydractl: no unit nginx.service runs (no cgroup below {family.sys}/fs/cgroup has its name): "
                           "see 'systemctl status nginx.service'\n")


def test_several_units_of_one_name(family):
    for user in (1000, 1001):
        family.cgroup(f"/user.slice/user-{user}.slice/web.service", 100)
    done = family.run("status", "--unit", "web")
    assert done.returncode == 2 and "several units web.service run: choose one with --cgroup " in done.stderr
    assert "user-1000.slice/web.service" in done.stderr and "user-1001.slice/web.service" in done.stderr


def test_no_such_tree(family):
    done = family.run("status", "--tree", 4242)
    assert (done.returncode, done.stderr) == (2, "hydractl: no process 4242\n")


@pytest.mark.parametrize("arguments, message", [
    (["--tree", "x"], "'x' is not a PID"),
    (["--tree", "1", "--system"], "give one of --tree, --cgroup, --unit and --system"),
    (["--system", "12"], "give a PID or --system, not both"),
    (["--unit", ""], "--unit needs a name"),
])
def test_wrong_usage_of_groups(family, arguments, message):
    done = family.run("status", *arguments)
    assert done.returncode == 2 and message in done.stderr and "--help" in done.stderr and done.stdout == ""


def test_what_cannot_be_understood_is_left_out_of_the_sums(family):
    (family.proc / "12" / "hydra").write_text("policy hydra\n")
    done = family.run("status", "--system", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["processes"] == 5
    assert "1 process left out: cannot make sense of" in done.stderr
