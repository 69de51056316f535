# SPDX-License-Identifier: GPL-2.0-only
"""The report of ./hydra papers: one HTML file with its pictures in it, made of what was measured alone."""
import base64
import dataclasses
import io
import itertools
import pathlib

from lab import policies
from lab.here import html_report
from lab.measure import model
from lab.measure.values import Values, number
from lab.papers import agreement, first_page, quoted, rows

TEMPLATE = "report.html"
TITLE = "The papers' tables and figures, and ours"
NOT_NOW = "not measured in this run"
MARKERS = "osv^DPX*"


@dataclasses.dataclass(frozen=True)
class Document:
    directory: str           # of the run
    rows: tuple
    made: dict               # {measurement: what was kept of it}
    failed: dict             # {measurement: why}
    left_out: tuple          # measurements that a quick run does not make
    prices: dict
    machine: list            # as lab/here/this_machine.py describes it
    agreed: agreement.Agreement | None = None    # with another run


class Get:
    """Values by row, case, policy and metric (KeyError if not measured), and the prices of the model."""

    def __init__(self, document):
        self.values = Values([entry for found in document.made.values() for entry in found["values"]])
        self.prices = document.prices

    def __call__(self, *where):
        return self.values.get(*where)


def grid(shown, get):
    """{(point, column): value} of what was measured."""
    found = {}
    for (point, case), column in itertools.product(shown.points, shown.columns):
        try:
            value = shown.value(get, case, column)
        except (KeyError, ZeroDivisionError):
            continue
        if value is not None:
            found[point, column] = value
    return found


def cell(value, metric):
    if isinstance(value, model.Ratio):
        return f"{value.usual:.2f} ({value.halved:.2f}, {value.doubled:.2f})"
    return number(value, metric)


def is_model(found):
    return any(isinstance(value, model.Ratio) for value in found.values())


def flips(found):
    """Which verdicts of a table other prices change, in words."""
    return [f"{point}, {policies.called(column)}: {model.verdict(value.usual)}, but {' and '.join(value.flips())}"
            for (point, column), value in found.items() if isinstance(value, model.Ratio) and value.flips()]


def table(shown, found):
    columns = [column for column in shown.columns if any(at == column for _, at in found)]
    points = [point for point, _ in shown.points if any(at == point for at, _ in found)]
    title = shown.title if not is_model(found) or "model" in shown.title else f"{shown.title} (model)"
    lines = [(point, [cell(found[point, column], shown.metric) if (point, column) in found else "" for column in columns]) for point in points]
    return {"title": title, "model": is_model(found), "xlabel": shown.xlabel, "columns": [policies.called(column) for column in columns], "lines": lines,
            "flips": flips(found), "picture": picture(shown, found, points, columns)}


# --- Pictures

def usual(value):
    return value.usual if isinstance(value, model.Ratio) else value


def ends(value):
    """How far down and up the model's value goes with the other prices."""
    if not isinstance(value, model.Ratio):
        return 0, 0
    every = (value.usual, value.halved, value.doubled)
    return value.usual - min(every), max(every) - value.usual


def draw_lines(axis, found, points, columns):
    """Every second line is dashed: one that lies on another one lets it be seen."""
    for marker, style, column in zip(itertools.cycle(MARKERS), itertools.cycle(("-", "--")), columns):
        mine = [(point, found[point, column]) for point in points if (point, column) in found]
        axis.errorbar([point for point, _ in mine], [usual(value) for _, value in mine], yerr=list(zip(*(ends(value) for _, value in mine))),
                      marker=marker, markersize=4, linewidth=1.5, linestyle=style, capsize=2, color=policies.COLOURS.get(column), label=policies.called(column))
    axis.set_xticks(points)


def draw_bars(axis, found, points, columns):
    width = 0.8 / len(columns)
    for place, column in enumerate(columns):
        mine = [(at, found[point, column]) for at, point in enumerate(points) if (point, column) in found]
        axis.bar([at + (place - (len(columns) - 1) / 2) * width for at, _ in mine], [usual(value) for _, value in mine], width,
                 yerr=list(zip(*(ends(value) for _, value in mine))), color=policies.COLOURS.get(column), error_kw={"elinewidth": 0.7, "capsize": 1},
                 label=policies.called(column))
    axis.set_xticks(range(len(points)), [str(point) for point in points])


