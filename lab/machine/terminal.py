# SPDX-License-Identifier: GPL-2.0-only
"""A command in the machine on the user's terminal: ./hydra run --shell.

QEMU would change the settings of a terminal and not restore the settings, so the machine gets a pipe. Inside the machine the
command gets a pseudo-terminal; the user's terminal is raw meanwhile, so that every key (Ctrl-C, too) goes to the machine.
"""
import contextlib
import os
import shlex
import signal
import sys
import termios
import threading
import tty

from lab.machine import vm

END_KEY = b"\x1d"            # Ctrl-], as of telnet
# pty.spawn() copies between its streams, the machine's pipes, and the pseudo-terminal.
IN_MACHINE = "import os, pty, sys; status = os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])); " \
    "sys.exit(status if status >= 0 else 128 - status)"


def in_machine(command, columns, lines, kind):
    """The command line that gives the command a terminal of the given size and kind in the machine."""
    setting = f"stty cols {columns} rows {lines}; export TERM={shlex.quote(kind)}; exec \"$@\""
    return ["/usr/bin/python3", "-I", "-c", IN_MACHINE, "sh", "-c", setting, "sh", *command]


@contextlib.contextmanager
def raw(terminal):
    """Raw mode for the block; afterwards the terminal has the old settings."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSADRAIN)      # what was typed ahead is kept
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def keys(terminal, pipe):
    """Copy what the user types to the machine; the end key interrupts ./hydra, which ends the machine."""
    with contextlib.suppress(OSError):       # the machine has ended, and the pipe is closed
        while data := os.read(terminal, 4096):
            if END_KEY in data:
                os.kill(os.getpid(), signal.SIGINT)
                return
            os.write(pipe, data)


def run(command, machine, timeout, image, bar):
    """As vm.run(), on the terminal of our standard input and output."""
    size = os.get_terminal_size(1)
    command = in_machine(command, size.columns, size.lines, os.environ.get("TERM", "dumb"))
    reader, writer = os.pipe()
    show = bar.before(vm.to_stream(sys.stdout))
    with open(reader, "rb") as stdin, open(writer, "wb"), raw(0):
        threading.Thread(target=keys, args=(0, writer), daemon=True).start()
        return vm.run(command, machine, timeout, stdin, show, show, image, bar.tick)
