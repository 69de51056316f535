# SPDX-License-Identifier: GPL-2.0-only
"""Shows what was counted: tables, the functions that make a difference, a picture, JSON."""
import json

from lab import paths
from lab.measure import report
from lab.meter import steps, steps_limits
from lab.meter.steps_samples import COUNTS, METRICS, UNITS, Disagreement

# (policy, what it is compared with)
PAIRS = [("unused", "off"), ("linux", "off"), ("hydra", "off"), ("hydra-split", "off-split")]
COLOURS = {"unused": "#b8b8b8", "linux": "#777777", "hydra": "#2a7fb8", "hydra-split": "#d9a441"}
MORE = ("locked", "pages", "objects", "call_rcu", "remote")
HEADINGS = {"locked": "locked", "pages": "pages", "objects": "slab", "call_rcu": "RCU", "remote": "lines"}


def number(results, nodes, policy, row, metric):
    """A Number, or None."""
    try:
        return results.get(nodes, policy, row, metric)
    except Disagreement:
        return None


def rows_with(results, nodes):
    return [row.name for row in results.rows if any((nodes, policy, row.name) in results.measured for policy in steps.EVERY)]


def cell(results, nodes, policy, row):
    """Instructions and their ratio to Linux's."""
    if (nodes, policy, row) not in results.measured:
        return ""
    found = number(results, nodes, policy, row, "instructions")
    if found is None:
        return "[red]error[/]"
    base = dict(PAIRS).get(policy)
    other = number(results, nodes, base, row, "instructions") if base else None
    words = str(found) + ("w" if results.measured[nodes, policy, row].waits else "") + \
        ("i" if results.measured[nodes, policy, row].interrupted else "")
    return words + (f" [bold]{found.value / other.value:.3f}[/]" if other and other.value > 50 else "")


def more(results, nodes, row, pair):
    """What a policy does beyond Linux besides instructions: '+4 / 9', and nothing where they are equal."""
    words = []
    for metric in MORE:
        judged, other = (number(results, nodes, policy, row, metric) for policy in pair)
        if judged and other:
            difference = round(judged.value - other.value)
            words.append(f"{difference:+,d}" if difference else "·")
        else:
            words.append("")
    return words


def tables(results):
    """For each machine the instructions, and then what else there is beyond Linux."""
    out = report.printer()
    out.width = max(out.width, 150)
    for nodes in results.nodes():
        policies = [name for name in results.policies() if any((nodes, name, row.name) in results.measured for row in results.rows)]
        grid = report.titled(f"Instructions on {nodes} nodes, and how many for each of Linux's",
                     caption="~ the least: the samples do not agree to the unit. w: it waited for other CPUs; one pass of such a "
                             "loop is counted. i: hit by interrupts, which are not counted.", caption_justify="left")
        grid.add_column("row")
        for policy in policies:
            grid.add_column(policy, justify="right")
        for row in rows_with(results, nodes):
            grid.add_row(row, *(cell(results, nodes, policy, row) for policy in policies))
        out.print(grid)
        for pair in PAIRS[2:]:
            if pair[0] in policies and pair[1] in policies:
                out.print(beyond_linux(results, nodes, pair))
    for (nodes, policy, row), measured in results.measured.items():
        for metric, error in measured.errors.items():
            out.print(report.escape(f"{row}, {policy}, {nodes} nodes: no number of {metric}: {error}"))


def beyond_linux(results, nodes, pair):
    grid = report.titled(f"{pair[0]} beyond {pair[1]} on {nodes} nodes (·: the same)")
    grid.add_column("row")
    for metric in MORE:
        grid.add_column(HEADINGS[metric], justify="right")
    for row in rows_with(results, nodes):
        words = more(results, nodes, row, pair)
        if any(words):
            grid.add_row(row, *words)
    return grid


