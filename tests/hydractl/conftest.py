# SPDX-License-Identifier: GPL-2.0-only
import faked_kernel
import pytest


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
