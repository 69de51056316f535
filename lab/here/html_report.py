# SPDX-License-Identifier: GPL-2.0-only
"""The report of ./hydra here: one HTML file with its pictures in it, which can be sent as it is.

It is made of the JSON document alone. Every text in it is escaped, for the machine and the user's command have named some of them.
"""
import base64
import html
import io
import json
import textwrap

from lab import policies
from lab.here import perf_events
from lab.measure import spread
from lab.measure.values import number

STYLE = """
body { font: 15px/1.45 sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 0.8em 0 }
th, td { border: 1px solid #ccc; padding: 3px 8px; text-align: left; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
th { background: #f2f2f2 }
.differs { background: #fff0c2 }
.failed { background: #fbdcdc }
.note { color: #555 }
img { max-width: 100% }
pre { white-space: pre-wrap; margin: 0 }
"""
COLUMNS = 3                  # charts side by side


def text(value):
    return html.escape(str(value), quote=True)


def table(headings, rows):
    """A table of cells that are HTML already: either the content, or (class, content)."""
    def cell(content):
        return f'<td class="{content[0]}">{content[1]}</td>' if isinstance(content, tuple) else f"<td>{content}</td>"
    head = "".join(f"<th>{text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>\n" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>\n"


def shown(value, metric, unit):
    """A number with as many digits as it needs."""
    if metric.endswith(("_share", "_of_linux")):
        return number(value, metric)
    if unit in spread.TIMES:
        return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def machine(document):
    parts = []
    for heading, facts in document["machine"]:
        parts.append(f"<h3>{text(heading)}</h3>" + table(("", ""), [(text(what), f"<pre>{text(value)}</pre>") for what, value in facts]))
    return "".join(parts)


def not_measured(document):
    rows = [(text(name), text(why), "") for name, why in document["skipped"].items()]
    rows += [(("failed", text(f"{failed['row']} {failed['case']}, {failed['policy']}")), f"<pre>{text(failed['why'])}</pre>", text(f"run {failed['run']}"))
             for failed in document["failed"]]
    return f"<h2>Not measured</h2>{table(('what', 'why', ''), rows)}" if rows else ""


def counters(document):
    counted, why = document["events"]["counted"], document["events"]["why_none"]
    parts = ["<h2>The processor's counters</h2>"]
    if why:
        parts.append(f"<p>{text(why)}</p>")
    if counted:
        parts.append("<p>Each is the number of a whole run of the program, on all its CPUs, kernel and user. Of a row of the demo it is that of all cases. "
                     "Where the processor counts fewer events at a time than there are here, perf estimates the number; it is marked ~.</p>")
        parts.append(table(("event", "what it counts"), [(text(name), text(perf_events.MEANINGS.get(name, ""))) for name in counted]))
    missing = [event for event in perf_events.EVENTS if event.name not in counted]
    said, why_missing = ("not on this processor", "perf does not find on this processor") if document["events"]["asked"] else ("not counted", "perf would be asked for")
    lines = "".join(f"<li>{said}: {text(event.name)} ({text(event.vendor)}: {text(event.meaning)})</li>" for event in missing)
    parts.append(f"<details><summary>{len(missing)} events that {why_missing}</summary><ul>{lines}</ul></details>" if missing else "")
    return "".join(parts)


def ratio_cell(found, linux):
    made = spread.ratio(found, linux) if found.timed and found.policy != "linux" else None
    return ("n", f"{made[0]:.3f} ({made[1]:.3f} to {made[2]:.3f})" if made else "")


def row_of(title, found, linux, runs):
    median, least, most = (shown(value, found.metric, found.unit) for value in (found.median, found.least, found.most))
    count = len(found.by_run)
    return [title, text(policies.called(found.policy)), ("n", f"{'~' if found.estimated else ''}{median}"),
            ("n differs" if found.differs else "n", f"{least} to {most}{' !' if found.differs else ''}" if found.least != found.most else "the same"),
            ratio_cell(found, linux), ("n", str(count) if count == runs else f"{count} of {runs}")]


HEADINGS = ("what", "policy", "median", "least to most", "for each of Linux's (single runs)", "runs")


def line_rows(line, found, runs):
    """A row for each policy; the title stands in the first."""
    linux = found.get((line["row"], line["case"], "linux", line["metric"]))
    mine = [one for (row, case, _, metric), one in found.items() if (row, case, metric) == (line["row"], line["case"], line["metric"])]
    return [row_of("" if place else text(line["title"]), one, linux, runs) for place, one in enumerate(mine)]


def chart(axis, line, mine):
    """A bar for each policy: the median, and lines from the least to the greatest run."""
    heights = [one.median for one in mine]
    errors = [[one.median - one.least for one in mine], [one.most - one.median for one in mine]]
    made = axis.bar(range(len(mine)), heights, yerr=errors, capsize=3, ecolor="#333333", color=[policies.COLOURS.get(one.policy, "#777777") for one in mine])
    plain(axis.bar_label(made, [shown(one.median, one.metric, one.unit) for one in mine], fontsize=7, padding=2))
    axis.set_xticks(range(len(mine)), [policies.called(one.policy) for one in mine], fontsize=7, rotation=30 if len(mine) > 6 else 0)
    axis.tick_params(axis="y", labelsize=7)
    if mine[0].metric.endswith("_share"):
        axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axis.margins(y=0.2)
    plain([axis.set_title("\n".join(textwrap.wrap(f"{line['title']} [{mine[0].unit}]", 56)[:4]), loc="left", fontsize=8), *axis.get_xticklabels()])
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def plain(texts):
    """A dollar sign is no formula."""
    for one in texts:
        one.set_parse_math(False)


def picture(lines, found):
    """The lines' charts as <img> with the PNG in it; empty if there are none."""
    drawn = []
    for line in lines:
        mine = [one for (row, case, _, metric), one in found.items() if (row, case, metric) == (line["row"], line["case"], line["metric"])]
        if mine:
            drawn.append((line, mine))
    if not drawn:
        return ""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    rows = -(-len(drawn) // COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(4.4 * COLUMNS, 2.3 * rows), squeeze=False, layout="constrained")
    for axis, (line, mine) in zip(axes.flat, drawn):
        chart(axis, line, mine)
    for axis in list(axes.flat)[len(drawn):]:
        axis.set_visible(False)
    sink = io.BytesIO()
    figure.savefig(sink, dpi=100, format="png", metadata={"Software": None})
    pyplot.close(figure)
    return f'<img alt="the medians as bars, with lines from the least to the greatest run" src="data:image/png;base64,{base64.b64encode(sink.getvalue()).decode()}">\n'


def unit_part(unit, lines, found, runs):
    """A measurement: its note, its charts, the lines of its table, the processor's counters, and all further values."""
    mine = [line for line in lines if line["row"] == unit["name"]]
    named = {(line["row"], line["case"], line["metric"]) for line in mine}
    own = {key: one for key, one in found.items() if key[0] == unit["name"]}
    parts = [f"<h2>{text(unit['name'])}</h2><p>{text(unit['what'])}</p><p class=\"note\">{text(unit['note'])}</p>"]
    if not own:
        return "".join([*parts, "<p>No value was measured.</p>"])
    parts += [picture(mine, own), table(HEADINGS, [row for line in mine for row in line_rows(line, own, runs)])]
    rest = {key: one for key, one in own.items() if (key[0], key[1], key[3]) not in named}
    for heading, counts in (("The processor's counters", True), ("Further values", False)):
        some = [one for one in rest.values() if one.metric.startswith(perf_events.METRIC) == counts]
        if some:
            rows = [row_of(text(f"{one.case + ': ' if one.case else ''}{one.metric.removeprefix(perf_events.METRIC)} [{one.unit}]"), one, None, runs)
                    for one in sorted(some, key=lambda one: (one.case, one.metric))]
            parts.append(f"<details><summary>{heading}</summary>{table(HEADINGS, rows)}</details>")
    return "".join(parts)


def page(document):
    """The whole report."""
    found, runs = spread.spreads(document["values"]), document["runs"]
    changed = sum(one.differs for one in found.values())
    differ = (f"{changed} of the counts differ{'s' if changed == 1 else ''} between runs, and {'is' if changed == 1 else 'are'} marked <span class=differs>!</span>."
              if changed else "No count differs between runs.")
    ended = f"<p class=\"failed\">The measurement ended {text(document['ended'])}: what was measured until then is here.</p>" if document["ended"] else ""
    intro = (f"<p>Written by <code>./hydra here</code>. Each measurement was made {runs} times under each policy, in runs that take turns: in every second run the "
             "policies go backwards, so that none is always the first. A time is this machine's own, and is compared with Linux's: the ratio of the medians, "
             "and in brackets the least and the greatest ratio of a single run.</p>"
             "<p>A count of a small program should be the same in each run; that of Apache, or of a command of the user, seldom is. "
             f"{differ} No limit is tested.</p>")
    units = "".join(unit_part(unit, document["lines"], found, runs) for unit in document["units"])
    raw = json.dumps({key: document[key] for key in ("asked", "identity", "values")}).replace("<", "\\u003c")
    return (f"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Hydra on this machine</title><style>{STYLE}</style></head><body>\n"
            f"<h1>Hydra for Linux, measured on one machine</h1>{ended}{intro}{machine(document)}{not_measured(document)}{counters(document)}{units}\n"
            f"<p class=\"note\">All values of all runs are in this file as JSON, in the element with the name values.</p>\n"
            f"<script type=\"application/json\" id=\"values\">{raw}</script>\n</body></html>\n")

