# SPDX-License-Identifier: GPL-2.0-only
"""Boots emulated machines, runs commands, and reads the output of kernels and tests."""
