/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel counts about this process, in /proc/self/hydra. */
#ifndef OWN_HYDRA_H
#define OWN_HYDRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A domain whose CPUs use page tables of their own. */
struct own_domain {
	uint64_t id;
	uint64_t node;
	uint64_t replica_tables;
	uint64_t upper_tables;
	uint64_t fills;
};

struct own_hydra {
	bool wanted;			/* the settings ask for more than one domain */
	bool split;			/* CPUs use page tables per domain now */
	bool cores;			/* each core is a domain */
	uint64_t fills;
	uint64_t prefetched;
	uint64_t propagated;
	uint64_t fallbacks;
	uint64_t reclaimed;
	uint64_t replica_tables;
	uint64_t upper_tables;
	size_t domain_count;
	struct own_domain *domain;
};

/* Leaves with a message if this kernel has no Hydra. */
struct own_hydra own_hydra_read(void);
void own_hydra_free(struct own_hydra *own);

/* The domain with this number, NULL if it has no page tables of its own. */
const struct own_domain *own_domain_find(const struct own_hydra *own, uint64_t id);

/*
 * The domain of a node that has page tables of its own, NULL if none has. If
 * each core is a domain, the first of the node.
 */
const struct own_domain *own_domain_on(const struct own_hydra *own, uint64_t node);

#endif /* OWN_HYDRA_H */
