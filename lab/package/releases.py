# SPDX-License-Identifier: GPL-2.0-only
"""The Debian releases that the lab makes packages for.

Imports nothing: the command line has the names.
"""
TITLES = {"bookworm": "Debian 12", "trixie": "Debian 13"}


def here():
    """The release of this machine."""
    with open("/etc/os-release", encoding="utf-8") as file:
        fields = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    return fields.get("VERSION_CODENAME", "unknown").strip('"')


def title(release):
    return TITLES.get(release, f"Debian {release}")
