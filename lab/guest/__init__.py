# SPDX-License-Identifier: GPL-2.0-only
"""What runs inside a machine, alone: nothing here imports another module of the lab. The tests import it."""
