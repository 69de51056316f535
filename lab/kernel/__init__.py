# SPDX-License-Identifier: GPL-2.0-only
"""Gets Linux, adds Hydra, configures and builds the kernel."""