def picture(shown, found, points, columns):
    """In the axes of the paper, as text for <img>."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axis = pyplot.subplots(figsize=(7.2, 2.9), layout="constrained")
    lines = len(points) > 2 and all(isinstance(point, int) for point in points)
    (draw_lines if lines else draw_bars)(axis, found, points, columns)
    axis.set_xlabel(shown.xlabel, fontsize=8)
    axis.set_ylabel(shown.ylabel if not is_model(found) or "model" in shown.ylabel else f"{shown.ylabel} (model)", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.set_ylim(bottom=0)
    figure.legend(loc="outside right upper", fontsize=7)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    sink = io.BytesIO()
    figure.savefig(sink, dpi=100, format="png", metadata={"Software": None})
    pyplot.close(figure)
    return base64.b64encode(sink.getvalue()).decode()


# --- The page

def part(row, document, get):
    """What the template shows of a row."""
    grids = [(shown, grid(shown, get)) for shown in row.shown]
    tables = [table(shown, found) for shown, found in grids if found]
    missing = [name for name in row.benches if name not in document.made]
    verdict = row.verdict
    if any(len(found) < len(shown.points) * len(shown.columns) for shown, found in grids):
        verdict = f"{rows.PART}; {NOT_NOW}: some points"
    if missing:
        verdict = f"{f'{rows.PART}; ' if tables else ''}{NOT_NOW}: {', '.join(missing)}"
    why = {name: document.failed.get(name, "a quick run leaves it out" if name in document.left_out else "it was not reached") for name in missing}
    return {"row": row, "paper": rows.PAPERS[row.paper], "anchor": f"{row.paper}-{row.label}".replace(" ", "-"), "verdict": verdict, "tables": tables,
            "missing": why}


def measured_as(source):
    """The name under which a run keeps the measurement."""
    return source.row if source.name == "demo" else source.name


def numbers_of(document, get):
    """The tables of docs/lab.md, each number beside this run's."""
    text, made = quoted.text(), []
    for section, known in quoted.SECTIONS.items():
        for table_of in quoted.quoted(quoted.section(text, section), known):
            lines = []
            for title, begin, cells in table_of.rows:
                source = known[begin]
                judged = [quoted.judge(cells[policy], source, policy, get) if policy in cells else None for policy in table_of.columns]
                name = measured_as(source)
                lines.append({"title": title.replace("`", ""), "name": name, "date": document.made[name]["date"] if name in document.made else "",
                              "cells": judged})
            made.append({"section": section, "columns": list(table_of.columns.values()), "lines": lines})
    return made


def verdicts_of(tables):
    """How many numbers have each verdict."""
    seen = [found.verdict for one in tables for line in one["lines"] for found in line["cells"] if found]
    return {verdict: seen.count(verdict) for verdict in (quoted.EQUAL, quoted.WITHIN, quoted.OTHER, quoted.MISSING)}


def agreed_lines(agreed):
    """What the template shows of the comparison with another run."""
    for group in agreed.groups:
        yield {"group": group, "metrics": ", ".join(sorted({key[2] for key, *_ in group.compared})), "outside": list(map(agreement.told, group.outside)),
               "worst": agreement.told(group.largest) if group.largest else ""}


def listed(counts):
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def said(document, parts, numbers):
    """What the first page says above its table."""
    counts = {verdict: sum(one["verdict"] == verdict for one in parts) for verdict in (rows.FULL, rows.PART, rows.NOT)}
    counts[f"not, or not wholly, {NOT_NOW.removeprefix('not ')}"] = len(parts) - sum(counts.values())
    yield (f"Of {len(parts)} tables and figures: {listed(counts)}. In full means: what the table or figure compares is shown for each of its systems, by counts or by the "
           "model, of smaller programs and sizes. Counts are exact, unless their line says otherwise. Page walks and times are those of models, and are called so.")
    if document.made:
        dates = sorted(found["date"] for found in document.made.values())
        yield (f"The run is in {document.directory}: {len(document.made)} measurements from {dates[0]} to {dates[-1]}, "
               f"{sum(found['minutes'] for found in document.made.values()):.0f} minutes. Of its values the documents quote: {listed(verdicts_of(numbers))}.")
    if document.agreed:
        broken = sorted(document.agreed.broken())
        yield f"Compared with the run in {document.agreed.directory}: " + \
            (f"outside of the spread: {', '.join(broken)}." if broken else "every value is within the spread.")


def pages(document):
    """(the report as HTML, its first page as PNG)."""
    import jinja2
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined,
                                     trim_blocks=True, lstrip_blocks=True)
    get, agreed = Get(document), document.agreed
    parts, numbers = [part(row, document, get) for row in document.rows], numbers_of(document, get)
    notes = list(said(document, parts, numbers))
    html = environment.get_template(TEMPLATE).render(
        style=html_report.STYLE, title=TITLE, said=notes, parts=parts, prices=document.prices, made=document.made, machine=document.machine, numbers=numbers,
        elsewhere=quoted.ELSEWHERE, agreed=agreed, agreed_lines=list(agreed_lines(agreed)) if agreed else [])
    return html, first_page.draw(TITLE, notes, parts)
