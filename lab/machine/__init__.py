# SPDX-License-Identifier: GPL-2.0-only
"""Boots emulated machines, runs commands in them, and reads what kernels and tests print."""
