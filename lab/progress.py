# SPDX-License-Identifier: GPL-2.0-only
"""Progress on stderr: a bar with an estimate on a terminal, a line now and then elsewhere."""
import contextlib
import sys
import time

from rich.console import Console
from rich.progress import (BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn,
                           TimeRemainingColumn)

err = Console(stderr=True, highlight=False)


class Lines:
    """For logs: one line at the start and one each half minute."""

    def __init__(self, what, total):
        self.what, self.total, self.done = what, total, 0
        self.start = self.last = time.monotonic()
        print(f"hydra: {what} …", file=sys.stderr, flush=True)

    def advance(self, steps=1, note=""):
        self.done += steps
        now = time.monotonic()
        if now - self.last < 30:
            return
        self.last = now
        gone = now - self.start
        line = f"hydra: {self.what}: {int(self.done)}"
        if self.total:
            left = gone * max(self.total - self.done, 0) / max(self.done, 1)
            line += f" of about {self.total}, {gone / 60:.1f} min gone, about {left / 60:.1f} min left"
        print(f"{line} {note}".rstrip(), file=sys.stderr, flush=True)


class Bar:
    def __init__(self, progress, task):
        self.progress, self.task = progress, task

    def advance(self, steps=1, note=""):
        self.progress.update(self.task, advance=steps, note=note[-40:])


@contextlib.contextmanager
def counting(what, total=None):
    """Yields an object whose advance(steps, note) moves the bar; total=None means nobody knows."""
    if not err.is_terminal:
        yield Lines(what, total)
        return
    known = [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()] if total else [SpinnerColumn()]
    columns = [TextColumn("{task.description}"), *known, TimeElapsedColumn(), TextColumn("[dim]{task.fields[note]}")]
    with Progress(*columns, console=err, transient=True) as progress:
        yield Bar(progress, progress.add_task(what, total=total, note=""))


def say(text):
    """One line of news, above any bar."""
    print(f"hydra: {text}", file=sys.stderr, flush=True)
