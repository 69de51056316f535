# SPDX-License-Identifier: GPL-2.0-only
"""Gets Linux, lays Hydra over it, configures and builds it."""
