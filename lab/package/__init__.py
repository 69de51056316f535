# SPDX-License-Identifier: GPL-2.0-only
"""Debian packages of the kernel and of hydractl, and Debian systems to install the packages on."""
