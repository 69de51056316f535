# SPDX-License-Identifier: GPL-2.0-only
import pathlib
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))


def pytest_configure(config):
    config.addinivalue_line("markers", "machine: boots a virtual machine with the built kernel")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty HYDRA_CACHE."""
    monkeypatch.setenv("HYDRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
