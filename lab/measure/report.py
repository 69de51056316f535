# SPDX-License-Identifier: GPL-2.0-only
"""Shows measured values: a table with plain words under each row, a picture, and the limits."""
import io
import itertools

from lab import paths, policies
from lab.measure import spread as spreads
from lab.measure.values import Values, differing as differing_counts, spread, verdict, winners


def printer():
    """Tables as wide as the terminal; elsewhere as wide as they need."""
    from rich.console import Console         # late: ./hydra bench --list works before setup has installed it
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=120)


def escape(text):
    from rich.markup import escape as escaped
    return escaped(text)


def titled(title, **options):
    """An empty table."""
    from rich.table import Table
    return Table(title=title, title_justify="left", title_style="bold", **options)


def cell(values, line, policy, best):
    """A value, marked if its column wins this row."""
    if policy not in values.of(line):
        return ""
    text = spread(values, line, policy)
    return f"[bold]{text} *[/]" if policy in best and len(best) < len(values.of(line)) else f"{text}  "


def table(title, lines, entries):
    """Print the lines that were measured: a column for each policy, plain words and the winners under each row."""
    values = Values(entries)
    lines = [line for line in lines if values.has(line)]
    columns = list(dict.fromkeys(policy for line in lines for policy in values.of(line)))
    out = printer()
    grid = titled(escape(title), show_lines=True, padding=(0, 0, 0, 1),
                 caption="* the column wins this row.", caption_justify="left")
    grid.add_column("")
    for policy in columns:
        grid.add_column(policies.called(policy), justify="right", no_wrap=True)
    for line in lines:
        best = winners(values, line)
        said = " ".join(filter(None, (line.words, verdict(values, line))))
        grid.add_row(f"[bold]{escape(line.title)}[/]\n[italic]{escape(said)}[/]", *(cell(values, line, policy, best) for policy in columns))
    out.print(grid)
    out.print()


def table_across(title, lines, entries):
    """The same values with a row for each policy and a column for each line: for many policies and few lines."""
    values = Values(entries)
    grid = titled(escape(title))
    grid.add_column("")
    for line in lines:
        grid.add_column(escape(line.title), justify="right")
    for policy in dict.fromkeys(policy for line in lines for policy in values.of(line)):
        grid.add_row(policies.called(policy), *(cell(values, line, policy, ()) for line in lines))
    out = printer()
    out.print(grid)
    out.print()


def shortest(value):
    """A count as short as it can be shown; a word as it is."""
    if isinstance(value, str):
        return escape(value)
    return f"{value:,.4g}" if value % 1 else f"{value:,.0f}"


def differing(entries):
    """Print the counts that are not the same in each run."""
    found = differing_counts(entries)
    out = printer()
    if not found:
        out.print("Every count is the same in each run.\n")
        return
    grid = titled("Counts that differ between runs")
    for heading in ("", "policy", "what", "in each run", "two runs may differ by"):
        grid.add_column(heading)
    for (row, case, policy, metric), seen in found.items():
        allowed = spreads.allowed(row, metric)
        beyond = not all(allowed.covers(one, other) for one, other in itertools.combinations(seen, 2))
        grid.add_row(escape(case), policies.called(policy), metric, "  ".join(map(shortest, seen)), f"[yellow]{allowed}[/]" if beyond else str(allowed))
    out.print(grid)
    out.print()


def verdicts(checks, note=""):
    """Print the limits as passed or failed; returns how many failed that must not."""
    out = printer()
    grid = titled("Expected results")
    for heading in ("", "row", "limit", "measured"):
        grid.add_column(heading)
    for check in checks:
        word = "[green]pass[/]" if check.passed else "[bold red]FAIL[/]" if check.asserted else "[yellow]above[/]"
        grid.add_row(word, check.row, check.text, check.seen)
    out.print(grid)
    if note:
        out.print(note)
    return sum(check.asserted and not check.passed for check in checks)


def bars(axis, values, line, drawn):
    """One bar for each policy; of several runs the median, and a line from the least to the greatest."""
    heights = [values.shown(line, policy) for policy in drawn]
    ends = [(min(seen), max(seen)) for seen in (values.each(line, policy) for policy in drawn)]
    errors = [[height - least for height, (least, _) in zip(heights, ends)], [most - height for height, (_, most) in zip(heights, ends)]]
    made = axis.bar(range(len(drawn)), heights, color=[policies.COLOURS.get(policy, "#777777") for policy in drawn],
                    yerr=errors if any(map(any, errors)) else None, error_kw={"elinewidth": 0.8, "capsize": 2})
    axis.bar_label(made, [spread(values, line, policy) for policy in drawn], fontsize=7, padding=1)
    axis.set_xticks(range(len(drawn)), [policies.called(policy) for policy in drawn], fontsize=7)
    axis.tick_params(axis="y", labelsize=7)
    if line.metric.endswith("_share"):
        axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    axis.margins(y=0.18)
    axis.set_title(wrapped(line.title), loc="left", fontsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def wrapped(text, width=58):
    import textwrap
    return "\n".join(textwrap.wrap(text, width))


def save(figure, path):
    """Write a picture, and forget it."""
    from matplotlib import pyplot
    picture_bytes = io.BytesIO()
    figure.savefig(picture_bytes, dpi=110, format="png")
    pyplot.close(figure)
    paths.write_result(path, picture_bytes.getvalue(), "picture")


def picture(path, title, lines, entries, columns=3):
    """The counts in one PNG: a small chart for each line that a column can win or that is to be drawn, in the order of the table."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    values = Values(entries)
    lines = [line for line in lines if values.has(line) and (line.better or line.drawn)]
    rows = -(-len(lines) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.4 * columns, 2.1 * rows), squeeze=False, layout="constrained")
    for axis, line in zip(axes.flat, lines):
        bars(axis, values, line, values.of(line))
    for axis in list(axes.flat)[len(lines):]:
        axis.set_visible(False)
    figure.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=11, fontweight="bold")
    save(figure, path)
