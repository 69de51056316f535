# SPDX-License-Identifier: GPL-2.0-only
"""In the machine: hydractl with real processes. Prints one object, which test_hydractl_machine.py checks.

    python3 guest_hydractl.py SHOOTDOWN      (the workload)
"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import time

ROUNDS = 200
LOOP = [sys.argv[1], "--op=mprotect", "--spinners=remote", "--seconds=10000"]
COUNTED = [*LOOP, f"--iterations={ROUNDS}"]
ENDLESS = [*LOOP, "--iterations=1000000000000"]
CGROUP = pathlib.Path("/sys/fs/cgroup/hydractl-test.service")


def hydractl(*arguments):
    return subprocess.run(["hydractl", *map(str, arguments)], capture_output=True, text=True, check=False)


def seen(*arguments):
    done = hydractl(*arguments, "--json")
    return json.loads(done.stdout) if done.returncode == 0 else f"{done.returncode}: {done.stderr}"


def stat(*command):
    done = hydractl("stat", "--json", "--output", "/tmp/summary", *command)
    return json.loads(pathlib.Path("/tmp/summary").read_text(encoding="utf-8")) if done.returncode == 0 else done.stderr


def counted(pid):
    return [line for line in pathlib.Path(f"/proc/{pid}/hydra").read_text(encoding="ascii").splitlines() if line.startswith("count ")]


def until_split(pid):
    for _ in range(200):
        if "\nsplit 1\n" in pathlib.Path(f"/proc/{pid}/hydra").read_text(encoding="ascii"):
            return
        time.sleep(0.05)


def on_a_terminal(*arguments):
    """Ctrl-C after the first screen of hydractl top: the exit status, and what it drew."""
    child, terminal = pty.fork()
    if not child:
        os.environ["TERM"] = "xterm"
        os.execvp("hydractl", ["hydractl", "top", "--delay", "0.5", *arguments])
    drawn = b""
    while b"q quit" not in drawn:           # the end of the first screen
        drawn += os.read(terminal, 65536)
    os.write(terminal, b"\x03")
    try:
        while data := os.read(terminal, 65536):
            drawn += data
    except OSError:                          # the terminal disappears with the last process
        pass
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), drawn.decode(errors="replace")


def main():
    found = {"one": stat("--", *COUNTED),
             "two": stat("--", "sh", "-c", '"$@" && "$@"', "sh", *COUNTED),
             "nofilter": stat("--policy", "hydra-nofilter", "--", *COUNTED),
             "linux": stat("--policy", "linux", "--", *COUNTED), "true": stat("--policy", "linux", "--", "true")}
    CGROUP.mkdir()
    with subprocess.Popen(["sh", "-c", f'echo $$ >{CGROUP}/cgroup.procs; "$@" & wait', "sh", "hydractl", "run", *ENDLESS],
                          stdout=subprocess.DEVNULL) as shell:
        while not (children := pathlib.Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text(encoding="ascii").split()):
            time.sleep(0.05)
        worker, = map(int, children)
        until_split(worker)
        found |= {"tree": seen("status", "--tree", shell.pid), "unit": seen("status", "--unit", CGROUP.stem),
                  "cgroup": seen("status", "--cgroup", f"/{CGROUP.name}"),
                  "top": seen("top", "--delay", "0.5", "--count", "1", "--tree", shell.pid),
                  "export": hydractl("export", "--unit", CGROUP.name).stdout, "worker": worker}
        found["terminal"] = on_a_terminal("--tree", str(shell.pid))
        found["stat_unit"] = stat("--unit", CGROUP.stem, "--", "sleep", "2")
        prefetch = ["sed", "-n", "s/^prefetch //p", f"/proc/{worker}/hydra"]
        found["lent"] = [hydractl("run", "--policy", "hydra,prefetch=4", "--unit", CGROUP.stem, "--", *prefetch).stdout,
                         subprocess.run(prefetch, capture_output=True, text=True, check=True).stdout]
        hydractl("record", "--delay", "0.5", "--count", "2", "/tmp/recording")
        found["replay"] = seen("replay", "--at", "2100-01-01 00:00", "/tmp/recording")
        found |= {"explained": seen("explain", "--seconds", "2", worker), "count": counted(worker)}
        found["off"] = hydractl("off", worker).stdout
        found |= {"explained_linux": seen("explain", "--seconds", "2", "--tree", shell.pid), "explained_all": seen("explain", "--seconds", "1", "--all"),
                  "explain_text": hydractl("explain", "--seconds", "1", worker).stdout, "count_linux": counted(worker) + counted(shell.pid)}
        found["allow"] = [hydractl("allow").stdout]
        hydractl("allow", "nobody")
        found["allow"].append(hydractl("set", "--policy", "hydra", worker).stderr)
        hydractl("allow", "anybody")
        found["allow"].append(hydractl("allow").stdout)
        hydractl("set", "--policy", "auto", worker)
        found["why"] = [seen("why", worker), hydractl("why", worker).stdout, seen("why", "--all")]
        hydractl("off", worker)
        watch = subprocess.Popen(["hydractl", "top", "--batch", "--delay", "0.2", "--unit", CGROUP.name],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        subprocess.run(["kill", str(worker)], check=True)
    for _ in range(100):
        try:
            CGROUP.rmdir()
            break
        except OSError:                     # the last process is about to leave
            time.sleep(0.05)
    found["removed"] = [watch.communicate()[1], watch.returncode]
    print(json.dumps(found))


main()
