# SPDX-License-Identifier: GPL-2.0-only
"""./hydra run: one command of the user in a machine, and the directory of the results."""
import os
import pathlib
import shlex
import shutil
import stat
import sys

from lab import policies, progress
from lab.errors import LabError
from lab.kernel import build, kconfig
from lab.machine import distances, kvm, terminal, vm

SHELL_LIMIT = 86400          # seconds: the time limit of a shell
SHELLS = {"sh", "bash", "dash", "ksh", "zsh", "fish"}


def bring(out, target):
    """Copy all files below a directory into another: first aside, on the same disk, then each file under its name."""
    part = target / f".hydra.{os.getpid()}.part"
    try:
        shutil.copytree(out, part, symlinks=True)
        for directory, _, names in os.walk(part):
            place = target / pathlib.Path(directory).relative_to(part)
            place.mkdir(exist_ok=True)
            for name in names:
                os.replace(pathlib.Path(directory, name), place / name)
            links = [name for name in os.listdir(directory) if os.path.islink(os.path.join(directory, name))]
            for name in links:               # links to directories, which os.walk() takes for directories
                os.replace(pathlib.Path(directory, name), place / name)
    except OSError as error:
        # copytree() has a list of (from, to, why).
        why = error.args[0][0][2] if isinstance(error, shutil.Error) else f"{error.filename}: {error.strerror}"
        raise LabError(f"cannot bring the command's files to {target}: {why}",
                       f"They are still in {out}. Free some space, and copy them, or call again with another --out.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def fetch_results(directory, target):
    """Move a run's results to the directory of --out; without --out, print the place of the results."""
    out = directory / "out"
    if not vm.has_results(directory):
        return
    if target is None:
        progress.say(f"the command left files in {out}\n"
                     "  They stay there until you remove them; --out DIR would have brought them to DIR.")
        return
    bring(out, target)
    shutil.rmtree(out)
    progress.say(f"the command's files are in {target}")


def results_directory(name):
    """The directory of --out, made before the machine boots, so that a mistake shows at once; None without --out."""
    if name is None:
        return None
    target = pathlib.Path(name).absolute()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"--out {name}: cannot make the directory {target}: {error.strerror}", status=2) from error
    if not os.access(target, os.W_OK | os.X_OK):
        raise LabError(f"--out {name}: the directory may not be written", status=2)
    return target


def our_stdin():
    """Our standard input if a file or a pipe; QEMU would change a terminal and cannot open a socket."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return None
    return sys.stdin if stat.S_ISFIFO(kind) or stat.S_ISREG(kind) else None


def machine_of(arguments):
    """The machine that the words describe, checked."""
    try:
        users = tuple(shlex.split(arguments.qemu_args))
    except ValueError as error:
        raise LabError(f"--qemu-args {arguments.qemu_args}: {error}", "Quote it as in a shell.", status=2) from error
    machine = vm.Machine(arguments.nodes, arguments.cpus_per_node, arguments.memory, arguments.config, arguments.append,
                         users=users, kvm=arguments.kvm)
    machine.check()
    if arguments.distances is not None:
        machine.distances = distances.table(arguments.distances, machine.nodes)
    elif arguments.distance is not None:
        machine.distances = distances.same(arguments.distance, machine.nodes)
    if machine.kvm:
        kvm.check()
    return machine


def under_policy(arguments):
    """The words for hydractl run; none if CMD is run without it."""
    chosen = [getattr(arguments, key) for key in policies.SETTINGS if getattr(arguments, key) is not None]
    if arguments.policy is None and not chosen:
        return ()
    named = policies.in_list(arguments.policy or ("hydra" if arguments.policy is None else ""), "--policy")
    if len(named) > 1:
        raise LabError(f"--policy {arguments.policy}: name one policy", status=2)
    if chosen and named == ["linux"]:
        raise LabError("--policy: policy linux replicates nothing: settings mean nothing there", status=2)
    return policies.words(policies.with_options(named[0], arguments), "--policy")


def run_verb(arguments):
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    on_terminal = os.isatty(0) and os.isatty(1)
    if arguments.shell and not on_terminal:
        raise LabError("--shell needs a terminal", "Without one, write the commands after --, or give them to  ./hydra run -- sh",
                       status=2)
    shell = arguments.shell or (on_terminal and len(command) == 1 and os.path.basename(command[0]) in SHELLS)
    command = command or (["bash"] if shell else [])
    if not command:
        raise LabError("no command given", "Write it after --, e.g.  ./hydra run -- numactl --hardware", status=2)
    timeout = arguments.timeout
    if timeout is None:
        timeout = SHELL_LIMIT if shell else vm.RUN_LIMIT
    if not timeout > 0:
        raise LabError(f"--timeout {timeout:g}: must be more than 0", status=2)
    machine = machine_of(arguments)
    own = kconfig.users_fragment(arguments.config_file)
    target = results_directory(arguments.out)
    if under := under_policy(arguments):
        command = ["hydractl", "run", *under, "--", *command]
    image = build.kernel(machine.config, own)
    with progress.waiting(f"booting {machine}{' (Ctrl-] ends it)' if shell else ''}") as bar:
        result = terminal.run(command, machine, timeout, image, bar) if shell else \
            vm.run(command, machine, timeout, our_stdin(), bar.before(vm.to_stream(sys.stdout)),
                   bar.before(vm.to_stream(sys.stderr)), image, bar.tick)
    if result.trouble:
        print(f"\nhydra: {result.trouble}\n  The whole console: {result.directory / 'console.log'}", file=sys.stderr)
    fetch_results(result.directory, target)
    return result.status
