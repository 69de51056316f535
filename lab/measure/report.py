# SPDX-License-Identifier: GPL-2.0-only
"""Shows measured values: a table with plain words under each row, one picture, and the limits.

Counts are shown as they are. A time or a rate is an emulator's, so it is shown only as a ratio to that of Linux.
"""
import pathlib

from rich.console import Console
from rich.table import Table

from lab import progress
from lab.errors import LabError
from lab.measure import limits
from lab.measure.measure import POLICIES

COLUMNS = {"linux": "Linux", "hydra-nofilter": "Hydra without the filter", "hydra": "Hydra"}
COLOURS = {"linux": "#888888", "hydra-nofilter": "#d9a441", "hydra": "#2a7fb8"}
TITLES = {"mprotect": "mprotect of one page, in a loop",
          "munmap": "mmap + touch + munmap of one page, in a loop, at the same address under each policy",
          "apache": "Apache, a 16 KiB page, under wrk", "locality": "Where page-table entries are read from"}
CASES = {"quiet": "no other thread", "remote-spinners": "spinners on other nodes",
         "remote-and-local-spinners": "one more on the same node", "shared": "shared data", "private": "private data",
         ("apache", "quiet"): "one CPU of each node", "all-cpus": "all CPUs", "one-node": "one node only",
         ("locality", "quiet"): "one node only"}
METRICS = {"interrupts_per_op": "interrupts/operation", "us_per_op": "an emulator's time, Linux = 1",
           "interrupts_per_request": "interrupts/request", "requests_per_s": "an emulator's requests/s, Linux = 1",
           "local_leaf_share": "entries reached locally", "pagetable_kib": "page tables, KiB"}


def called(row, case):
    return CASES.get((row, case)) or CASES[case]


def ratio(value):
    """An emulator's ratio. Of a small one the emulator tells that it is small, not how small."""
    return "< 0.01" if 0 < value < 0.01 else f"{value:.2f}"


def ratio_in_words(value):
    return ratio(value).replace("<", "less than")


def number(value, metric):
    if metric in limits.EMULATED:
        return ratio(value)
    if metric == "local_leaf_share":
        return f"{100 * value:.1f} %"
    if metric == "pagetable_kib" or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}"


class Values:
    """Values by row, case, policy and metric, in the order they were made; an emulator's for each of Linux's."""

    def __init__(self, entries):
        self.value = {(e["row"], e["case"], e["policy"], e["metric"]): e["value"] for e in entries
                      if e["metric"] in METRICS}

    def __call__(self, row, case, policy, metric):
        value = self.value[row, case, policy, metric]
        return value / self.value[row, case, "linux", metric] if metric in limits.EMULATED else value

    def rows(self):
        return list(dict.fromkeys(row for row, *_ in self.value))

    def lines(self, row):
        """(case, metric) pairs of a row."""
        return list(dict.fromkeys((case, metric) for r, case, _, metric in self.value if r == row))


def fewer(old, new):
    """'93 % fewer' or '4 % more', of a pair of values."""
    if not old:
        return "as many (none)" if not new else "more (from none)"
    change = 100 * (1 - new / old)
    return f"{change:.0f} % fewer" if change >= 0 else f"{-change:.0f} % more"


def words(values, row):
    """What a row means, in sentences made of its values: what is counted comes first."""
    if row in ("mprotect", "munmap"):
        def get(case, policy, metric="interrupts_per_op"):
            return values(row, case, policy, metric)
        far, both = "remote-spinners", "remote-and-local-spinners"
        return (f"While threads spin on the other nodes, one operation interrupts {get(far, 'linux'):.1f} CPUs under Linux and "
                f"{get(far, 'hydra'):.2f} under Hydra ({get(far, 'hydra-nofilter'):.1f} without the filter). With one more "
                f"spinning thread on the same node, Linux interrupts {get(both, 'linux'):.1f} CPUs and Hydra "
                f"{get(both, 'hydra'):.2f}. An emulator's time per operation, while threads spin on the other nodes, is under "
                f"Hydra {ratio_in_words(get(far, 'hydra', 'us_per_op'))} of Linux's.")
    if row == "apache":
        return (f"{requests(values, 'quiet', 'With server threads on one CPU of each node')} "
                f"{requests(values, 'all-cpus', 'With server threads on all CPUs')}")

    def share(case, policy):
        return f"{100 * values(row, case, policy, 'local_leaf_share'):.0f} %"
    tables = [values(row, "private", policy, "pagetable_kib") for policy in ("linux", "hydra")]
    return (f"Of the entries of shared data, the worst-placed node reaches {share('shared', 'linux')} in its own memory "
            f"under Linux, {share('shared', 'hydra')} under Hydra. For data each node keeps to itself, Hydra's page tables take "
            f"{tables[1] / tables[0]:.2f} times the memory of Linux's.")


