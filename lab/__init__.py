# SPDX-License-Identifier: GPL-2.0-only
"""The lab of Hydra for Linux: gets the kernel, builds it, boots it, measures and tests in it."""
