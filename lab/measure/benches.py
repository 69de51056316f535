# SPDX-License-Identifier: GPL-2.0-only
"""The measurements of ./hydra bench that are no rows of the demo, by name."""
from lab.measure import (bench_allocators, bench_footprint, bench_nested, bench_operations, bench_patterns, bench_people, bench_prefetch, bench_programs,
                         bench_sharing, bench_spinners, bench_walks)

BENCHES = {one.name: one for one in (bench_footprint.BENCH, bench_prefetch.BENCH, bench_patterns.BENCH, bench_patterns.LARGE,
                                     bench_spinners.BENCH, bench_sharing.BENCH, bench_people.BENCH, bench_allocators.BENCH, bench_operations.BENCH,
                                     bench_programs.BENCH, bench_nested.BENCH, bench_walks.BENCH)}
