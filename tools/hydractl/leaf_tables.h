/* SPDX-License-Identifier: GPL-2.0-only */
/* What /proc/PID/hydra_tables says. */
#ifndef LEAF_TABLES_H
#define LEAF_TABLES_H

#include "procfile.h"

/* How many pages the CPUs of a domain reach through leaf tables near and far. */
struct domain_leaves {
	uint64_t domain;
	uint64_t node;
	uint64_t local;
	uint64_t remote;
	/* Pages mapped without access: marked by NUMA balancing, or PROT_NONE. */
	uint64_t marked;
	bool marked_told;		/* otherwise the kernel does not count such pages */
};

struct node_tables {
	uint64_t node;
	uint64_t kib;
};

struct leaf_tables {
	size_t domain_count;
	size_t node_count;
	struct domain_leaves *domain;
	struct node_tables *node;
};

/* Parse and take over @text. False and errno if @text cannot be parsed. */
bool leaf_tables_parse(struct leaf_tables *tables, char *text);
void leaf_tables_free(struct leaf_tables *tables);

/* The local share of the pages that the domain reaches; NaN: no pages. */
double local_leaf_share(const struct domain_leaves *domain);

/* Write the lists "per_domain" and "per_node" into the open JSON object. */
void json_leaf_tables(const struct leaf_tables *tables);

#endif /* LEAF_TABLES_H */
