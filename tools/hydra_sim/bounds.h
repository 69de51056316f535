/* SPDX-License-Identifier: GPL-2.0-only */
/* Random traces, and the bounds that rules have to keep on them. */
#ifndef BOUNDS_H
#define BOUNDS_H

#include "sim.h"

#define MOST_EVENTS	400

/* An event of @domain: a use by its CPUs, or a flush or change that they start */
struct event {
	u8 kind, domain;
};

struct trace {
	struct hydra_prices prices;
	u32 cpus;		/* of each domain that run the program */
	u32 late;		/* events between a due look and the look */
	/* Of a process: quarters of its tables that each domain uses; tables that each event adds */
	u32 sockets, tables, filled, grows;
	u32 nr;
	struct event event[MOST_EVENTS];
};

/* A bound that was broken, and by how much; or how near traces came */
struct verdict {
	const char *bound;
	double cost, most;
};

/* Does @cost keep the bound @most? If not, @v says so. */
bool keeps(struct verdict *v, const char *bound, double cost, double most);

/* Of a process: one event is so many looks, of a kind and at a rate. See bounds_process.c. */
void make_process(struct trace *t, u64 *random);
bool check_process(const struct trace *t, struct verdict *v);

#endif /* BOUNDS_H */
