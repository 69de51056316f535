# SPDX-License-Identifier: GPL-2.0-only
"""A terminal for tests: a pseudo-terminal, and what a VT100 would show of what a program writes."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

TOKEN = re.compile(rb"\033\[([0-9;?]*)([A-Za-z])|\033[()][0B]|\033[=>]|\x0f|\x0e|([\r\n\b]|\033M)|([^\033\r\n\b\x0e\x0f]+)", re.S)


class Screen:
    """The characters of a VT100. Refuses codes that it does not know."""

    def __init__(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.rows = [[" "] * columns for _ in range(lines)]
        self.x = self.y = 0
        self.region = (0, lines - 1)         # the lines that scroll

    def feed(self, data):
        """Draw; returns the end of the data that is the beginning of a code."""
        place = 0
        while place < len(data):
            match = TOKEN.match(data, place)
            if not match:
                assert len(data) - place < 12, data[place:place + 20]
                return data[place:]
            if match[2]:
                self.control(match[2], [int(number or 0) for number in match[1].lstrip(b"?").split(b";")])
            elif match[3]:
                self.move(match[3])
            elif match[4]:
                self.write(match[4].decode())
            place = match.end()
        return b""

    def move(self, code):
        first, last = self.region
        if code == b"\r":
            self.x = 0
        elif code == b"\b":
            self.x = max(self.x - 1, 0)
        elif self.y == {b"\n": last, b"\033M": first}[code]:
            self.rows.pop(first if code == b"\n" else last)
            self.rows.insert(self.y, [" "] * self.columns)
        else:
            self.y = min(max(self.y + (1 if code == b"\n" else -1), 0), self.lines - 1)

    def control(self, code, numbers):
        if code == b"H":
            self.y, self.x = (max(number - 1, 0) for number in (numbers + [0])[:2])
        elif code in b"ABCD":
            step = max(numbers[0], 1)
            self.y += {b"A": -step, b"B": step}.get(code, 0)
            self.x += {b"C": step, b"D": -step}.get(code, 0)
        if code in b"HABCD":     # a program may not know the new size yet: the cursor stays on the screen
            self.y, self.x = min(max(self.y, 0), self.lines - 1), min(max(self.x, 0), self.columns - 1)
        elif code == b"K":
            first, last = {0: (self.x, self.columns), 1: (0, self.x + 1)}[numbers[0]]
            self.rows[self.y][first:last] = [" "] * (last - first)
        elif code == b"J":
            self.control(b"K", [0])
            for row in self.rows[self.y + 1:]:
                row[:] = [" "] * self.columns
        elif code == b"r":
            self.region = (numbers[0] - 1, numbers[1] - 1)
            self.x = self.y = 0
        else:
            assert code in b"mhl", code

    def write(self, text):
        for character in text.replace("\0", ""):
            self.rows[self.y][min(self.x, self.columns - 1)] = character
            self.x += 1

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows)


class Terminal:
    """A program on a pseudo-terminal. The kind "vt100" can be read as a screen."""

    def __init__(self, command, environment, columns=80, lines=24, kind="vt100"):
        self.ours, self.its = pty.openpty()
        self.before = self.settings()
        self.size(columns, lines)
        self.written, self.rest, self.screen = b"", b"", Screen(columns, lines)
        # ncurses believes LINES and COLUMNS more than the terminal, and GNU readline in a test process sets them.
        environment = {name: value for name, value in environment.items() if name not in ("LINES", "COLUMNS")}
        self.child = subprocess.Popen(command, env=dict(environment, TERM=kind), stdin=self.its, stdout=self.its, stderr=self.its,
                                      start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def settings(self):
        return termios.tcgetattr(self.its)

    def size(self, columns, lines):
        """Also tells the program, and the screen is empty until the program draws."""
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen = Screen(columns, lines)

    def keys(self, text):
        os.write(self.ours, text)

    def read(self):
        """Take what the program has written, after a short wait; returns whether there was anything."""
        ready = select.select([self.ours], [], [], 0.1)[0]
        if ready:
            data = os.read(self.ours, 65536)
            self.written += data
            if self.screen:
                self.rest = self.screen.feed(self.rest + data)
        return ready

    def until(self, text):
        """The screen, once it shows the text and the program has drawn the rest, too."""
        end = time.monotonic() + 30
        while text not in self.screen.text():
            assert time.monotonic() < end and self.child.poll() is None, self.screen.text()
            self.read()
        while self.read():
            assert time.monotonic() < end
        return self.screen.text()

    def until_written(self, data):
        end = time.monotonic() + 30
        self.screen = None
        while data not in self.written:
            assert time.monotonic() < end, self.written
            self.read()

    def end(self):
        """Wait for the end; returns the exit status."""
        self.screen = None
        end = time.monotonic() + 30
        while self.child.poll() is None:
            assert time.monotonic() < end, self.written
            self.read()
        self.read()
        return self.child.returncode

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        os.close(self.ours)
        os.close(self.its)
