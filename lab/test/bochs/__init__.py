# SPDX-License-Identifier: GPL-2.0-only
"""Self tests on Bochs, the emulator whose processor has PCID."""
