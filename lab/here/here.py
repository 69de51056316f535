# SPDX-License-Identifier: GPL-2.0-only
"""./hydra here: the measurements on this machine, in alternating runs, with one HTML report.

Each run of a program is a process of its own. What it measured is in the JSON file before the next one starts, so that no
failure loses a finished run. No setting of the machine is changed: CPUs are chosen for our processes only, and the files of the
programs are in mounts which end with them.
"""
import errno
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from lab import children, paths, progress
from lab.bench import choice
from lab.errors import LabError
from lab.here import here_plan, html_report, perf_events, this_machine
from lab.machine import programs
from lab.measure.values import FIELDS

FORMAT = 1                   # of the JSON file
STEP_LIMIT = 900             # seconds for one of our programs; a command of the user may take any time
LEAST_FREE = 64 * 2**20      # bytes on the disk of the results
SHOWN = 600                  # characters of a message in the report


class Failure(Exception):
    """A task that could not be measured."""


def write(path, text, kept):
    """Write a file completely or not at all. kept: what the user has got, if it cannot be written."""
    try:
        paths.write_whole(path, text)
    except OSError as error:
        path.with_name(f".{path.name}.{os.getpid()}.part").unlink(missing_ok=True)
        todo = "Free some space. " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise LabError(f"cannot write {path}: {error.strerror}", todo + kept, status=2) from error


class Book:
    """The JSON document, written anew after each task."""

    def __init__(self, path, document):
        self.path, self.document = pathlib.Path(path), document
        self.done = {tuple(key) for key in document["done"]}

    def keep(self):
        write(self.path, json.dumps(self.document, indent=1) + "\n", f"The file has the runs before this one; go on with:  --resume --json {self.path}")

    def add(self, run, task, entries, why=""):
        """Keep what a task measured; why: the reason if it failed."""
        self.document["values"] += [{**entry, "run": run} for entry in entries]
        if why:
            self.document["failed"].append({"run": run, "row": task.row, "case": task.case, "policy": task.policy, "why": why})
        else:
            self.done.add((run, *task.key()))
            self.document["done"].append([run, *task.key()])
        self.keep()

    def failed_before(self, task):
        return any([failed["row"], failed["case"], failed["policy"]] == task.key() for failed in self.document["failed"])


def execute(command, limit=None, directory=None):
    """Run a command that ends with the lab; returns what it printed. Failure with its messages if it failed."""
    with children.leashed([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory) as child:
        try:
            said, errors = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"the time limit of {limit} s was reached") from error
        said, messages = said.decode(errors="replace"), errors.decode(errors="replace").strip()
    if child.returncode:
        raise Failure(f"exit status {child.returncode}: {messages[-SHOWN:]}", said)
    return said


def objects(text):
    """The JSON objects of a program's lines."""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


class Kit:
    """Runs tasks. execute: a function, so that tests can do without a kernel."""

    def __init__(self, tools, events, perf, run=execute):
        self.tools, self.events, self.perf, self.run = tools, events, perf, run

    def take(self, unit, task, directory):
        """The values of a task."""
        counts = pathlib.Path(directory) / "events"
        counts.unlink(missing_ok=True)
        command = here_plan.command_of(unit, task, self.tools, perf_events.words(self.perf, self.events, counts))
        if unit.kind == "workload":
            entries = self.workload(command, task)
        elif unit.kind == "demo":
            entries = self.demo(command)
        else:
            entries = self.bench(unit, task, command)
        return entries + self.counted(task, counts)

    def bench(self, unit, task, command):
        with tempfile.TemporaryDirectory(prefix="here-", dir=paths.cache_dir()) if unit.bench.disk else tempfile.TemporaryDirectory(prefix="hydra-here-") as place:
            said = [entry["said"] for entry in objects(self.run(command, STEP_LIMIT, place)) if "said" in entry]
        if len(said) != 1:
            raise Failure("the program ended without a result")
        return [dict(zip(FIELDS, (*task.key(), metric, value, unit))) for metric, value, unit in unit.bench.taken(task.step, said[0])]

    def demo(self, command):
        """What was printed before a failure is kept."""
        try:
            return self.values_in(self.run(command, STEP_LIMIT))
        except Failure as failure:
            raise Failure(failure.args[0], self.values_in(failure.args[1] if len(failure.args) > 1 else "")) from failure

    @staticmethod
    def values_in(text):
        return [{field: entry[field] for field in FIELDS} for entry in objects(text) if set(FIELDS) <= set(entry)]

    def workload(self, command, task):
        measured = objects(self.run(command))
        if not measured:
            raise Failure("the command ended without a result")
        return [dict(zip(FIELDS, (*task.key(), metric, measured[-1][metric], unit))) for metric, (unit, *_) in here_plan.WORKLOAD_METRICS.items()]

    def counted(self, task, counts):
        """What perf wrote, if it did."""
        if not self.events or not counts.exists():
            return []
        return [{**dict(zip(FIELDS, (*task.key(), perf_events.METRIC + name, value, "events"))), **({"estimated": True} if estimated else {})}
                for name, (value, estimated) in perf_events.parse(counts.read_text(encoding="utf-8", errors="replace")).items()]


