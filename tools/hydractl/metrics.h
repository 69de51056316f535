/* SPDX-License-Identifier: GPL-2.0-only */
/* Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/ */
#ifndef METRICS_H
#define METRICS_H

#include <stdio.h>

#include "process.h"

/* The state of the system, and the settings and counters of the processes. */
void write_metrics(FILE *out, const struct processes *processes);

#endif /* METRICS_H */
