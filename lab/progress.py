# SPDX-License-Identifier: GPL-2.0-only
"""Progress on stderr: a bar with an estimate on a terminal, a line now and then elsewhere."""
import contextlib
import sys
import threading
import time


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
    """Yields an object whose advance(steps, note) moves the bar; total=None: the number of steps is not known."""
    if not sys.stderr.isatty():
        yield Lines(what, total)
        return
    from rich.console import Console         # late: ./hydra bench --list works before setup has installed it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    known = [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()] if total else [SpinnerColumn()]
    columns = [TextColumn("{task.description}"), *known, TimeElapsedColumn(), TextColumn("[dim]{task.fields[note]}")]
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        yield Bar(progress, progress.add_task(what, total=total, note=""))


class Waiting:
    """On a terminal, a line that counts seconds until the block ends; elsewhere one line at the start."""

    def __init__(self, what):
        self.what, self.shown, self.lock = what, sys.stderr.isatty(), threading.Lock()
        self.second = -1
        if not self.shown:
            say(f"{what} …")

    def tick(self, seconds):
        with self.lock:
            if self.shown and int(seconds) > self.second:
                self.second = int(seconds)
                sys.stderr.write(f"\r\033[Khydra: {self.what}: {self.second} s")
                sys.stderr.flush()

    def end(self):
        with self.lock:
            if self.shown:
                self.shown = False
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()

    def before(self, sink):
        """The sink, with the line ended before the first bytes."""
        def write(data):
            self.end()
            sink(data)
        return write


@contextlib.contextmanager
def waiting(what):
    line = Waiting(what)
    try:
        yield line
    finally:
        line.end()


def say(text):
    """One line of news, above any bar."""
    print(f"hydra: {text}", file=sys.stderr, flush=True)