def limits(outcomes):
    """The limits with what was measured where one is not kept; those not met yet are in yellow."""
    grid = report.titled("Limits")
    for heading in ("limit", "at most", "kept", "not kept"):
        grid.add_column(heading)
    verdicts = [outcome for outcome in outcomes if isinstance(outcome, steps_limits.Verdict)]
    for name in dict.fromkeys(verdict.limit.name for verdict in verdicts):
        here = [verdict for verdict in verdicts if verdict.limit.name == name]
        limit = here[0].limit
        others = ", ".join(f"{most:g}" for most in sorted({*limit.by_row.values()} - {limit.limit}))
        broken = [f"[{'red' if verdict.failed else 'yellow'}]{verdict.row}[/]: {report.escape(verdict.seen or 'no number')}"
                  for verdict in here if verdict.result != "passed"]
        grid.add_row(f"[bold]{name}[/]: {limit.what}", f"{limit.limit:g}{others and f'; some {others}'}",
                     f"{sum(verdict.result == 'passed' for verdict in here)} of {len(here)}", "\n".join(broken))
    out = report.printer()
    out.width = max(out.width, 150)
    out.print(grid)


def functions(results, most):
    """Which functions make the difference, row by row."""
    out = report.printer()
    for nodes in results.nodes():
        for pair in PAIRS:
            for row in rows_with(results, nodes):
                for what, of in (("", "functions"), ("remote lines, ", "lines")):
                    more = differences(results, nodes, row, pair, of)[:most]
                    if more:
                        out.print(f"[bold]{row}[/], {what}{pair[0]} beyond {pair[1]}, {nodes} nodes: " +
                                  report.escape(", ".join(f"{name} {count:+,d}" for name, count in more)), soft_wrap=True)


def differences(results, nodes, row, pair, of="functions"):
    """(function, instructions or remote lines more than in the other), largest first."""
    found = [results.measured.get((nodes, policy, row)) for policy in pair]
    if not all(found):
        return []
    judged, other = (getattr(measured, of) for measured in found)
    differing = [(name, judged.get(name, 0) - other.get(name, 0)) for name in judged.keys() | other.keys()]
    return sorted((entry for entry in differing if entry[1]), key=lambda entry: (-abs(entry[1]), entry[0]))


def values(results):
    """All numbers as a list of plain objects."""
    made = []
    for (nodes, policy, row), measured in results.measured.items():
        for metric in (*METRICS, *COUNTS):
            if metric in measured.numbers:
                found = measured.numbers[metric]
                made.append({"nodes": nodes, "policy": policy, "row": row, "metric": metric, "value": found.value,
                             "unit": UNITS.get(metric, "instructions"), "exact": found.exact, "waits": measured.waits,
                             "samples": measured.samples})
            elif metric in measured.errors:
                made.append({"nodes": nodes, "policy": policy, "row": row, "metric": metric, "value": None,
                             "error": measured.errors[metric]})
    return made


def write_json(path, results):
    paths.write_result(path, json.dumps(values(results), indent=1) + "\n", "values")


def picture(path, results):
    """The ratios as bars, one panel for each machine."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    machines = results.nodes()
    rows = [row.name for row in results.rows if row.name not in steps.CALIBRATION and not row.shared and
            any((nodes, "hydra", row.name) in results.measured for nodes in machines)]
    figure, axes = pyplot.subplots(len(machines), 1, figsize=(13, 3.4 * len(machines)), squeeze=False, layout="constrained")
    for (axis,), nodes in zip(axes, machines):
        pairs = [pair for pair in PAIRS if any((nodes, pair[0], row) in results.measured for row in rows)]
        width = 0.8 / max(len(pairs), 1)
        for index, (policy, base) in enumerate(pairs):
            found = [(place, judged.value / other.value) for place, row in enumerate(rows)
                     for judged, other in [(number(results, nodes, policy, row, "instructions"),
                                            number(results, nodes, base, row, "instructions"))] if judged and other]
            places = [place + (index - (len(pairs) - 1) / 2) * width for place, _ in found]
            axis.bar(places, [ratio - 1 for _, ratio in found], width, bottom=1, label=f"{policy} : {base}", color=COLOURS[policy])
        axis.axhline(1, color="black", linewidth=0.8)
        axis.axhline(1.03, color="black", linewidth=0.6, linestyle=":")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.tick_params(axis="y", which="both", labelsize=7)
        axis.set_xticks(range(len(rows)), rows, fontsize=7, rotation=30, ha="right")
        axis.set_title(f"Instructions for each of Linux's, {nodes} nodes", loc="left", fontsize=10, fontweight="bold")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(PAIRS), frameon=False, fontsize=9)
    report.save(figure, path)
