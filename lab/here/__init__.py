# SPDX-License-Identifier: GPL-2.0-only
"""./hydra here: the measurements on a real machine that runs Hydra, with one report."""
