# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command and prints, as JSON, its time, the time of all CPUs, and the machine's interrupts for TLB shootdowns meanwhile.

Standard library only, any Python 3.9 or later. What the command prints is not kept; its errors go to stderr. The exit status is
the command's.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time


def shootdowns():
    line = re.search(r"^ *TLB:((?: +\d+)+)", pathlib.Path("/proc/interrupts").read_text(encoding="ascii"), re.M)
    return sum(map(int, line[1].split())) if line else 0


def main():
    before, start = shootdowns(), time.monotonic()
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    seconds, after = time.monotonic() - start, shootdowns()
    print(json.dumps({"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "machine_tlb_interrupts": after - before}))
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
