# SPDX-License-Identifier: GPL-2.0-only
"""The first page of the report as one picture: the 33 tables and figures, and what is shown of each."""
import io
import textwrap

from lab.papers import rows

# Of each column: its heading, where it begins, how many characters fit on a line.
COLUMNS = (("paper", 0.0, 10), ("", 0.06, 10), ("what it shows", 0.115, 58), ("the paper", 0.375, 82), ("here", 0.735, 13), ("exact; modelled", 0.805, 46))
COLOURS = {rows.FULL: "#e2f2e2", rows.PART: "#fff0c2", rows.NOT: "#eeeeee"}
UNMEASURED = "#fbdcdc"
WIDTH, LINE, GAP, SIZE = 13.5, 0.145, 0.075, 7.5     # inches of the picture, of a line of text, between rows; points of a letter


def cells(one):
    row = one["row"]
    kinds = "; ".join(filter(None, (row.exact, row.modelled and f"model: {row.modelled}"))) or row.cannot
    return [textwrap.wrap(text, width) or [""] for text, (_, _, width) in
            zip((row.paper, row.label, row.title, row.theirs, one["verdict"], kinds), COLUMNS)]


def draw(heading, notes, parts):
    """PNG."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import patches, pyplot
    table = [(one, cells(one)) for one in parts]
    heights = [LINE * max(map(len, lines)) + GAP for _, lines in table]
    notes = [line for note in notes for line in textwrap.wrap(note, 190)]
    top = 0.45 + LINE * (len(notes) + 2)
    height = top + sum(heights) + 0.1
    figure = pyplot.figure(figsize=(WIDTH, height))
    axis = figure.add_axes((0.012, 0, 0.976, 1))
    axis.set_xlim(0, 1)
    axis.set_ylim(height, 0)
    axis.axis("off")

    def write(x, y, text, **more):
        axis.text(x, y, text, fontsize=SIZE, va="top", parse_math=False, **more)
    axis.text(0, 0.1, heading, fontsize=13, va="top", fontweight="bold")
    for number, line in enumerate(notes):
        write(0, 0.4 + LINE * number, line)
    for called, x, _ in COLUMNS:
        write(x, top - LINE, called, fontweight="bold")
    y = top + GAP
    for (one, lines), used in zip(table, heights):
        axis.add_patch(patches.Rectangle((0, y - GAP / 2), 1, used, linewidth=0.4, edgecolor="#bbbbbb", facecolor=COLOURS.get(one["verdict"], UNMEASURED)))
        for (_, x, _), text in zip(COLUMNS, lines):
            for number, line in enumerate(text):
                write(x + 0.003, y + LINE * number, line)
        y += used
    sink = io.BytesIO()
    figure.savefig(sink, dpi=100, format="png", metadata={"Software": None})
    pyplot.close(figure)
    return sink.getvalue()
