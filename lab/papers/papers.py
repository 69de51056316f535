# SPDX-License-Identifier: GPL-2.0-only
"""./hydra papers: makes the measurements that are not kept yet, and one report of all."""
import json
import pathlib
import time

from lab import paths, progress
from lab.errors import LabError
from lab.here import this_machine
from lab.measure import model, values
from lab.papers import agreement, page, plan, rows

FORMAT = 1                   # of the kept files
DIRECTORY = "hydra-papers"   # unless --out names another one


def papers_of(text):
    """The papers that --only names; all without it."""
    if text is None:
        return tuple(rows.PAPERS)
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := [name for name in wanted if name not in rows.PAPERS]:
        raise LabError(f"--only {text}: there is no paper '{wrong[0]}'", f"There are {', '.join(rows.PAPERS)}.", status=2)
    if not wanted:
        raise LabError("--only: names no paper", f"There are {', '.join(rows.PAPERS)}.", status=2)
    return tuple(dict.fromkeys(wanted))


def prices_of(file):
    """The table of prices; with a JSON file of ./hydra here, that of the measured machine."""
    if file is None:
        return model.PRICES
    try:
        return model.of_machine(json.loads(pathlib.Path(file).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"--costs {file}: no JSON file of ./hydra here: {getattr(error, 'strerror', None) or error}", status=2) from error


def read(path):
    """A kept measurement; None if there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("format") == FORMAT else None


def kept(path, identity):
    """What an earlier call has measured; None if it was something else, or nothing."""
    document = read(path)
    return document if document and document.get("identity") == identity else None


def others_of(directory, tasks):
    """{measurement: what another run has kept of it}."""
    if directory is None:
        return {}
    found = {one.name: document for one in tasks if (document := read(pathlib.Path(directory) / f"{one.name}.json"))}
    if not found:
        raise LabError(f"--against {directory}: there is no measurement of ./hydra papers", status=2)
    return found


def measure(one, path, run=plan.run):
    """Make a measurement and keep it."""
    start = time.monotonic()
    entries, checks = run(one)
    document = {"format": FORMAT, "name": one.name, "identity": plan.identity(one), "minutes": round((time.monotonic() - start) / 60, 1),
                "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "values": entries, "checks": checks}
    paths.write_whole(path, json.dumps(document, indent=1) + "\n")
    return document


def make_all(tasks, home, run=plan.run):
    """({name: what was measured}, {name: why it failed}). A failure ends no other measurement."""
    made, failed = {}, {}
    left = sum(one.minutes for one in tasks if not kept(home / f"{one.name}.json", plan.identity(one)))
    for number, one in enumerate(tasks, 1):
        path = home / f"{one.name}.json"
        if found := kept(path, plan.identity(one)):
            progress.say(f"{number} of {len(tasks)}, {one.name}: kept from {found['date']}")
        else:
            progress.say(f"{number} of {len(tasks)}, {one.name}: about {one.minutes} minutes; all that is left: about {left}")
            left -= one.minutes
            try:
                found = measure(one, path, run)
            except LabError as error:
                progress.say(f"{one.name} failed: {error}")
                failed[one.name] = str(error)
                continue
        made[one.name] = found
    return made, failed


def write_values(home, made):
    """All values in one JSON file and one CSV file."""
    entries = [{field: entry[field] for field in values.FIELDS} for found in made.values() for entry in found["values"]]
    values.write_json(home / "papers.json", entries)
    values.write_csv(home / "papers.csv", entries)


def papers_verb(arguments, run=plan.run):
    wanted = papers_of(arguments.only)
    prices = prices_of(arguments.costs)
    chosen = rows.chosen(wanted)
    quoted = plan.QUOTED if chosen == rows.ROWS else ()
    tasks, left_out = plan.tasks((*rows.benches_of(chosen), *quoted), arguments.quick)
    others = others_of(arguments.against, tasks)
    home = pathlib.Path(arguments.out or DIRECTORY)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot make the directory {home}: {error.strerror}", status=2) from error
    paths.try_output(home / "papers.html")
    start = time.monotonic()
    made, failed = {}, {}
    try:
        made, failed = make_all(tasks, home, run)
    finally:
        # Ctrl-C leaves a report of what there is.
        made = made or {one.name: found for one in tasks if (found := kept(home / f"{one.name}.json", plan.identity(one)))}
        write_values(home, made)
        agreed = agreement.compare(made, others, arguments.against) if others else None
        document = page.Document(str(home), chosen, made, failed, left_out, prices, this_machine.description(this_machine.here()), agreed)
        html, picture = page.pages(document)
        paths.write_whole(home / "papers.html", html)
        (home / "papers.png").write_bytes(picture)
        progress.say(f"report in {home / 'papers.html'}, its first page in {home / 'papers.png'}, values in {home / 'papers.json'} and {home / 'papers.csv'}")
    progress.say(f"it took {(time.monotonic() - start) / 60:.1f} min")
    if broken := sorted(agreed.broken()) if agreed else []:
        progress.say(f"{arguments.against} does not agree with this run in {', '.join(broken)}")
    return 1 if failed or broken else 0
