# SPDX-License-Identifier: GPL-2.0-only
"""./hydra bench and ./hydra demo: a module for each measurement beside a paper's figure, and what the modules share."""
