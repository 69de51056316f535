# SPDX-License-Identifier: GPL-2.0-only
"""The lab of Hydra for Linux: gets, builds and boots the kernel, measures and tests."""
