# SPDX-License-Identifier: GPL-2.0-only
"""guest_walks.py: the machine that it starts, and what it takes from hydractl walks."""
import json
import os

import pytest

from lab.guest import guest_walks


def said(**different):
    """As of hydractl walks --json, for two nodes"""
    domain = {"vcpus": 1, "pages": 10, "local_local": 1, "local_remote": 2, "remote_local": 3, "remote_remote": 4, "unmapped": 0}
    return json.dumps({"pid": 7, "per_domain": [{"domain": 0, "node": 0, **domain}, {"domain": 1, "node": 1, **domain, **different}]})


def test_what_hydractl_says_is_taken_by_node():
    assert guest_walks.seen(said(local_local=3, remote_remote=2), 2, 10) == [{"ll": 1, "lr": 2, "rl": 3, "rr": 4}, {"ll": 3, "lr": 2, "rl": 3, "rr": 2}]


@pytest.mark.parametrize("different", [{"vcpus": 2}, {"pages": 9}, {"unmapped": 1}, {"node": 2}])
def test_another_machine_than_expected_is_an_error(different):
    with pytest.raises(guest_walks.Failure, match="2 nodes"):
        guest_walks.seen(said(**different), 2, 10)


@pytest.mark.parametrize("more, wanted, unwanted", [
    ((), ["node,nodeid=3"], ["hydra_groups"]), (("--groups", "pv"), ["hydra_groups=pv", "uniform hydra stay"], ["nodeid"]),
    (("--groups", "0/1/2/3", "--rotate"), ["hydra_groups=0/1/2/3", "uniform hydra rotate"], ["nodeid"])])
def test_the_machine_sees_its_nodes_or_groups_its_cpus(more, wanted, unwanted):
    words = ["--what", "uniform", "--inner", "hydra", "--nodes", "4", *(f"--{name}=x" for name in ("image", "initrd", "processor", "parameters")), *more]
    said = " ".join(guest_walks.command(guest_walks.arguments(words), "/there"))
    assert all(word in said for word in wanted) and not any(word in said for word in unwanted)


class Inner:
    """A machine that has 1000 interrupts and 3000 exits in 1000 munmaps, and 5 exits each second besides."""

    def __init__(self):
        out, self.said = os.pipe()
        self.clock, self.exits, self.stdin, self.stdout = 100.0, 7, self, os.fdopen(out, "rb", buffering=0)

    def sleep(self, seconds):
        self.clock += seconds
        self.exits += 5 * seconds

    def write(self, words):
        assert words == b"\n"
        self.sleep(4)
        self.exits += 3000
        os.write(self.said, b"\r\nwalks: munmaps 1000 interrupts 1000\r\n")

    def flush(self):
        pass

    def poll(self):
        return None

    def ask(self, name, **_arguments):
        assert name == "query-stats"
        return [{"provider": "kvm", "stats": [{"name": "exits", "value": value}]} for value in (self.exits - 1, 1)]


def test_exits_of_munmaps_are_without_those_of_the_clocks(monkeypatch):
    inner = Inner()
    monkeypatch.setattr(guest_walks.time, "sleep", inner.sleep)
    monkeypatch.setattr(guest_walks.time, "monotonic", lambda: inner.clock)
    assert guest_walks.munmaps(inner, inner) == {"interrupts_per_munmap": 1.0, "exits_per_munmap": 3.0}
