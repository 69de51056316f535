# SPDX-License-Identifier: GPL-2.0-only
"""The verbs of ./hydra, a module for each: help, options, and what runs. Their top level imports only what is there before setup."""
