# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside the virtual machine: runs programs one after the other, each under settings of Hydra.

Standard library only, any Python 3.9 or later. The plan is a JSON list of {"doing", "settings", "command"}: the settings are
words for hydractl run, and a word of the command that is the name of one of --programs stands for it. Prints {"doing"} before each step
and {"step": its number, "said": what its program printed} after it, one JSON object per line. Messages go to stderr; the exit
status is 1 if a program fails.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def put(**fields):
    print(json.dumps(fields), flush=True)


def copied(programs):
    """Programs on the host's file system are read anew at every start; copies in memory are not. Returns their paths by name."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="hydra-", dir="/dev/shm"))
    home.chmod(0o755)
    return {pathlib.Path(program).name: shutil.copy(program, home) for program in programs}


def use_disk():
    """Work on a disk, so that files are written back and read again: one in memory, without a journal, whose threads would run now and then."""
    number = pathlib.Path("/sys/class/zram-control/hot_add").read_text(encoding="ascii").strip()
    pathlib.Path(f"/sys/block/zram{number}/disksize").write_text("256M", encoding="ascii")
    place = tempfile.mkdtemp(prefix="disk-", dir="/dev/shm")
    for command in (["mkfs.ext4", "-q", "-O", "^has_journal", f"/dev/zram{number}"], ["mount", "-o", "noatime", f"/dev/zram{number}", place]):
        subprocess.run(command, check=True)
    os.chdir(place)


def run(step, here):
    """Run the program of a step; returns what it printed, or None after a message."""
    command = [here["hydractl"], "run", *step["settings"], "--", *(here.get(word, word) for word in step["command"])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        said = json.loads((done.stdout.splitlines() or [""])[-1])       # libraries may print lines before
    except ValueError:
        said = None
    if done.returncode or said is None:
        print(f"{' '.join(command)}: exit status {done.returncode}, printed {done.stdout[-500:]!r}", file=sys.stderr)
        return None
    return said


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--programs", nargs="+", required=True)
    options.add_argument("--disk", action="store_true", help="the working directory is on a disk, not in memory")
    options.add_argument("--plan", type=json.loads, required=True)
    options.add_argument("--held", help="run this first: it holds virtual machines until the end")
    options = options.parse_args()
    if options.held:
        subprocess.run([sys.executable, options.held], check=True)
    here = copied(options.programs)
    if options.disk:
        use_disk()
    for number, step in enumerate(options.plan):
        put(doing=step["doing"])
        said = run(step, here)
        if said is None:
            return 1
        put(step=number, said=said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