def requests(values, case, where):
    """What a request costs in one set-up of the web server."""
    linux, hydra = (values("apache", case, policy, "interrupts_per_request") for policy in ("linux", "hydra"))
    return (f"{where}, a request costs {linux:.2f} shootdown interrupts under Linux and {hydra:.2f} under Hydra, "
            f"{fewer(linux, hydra)}; an emulator's requests per second are "
            f"{ratio_in_words(values('apache', case, 'hydra', 'requests_per_s'))} of Linux's.")


def printer():
    """Tables as wide as the terminal; elsewhere as wide as they need."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=120)


def table(entries):
    """Print the table: each row's lines under its title, then its words."""
    values = Values(entries)
    out = printer()
    for row in values.rows():
        grid = Table(title=TITLES[row], title_justify="left", caption=words(values, row), caption_justify="left",
                     title_style="bold", caption_style="italic", expand=False, min_width=min(100, out.width))
        grid.add_column("case")
        grid.add_column("metric")
        for policy in POLICIES:
            grid.add_column(COLUMNS[policy], justify="right")
        last = None
        for case, metric in values.lines(row):
            shown = called(row, case) if case != last else ""
            grid.add_row(shown, METRICS[metric], *(number(values(row, case, policy, metric), metric) for policy in POLICIES))
            last = case
        out.print(grid)
        out.print()


def verdicts(checks):
    """Print the limits as passed or failed; returns how many failed that must not."""
    out = printer()
    grid = Table(title="Expected results", title_justify="left", title_style="bold")
    for heading in ("", "row", "limit", "measured"):
        grid.add_column(heading)
    for check in checks:
        word = "[green]pass[/]" if check.passed else "[bold red]FAIL[/]" if check.asserted else "[yellow]above[/]"
        grid.add_row(word, check.row, check.text, check.seen)
    out.print(grid)
    out.print("Where nothing is shared, times say little, and 'above' is no failure: ./hydra bench steps counts what Hydra costs there.")
    return sum(check.asserted and not check.passed for check in checks)


def bars(axis, values, row, metric, cases, labels):
    """Grouped bars: one group for each case, one bar for each policy."""
    width = 0.8 / len(POLICIES)
    for index, policy in enumerate(POLICIES):
        heights = [values(row, case, policy, metric) for case in cases]
        places = [group + (index - 1) * width for group in range(len(cases))]
        drawn = axis.bar(places, heights, width, label=COLUMNS[policy], color=COLOURS[policy])
        axis.bar_label(drawn, [number(height, metric) for height in heights], fontsize=7, padding=1)
    axis.set_xticks(range(len(cases)), labels, fontsize=8)
    axis.set_ylabel(METRICS[metric], fontsize=8)
    axis.margins(y=0.15)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def save(figure, path):
    """Write a picture, and forget it."""
    from matplotlib import pyplot
    try:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, format="png")
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from error
    pyplot.close(figure)
    progress.say(f"picture written to {path}")


def picture(path, entries):
    """All rows in one PNG: interrupts or locality on the left; memory, or an emulator's times and rates, on the right."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    values = Values(entries)
    rows = values.rows()
    figure, axes = pyplot.subplots(len(rows), 2, figsize=(12, 3.1 * len(rows)), squeeze=False, layout="constrained")
    for (left, right), row in zip(axes, rows):
        drawn = ("local_leaf_share", "pagetable_kib") if row == "locality" else \
            list(dict.fromkeys(metric for _, metric in values.lines(row)))[:2]
        for axis, metric in zip((left, right), drawn):
            cases = [case for case, found in values.lines(row) if found == metric]
            bars(axis, values, row, metric, cases, [called(row, case) for case in cases])
        left.set_title(TITLES[row], loc="left", fontsize=10, fontweight="bold")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(POLICIES), frameon=False, fontsize=9)
    save(figure, path)
