# SPDX-License-Identifier: GPL-2.0-only
"""The stages of ./hydra test."""
