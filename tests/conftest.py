# SPDX-License-Identifier: GPL-2.0-only
import pathlib
import signal
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPO), str(REPO / "tests/lab")]      # tests/documents compares with values of tests/lab


def pytest_configure(config):
    # A shell starts background processes with SIGINT ignored, and nohup with SIGHUP; all programs of the tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.addinivalue_line("markers", "machine: boots a virtual machine with the built kernel")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty HYDRA_CACHE."""
    monkeypatch.setenv("HYDRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