def measure(made, runs, kit, book):
    """Make all runs of the plan that the book has not yet. A task that failed in this call is not tried again in it."""
    planned = [entry for entry in here_plan.plan(made, runs) if (entry[0], *entry[2].key()) not in book.done]
    warm = {task.row for _, unit, task in planned if unit.kind == "workload"}
    with tempfile.TemporaryDirectory(prefix="hydra-here-") as place, progress.counting("measuring", len(planned)) as bar:
        for run, unit, task in planned:
            bar.advance(0, f"run {run}: {task.row} {task.case}, {task.policy}")
            if not book.failed_before(task):
                attempt(run, unit, task, kit, book, place, task.row in warm)
                warm.discard(task.row)
            bar.advance(1)


def attempt(run, unit, task, kit, book, place, warm):
    try:
        if warm:
            kit.take(unit, task, place)
        book.add(run, task, kit.take(unit, task, place))
    except Failure as failure:
        progress.say(f"{task.row} {task.case}, {task.policy}: {failure.args[0]}")
        kept = failure.args[1] if len(failure.args) > 1 and isinstance(failure.args[1], list) else []
        book.add(run, task, kept, failure.args[0])


def check_disk(path):
    directory = pathlib.Path(path).absolute().parent
    if not directory.is_dir():
        raise LabError(f"cannot write {path}: there is no directory {directory}", "Make it, or name another file.", status=2)
    if (free := shutil.disk_usage(directory).free) < LEAST_FREE:
        raise LabError(f"the disk is nearly full: {free / 2**20:.0f} MiB free at {directory}, {LEAST_FREE // 2**20} MiB needed",
                       "Free some space, or name a file on another disk with --out and --json.", status=2)


def files_of(arguments):
    """(report, JSON file). In a machine of ./hydra run, only what is in HYDRA_OUT is kept."""
    named = arguments.out or (pathlib.Path(arguments.json).with_suffix(".html") if arguments.json else "")
    report = pathlib.Path(named or pathlib.Path(os.environ.get("HYDRA_OUT", ""), f"hydra-here-{time.strftime('%Y%m%d-%H%M%S')}.html"))
    values = pathlib.Path(arguments.json or report.with_suffix(".json"))
    if report == values:
        raise LabError(f"--out and --json name the same file, {report}", status=2)
    return report, values


def continued(path, identity, runs, asked):
    """The document of an earlier call, for --resume."""
    try:
        document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(f"--resume: cannot read {path}: {getattr(error, 'strerror', None) or error}", "Name the JSON file of the earlier call with --json.", status=2) from error
    if not isinstance(document, dict) or document.get("hydra_here") != FORMAT:
        raise LabError(f"--resume: {path} is no file of ./hydra here", status=2)
    for what, now in (("identity", identity), ("asked", asked)):
        if document[what] != now:
            raise LabError(f"--resume: {path} is of another {'machine or kernel' if what == 'identity' else 'choice of measurements'}: {document[what]}, now {now}",
                           "Give the same names and options as before, on the same machine, or measure anew without --resume.", status=2)
    # What failed is tried again; what was printed before a failure is measured anew.
    broken = {(failed["run"], failed["row"], failed["case"], failed["policy"]) for failed in document["failed"]}
    document["values"] = [value for value in document["values"] if not any(
        (value["run"], value["row"], value["policy"]) == (run, row, policy) and case in ("", value["case"]) for run, row, case, policy in broken)]
    document.update(failed=[], runs=max(runs, document["runs"]), ended="")
    return document


