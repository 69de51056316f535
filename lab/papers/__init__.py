# SPDX-License-Identifier: GPL-2.0-only
"""./hydra papers: the tables and figures of the four papers, and ours beside them."""
