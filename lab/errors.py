# SPDX-License-Identifier: GPL-2.0-only
"""The one exception the lab shows to people: what happened, and what to do about it."""


class LabError(Exception):
    """what: what happened and where; todo: what the user can do (may be empty)."""

    def __init__(self, what, todo="", status=1):
        super().__init__(what)
        self.what = what
        self.todo = todo
        self.status = status

    def __str__(self):
        return self.what + (f"\n  {self.todo}" if self.todo else "")
