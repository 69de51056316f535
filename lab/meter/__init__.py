# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench steps: counts what operations execute, by a plugin of QEMU's translator."""
