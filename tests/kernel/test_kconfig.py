# SPDX-License-Identifier: GPL-2.0-only
"""Configuration fragments: reading, merging, and noticing what Kconfig refused."""
import re

import pytest

from lab.errors import LabError
from lab.kernel import build, kconfig


def test_options_and_comments_are_read():
    text = '# a comment\n\nCONFIG_NUMA=y\n# CONFIG_KVM is not set\nCONFIG_NODES_SHIFT=6\nCONFIG_NAME="a b"\n'
    assert kconfig.parse(text) == {"NUMA": "y", "KVM": "n", "NODES_SHIFT": "6", "NAME": '"a b"'}


def test_a_line_that_is_no_option_is_named():
    with pytest.raises(LabError, match="broken.config, line 2: .*NUMA=y"):
        kconfig.parse("CONFIG_SMP=y\nNUMA=y\n", "broken.config")


def test_a_later_layer_wins(tmp_path, monkeypatch):
    (tmp_path / "lab.config").write_text("CONFIG_NUMA=y\nCONFIG_DEBUG_VM=n\n")
    (tmp_path / "debug.config").write_text("CONFIG_DEBUG_VM=y\n")
    monkeypatch.setattr(kconfig, "CONFIGS", tmp_path)
    assert kconfig.merged("lab") == {"NUMA": "y", "DEBUG_VM": "n"}
    assert kconfig.merged("debug") == {"NUMA": "y", "DEBUG_VM": "y"}


def test_the_build_knows_every_configuration():
    assert set(kconfig.LAYERS) == set(build.FULL_BUILD_STEPS)


def test_the_kernel_without_hydra_differs_in_hydra_alone():
    """Else a comparison with the kernel off would also count what KVM adds, for instance."""
    lab, off = kconfig.merged("lab"), kconfig.merged("off")
    assert {name for name in lab | off if lab.get(name) != off.get(name)} == {name for name in lab if re.search("HYDRA|REFCACHE", name)}
    assert all(off[name] == "n" for name in lab if re.search("HYDRA|REFCACHE", name))


def test_text_and_parse_are_inverse():
    options = kconfig.merged("debug")
    assert kconfig.parse(kconfig.text(options)) == options


def test_refused_options_are_listed_and_absent_means_n():
    wanted = {"NUMA": "y", "KVM": "n", "NODES_SHIFT": "6"}
    assert kconfig.refused(wanted, {"NUMA": "y", "NODES_SHIFT": "4"}) == [("NODES_SHIFT", "6", "4")]


def test_the_self_tests_get_the_options_they_ask_for():
    asked = kconfig.parse((kconfig.paths.REPO / "kernel/tools/testing/selftests/hydra/config").read_text())
    assert kconfig.refused(asked, kconfig.merged("debug")) == []