def lines_of(made):
    return [{"row": line.row, "case": line.case, "metric": line.metric, "title": here_plan.title_of(line), "better": line.better}
            for unit in made for line in unit.lines]


def chosen_names(arguments):
    names = [choice.FORMER.get(name, name) for name in arguments.names]
    if wrong := [name for name in names if name not in here_plan.names()]:
        why = "it counts with a plugin of the emulator" if wrong[0] in ("steps", "concurrent", "refcache") else "there is no such measurement"
        raise LabError(f"'{wrong[0]}': {why}", f"There are {', '.join(here_plan.names())}.", status=2)
    return list(dict.fromkeys(names)) or ([] if arguments.workload is not None else here_plan.names())


def tools_for(made):
    home = programs.workloads()
    tools = {path.name: str(path) for path in home.iterdir() if path.is_file()}
    return {**tools, "hydractl": str(programs.hydractl())}


def here_verb(arguments, place=None, execute_command=execute):
    place = place or this_machine.here()
    this_machine.refuse(place)
    if not 1 <= arguments.runs <= 100:
        raise LabError(f"--runs {arguments.runs}: must be 1 to 100", status=2)
    names, wanted = chosen_names(arguments), here_plan.with_options(here_plan.policies_of(arguments.policies), arguments)
    if arguments.resume and not arguments.json:
        raise LabError("--resume needs --json FILE: the values of the earlier call", status=2)
    report, values = files_of(arguments)
    files = (values,) if arguments.values_only else (report, values)
    for path in files:
        check_disk(path)
    paths.try_output(*files)
    made, skipped = here_plan.units(names, arguments.workload, place.nodes(), wanted)
    for name, why in skipped.items():
        progress.say(f"not on this machine: {name}: {why}")
    if not made:
        raise LabError("none of these measurements can run on this machine", "The reasons are above.", status=2)
    if wanted and "linux" not in wanted:
        progress.say("Linux is measured, too: the others are compared with it")
    asked = {"names": names, "workload": arguments.workload, "policies": wanted}
    perf = perf_events.tool()
    events, why_none = perf_events.known(perf)
    if arguments.resume:
        document = continued(values, this_machine.identity(place), arguments.runs, asked)
    else:
        document = {"hydra_here": FORMAT, "asked": asked, "identity": this_machine.identity(place), "machine": this_machine.description(place),
                    "runs": arguments.runs, "done": [], "failed": [], "values": [], "ended": ""}
    document.update(skipped=skipped, units=[{"name": unit.name, "what": unit.what, "note": unit.note} for unit in made], lines=lines_of(made),
                    events={"counted": list(events), "why_none": why_none, "asked": bool(perf)})
    book = Book(values, document)
    book.keep()
    return run_and_report(made, document["runs"], Kit(tools_for(made), events, perf, execute_command), book, None if arguments.values_only else report)


def run_and_report(made, runs, kit, book, report):
    """Make the runs; whatever ends them, what was measured until then is in the report, if a report is wanted."""
    document, start = book.document, time.monotonic()
    document["ended"] = "before all runs were made"
    try:
        measure(made, runs, kit, book)
        document["ended"] = ""
    except KeyboardInterrupt:
        document["ended"] = "by Ctrl-C, before all runs were made"
        raise
    finally:
        if report is None:
            progress.say(f"values in {book.path}")
        elif document["values"]:
            write(report, html_report.page(document), f"The values are in {book.path}; --resume makes the report anew.")
            progress.say(f"values in {book.path}, report in {report}")
    progress.say(f"the measurements took {(time.monotonic() - start) / 60:.1f} min")
    if document["failed"]:
        progress.say(f"measurements that failed: {len(document['failed'])}. The report has their messages")
    book.keep()
    return 1 if document["failed"] or not document["values"] else 0
