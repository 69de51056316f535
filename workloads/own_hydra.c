// SPDX-License-Identifier: GPL-2.0-only
#include "own_hydra.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "procfile.h"

static const char path[] = "/proc/self/hydra";

static uint64_t number(const struct records *records, const char *key)
{
	const char *text = records_get(records, key);
	uint64_t value;

	if (!text || !parse_u64(text, &value))
		error(EXIT_FAILURE, 0, "%s has no number '%s'", path, key);
	return value;
}

static bool take_domain(struct own_domain *domain, const struct record *record)
{
	const char *root = record_get(record, "root");

	return root && !strcmp(root, "own") &&
	       record_get_u64(record, "domain", &domain->id) &&
	       record_get_u64(record, "node", &domain->node) &&
	       record_get_u64(record, "replica_tables", &domain->replica_tables) &&
	       record_get_u64(record, "upper_tables", &domain->upper_tables) &&
	       record_get_u64(record, "fills", &domain->fills);
}

struct own_hydra own_hydra_read(void)
{
	struct own_hydra own = { 0 };
	struct records records;
	char *text = file_read(path);

	if (!text && errno == ENOENT)
		error(EXIT_LACKING, 0, "this kernel has no Hydra (%s is missing): boot a kernel built with CONFIG_HYDRA_MM",
		      path);
	if (!text || !records_parse(&records, text, NULL))
		error(EXIT_FAILURE, errno, "cannot read %s", path);
	own.wanted = number(&records, "active");
	own.split = number(&records, "split");
	own.cores = !strcmp(records_get(&records, "domains") ?: "", "core");
	own.fills = number(&records, "fills");
	own.prefetched = number(&records, "prefetched");
	own.propagated = number(&records, "propagated");
	own.fallbacks = number(&records, "fallbacks");
	own.reclaimed = number(&records, "reclaimed");
	own.replica_tables = number(&records, "replica_tables");
	own.upper_tables = number(&records, "upper_tables");
	own.domain = calloc(records.count + 1, sizeof(*own.domain));
	if (!own.domain)
		error(EXIT_FAILURE, errno, "list of domains");
	for (size_t i = 0; i < records.count; i++)
		if (take_domain(&own.domain[own.domain_count], &records.record[i]))
			own.domain_count++;
	records_free(&records);
	return own;
}

void own_hydra_free(struct own_hydra *own)
{
	free(own->domain);
	*own = (struct own_hydra){ 0 };
}

const struct own_domain *own_domain_find(const struct own_hydra *own, uint64_t id)
{
	for (size_t i = 0; i < own->domain_count; i++)
		if (own->domain[i].id == id)
			return &own->domain[i];
	return NULL;
}

const struct own_domain *own_domain_on(const struct own_hydra *own, uint64_t node)
{
	for (size_t i = 0; i < own->domain_count; i++)
		if (own->domain[i].node == node)
			return &own->domain[i];
	return NULL;
}
