# SPDX-License-Identifier: GPL-2.0-only
"""The exception that the lab shows as a message: what happened, and the remedy."""
import errno


class LabError(Exception):
    """what: what happened and where; todo: what the user can do (may be empty)."""

    def __init__(self, what, todo="", status=1):
        super().__init__(what)
        self.what = what
        self.todo = todo
        self.status = status

    def __str__(self):
        return self.what + (f"\n  {self.todo}" if self.todo else "")


def from_system(error):
    """The LabError for an OSError that no module expected: which file, what happened, what to do."""
    where = f"{error.filename}: " if error.filename else ""
    todo = "Free some space, or set HYDRA_CACHE to a directory on a larger disk." if error.errno == errno.ENOSPC else ""
    return LabError(f"{where}{error.strerror or error}", todo)
