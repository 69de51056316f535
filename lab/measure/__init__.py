# SPDX-License-Identifier: GPL-2.0-only
"""Measures: the rows of the demo, and the meter that counts what operations execute."""
