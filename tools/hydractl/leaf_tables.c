// SPDX-License-Identifier: GPL-2.0-only
#include "leaf_tables.h"

#include <math.h>

#include "json.h"

static bool add_record(struct leaf_tables *tables, const struct record *record)
{
	struct domain_leaves *domain = &tables->domain[tables->domain_count];
	struct node_tables *node = &tables->node[tables->node_count];

	if (!strcmp(record->pair[0].key, "domain")) {
		tables->domain_count++;
		domain->marked_told = record_get(record, "hinting_leaves");
		return (!domain->marked_told ||
			record_get_u64(record, "hinting_leaves", &domain->marked)) &&
		       record_get_u64(record, "domain", &domain->domain) &&
		       record_get_u64(record, "node", &domain->node) &&
		       record_get_u64(record, "local_leaves", &domain->local) &&
		       record_get_u64(record, "remote_leaves", &domain->remote);
	}
	if (!strcmp(record->pair[0].key, "node")) {
		tables->node_count++;
		return record_get_u64(record, "node", &node->node) &&
		       record_get_u64(record, "pagetable_kib", &node->kib);
	}
	/* Later kernels may have more to say. */
	return true;
}

bool leaf_tables_parse(struct leaf_tables *tables, char *text)
{
	struct records records;
	bool good = true;

	*tables = (struct leaf_tables){ 0 };
	if (!records_parse(&records, text, NULL))
		return false;
	/* One more than can be needed: calloc(0) may be NULL. */
	tables->domain = must_have(calloc(records.count + 1, sizeof(*tables->domain)));
	tables->node = must_have(calloc(records.count + 1, sizeof(*tables->node)));
	for (size_t i = 0; good && i < records.count; i++)
		good = add_record(tables, &records.record[i]);
	records_free(&records);
	if (good && tables->domain_count && tables->node_count)
		return true;
	leaf_tables_free(tables);
	errno = EBADMSG;
	return false;
}

void leaf_tables_free(struct leaf_tables *tables)
{
	free(tables->domain);
	free(tables->node);
	*tables = (struct leaf_tables){ 0 };
}

double local_leaf_share(const struct domain_leaves *domain)
{
	uint64_t all = domain->local + domain->remote;

	return all ? (double)domain->local / all : NAN;
}

void json_leaf_tables(const struct leaf_tables *tables)
{
	json_open_rows("per_domain");
	for (size_t i = 0; i < tables->domain_count; i++) {
		const struct domain_leaves *domain = &tables->domain[i];

		json_open_object(NULL);
		json_number("domain", domain->domain);
		json_number("node", domain->node);
		json_number("local_leaves", domain->local);
		json_number("remote_leaves", domain->remote);
		if (domain->marked_told)
			json_number("hinting_leaves", domain->marked);
		else
			json_string("hinting_leaves", NULL);
		json_real("local_leaf_share", local_leaf_share(domain));
		json_close();
	}
	json_close();
	json_open_rows("per_node");
	for (size_t i = 0; i < tables->node_count; i++) {
		json_open_object(NULL);
		json_number("node", tables->node[i].node);
		json_number("pagetable_kib", tables->node[i].kib);
		json_close();
	}
	json_close();
}
