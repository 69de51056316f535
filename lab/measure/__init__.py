# SPDX-License-Identifier: GPL-2.0-only
"""What all measurements share, values, limits, tables and pictures, and the rows of the demo."""
