# SPDX-License-Identifier: GPL-2.0-only
"""./hydra demo: every measurement, shown, drawn, and compared with what must come out."""
import time

from lab import limits, measure, paths, progress, report


def demo_verb(arguments):
    start = time.monotonic()
    values = measure.measure(list(measure.ROWS))
    report.table(values)
    failed = report.verdicts(limits.check(values))
    report.picture(arguments.png or paths.cache() / "hydra-demo.png", values)
    if arguments.json:
        measure.write_json(arguments.json, values)
    progress.say(f"the demo took {(time.monotonic() - start) / 60:.1f} min")
    return 1 if failed else 0
