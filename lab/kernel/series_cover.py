# SPDX-License-Identifier: GPL-2.0-only
"""The cover letters of the series: the text, and the measured tables as plain text."""
import json
import pathlib
import re
import statistics
import textwrap

from lab import paths
from lab.errors import LabError

# What a terminal draws tables with, as what mail can carry.
PLAIN = str.maketrans("┃│━─┏┓┗┛└┘┡┩╇┳┴┻├┤┼╞╡╪", "||--++++++++++++++++++")
MIME = "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def read_json(path):
    """What ./hydra demo --json or bench --json has written."""
    try:
        entries = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        made = [(str(e.get("nodes", "")), e["policy"], e["row"], e.get("case", ""), e["metric"], e["value"], e["unit"]) for e in entries]
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        made = []
    if not made:
        raise LabError(f"{path} holds no results", "Name what ./hydra demo --json or ./hydra bench --json has written.")
    return made


def measured(path):
    """The values of a file of results as tables, a column for each policy; of the meter's counts the instructions."""
    entries = [entry for entry in read_json(path) if not entry[0] or entry[4] == "instructions"]
    machines = list(dict.fromkeys(entry[0] for entry in entries))
    made = []
    for machine in machines:
        chosen = [entry for entry in entries if entry[0] == machine]
        policies = list(dict.fromkeys(entry[1] for entry in chosen))
        lines = list(dict.fromkeys((entry[2], entry[3], entry[4], entry[6]) for entry in chosen))
        runs = {}
        for entry in chosen:
            runs.setdefault((entry[2], entry[3], entry[4], entry[1]), []).append(entry[5])
        value = {key: statistics.median(seen) for key, seen in runs.items()}
        rows = [[" ".join(filter(None, (row, case))), f"{metric}, {unit}",
                 *(number(value.get((row, case, metric, policy))) for policy in policies)] for row, case, metric, unit in lines]
        title = [f"{machine} nodes:\n"] if machine else []
        made.append("\n".join(title + aligned([["", "", *policies], *rows])))
    return made


def number(value):
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def aligned(rows):
    """Rows of cells as lines of text; columns of numbers are flush right, below the heading."""
    columns = list(zip(*rows))
    widths = [max(map(len, column)) for column in columns]
    right = [all(re.match(r"[\d.,+-]*$", cell) for cell in column[1:]) for column in columns]
    return ["  ".join(cell.rjust(width) if flush else cell.ljust(width) for cell, width, flush in zip(row, widths, right)).rstrip()
            for row in rows]


def plain(text):
    return LINK.sub(r"\1", text).replace("**", "").replace("`", "")


def in_readme(markdown):
    """The tables of the README: drawn tables unchanged, Markdown tables with the paragraph before."""
    made, before = [], ""
    for block in re.split(r"\n\s*\n(?=\S)", markdown):
        lines = block.splitlines()
        if any("┃" in line or "│" in line for line in lines):
            made.append("\n".join(line for line in lines if not line.startswith("```")).translate(PLAIN))
        elif lines and all(line.startswith("|") for line in lines):
            cells = [[plain(cell).strip() for cell in line.strip("|").split("|")] for line in lines]
            rows = [row for row in cells if not all(re.match(r":?-+:?$", cell) for cell in row)]
            introduced = [] if before.startswith("|") else [textwrap.fill(plain(before), 75)]
            made += [*introduced, "\n".join(aligned(rows))]
        before = block
    return made


def text(path, results=()):
    """(subject, text) of a cover letter, with the tables of the result files, or of the README, where the letter has @RESULTS@."""
    try:
        first, _, body = path.read_text(encoding="utf-8").partition("\n")
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    if not first.startswith("Subject: "):
        raise LabError(f"{path} is no cover letter: it begins with 'Subject: …'")
    if "@RESULTS@" not in body:
        return first.removeprefix("Subject: "), body.strip()
    tables = [table for file in results for table in measured(file)] if results else \
        in_readme((paths.REPO / "README.md").read_text(encoding="utf-8"))
    if not tables:
        raise LabError("the README has no tables for the cover letter", "Give measured ones with --results FILE.")
    return first.removeprefix("Subject: "), body.strip().replace("@RESULTS@", "\n\n".join(tables))


def fill_in(patch, subject, body):
    """Put subject and text into git's cover letter."""
    made = patch.read_text(encoding="utf-8")
    for place, words in (("*** SUBJECT HERE ***\n", f"{subject}\n{'' if 'MIME-Version' in made else MIME}"), ("*** BLURB HERE ***", body)):
        if place not in made:
            raise LabError(f"git made a cover letter without {place.strip()}")
        made = made.replace(place, words)
    patch.write_text(made, encoding="utf-8")
