# SPDX-License-Identifier: GPL-2.0-only
import pathlib
import signal
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPO), str(REPO / "tests")]

import faked_kernel     # noqa: E402 (the path first)


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


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """hydractl, built from this tree."""
    out = tmp_path_factory.mktemp("hydractl")
    made = faked_kernel.make(f"O={out}")
    assert made.returncode == 0, made.stderr
    return out / "hydractl"


@pytest.fixture
def kernel(program, tmp_path):
    """A faked kernel with Hydra, for hydractl."""
    return faked_kernel.Kernel(program, tmp_path)
