// SPDX-License-Identifier: GPL-2.0-only
#include "nested_map.h"

#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define SHARED		UINT64_MAX	/* in place of a domain: the tree that all vCPUs share */
#define LEAF_LEVELS	3		/* entries of higher levels map no page */
#define LEVEL_BITS	9

struct nested_table {
	uint64_t domain, level, gfn, node;
	uint64_t leaves;	/* at first, all entries */
};

static int compare(const void *a, const void *b)
{
	const struct nested_table *left = a, *right = b;

	if (left->domain != right->domain)
		return left->domain < right->domain ? -1 : 1;
	if (left->level != right->level)
		return left->level < right->level ? -1 : 1;
	return left->gfn < right->gfn ? -1 : left->gfn > right->gfn;
}

static struct nested_table *find(const struct nested_map *map, uint64_t domain, uint64_t level,
				 uint64_t gfn)
{
	struct nested_table key = {
		.domain = domain, .level = level, .gfn = gfn & ~((1ULL << LEVEL_BITS * level) - 1),
	};

	return bsearch(&key, map->table, map->count, sizeof(key), compare);
}

/* "domain D gfn 0xG level L node N entries E", without the first word */
static bool parse(struct nested_table *table, const char *rest)
{
	struct record record;
	char *text = must_have(strdup(rest)), *end;
	const char *domain, *gfn;
	bool good = record_parse(&record, text, "domain");

	domain = good ? record_get(&record, "domain") : NULL;
	gfn = good ? record_get(&record, "gfn") : NULL;
	good = domain && gfn && record_get_u64(&record, "level", &table->level) &&
	       table->level < 64 / LEVEL_BITS &&
	       record_get_u64(&record, "node", &table->node) &&
	       record_get_u64(&record, "entries", &table->leaves);
	if (good && !strcmp(domain, "-"))
		table->domain = SHARED;
	else
		good = good && parse_u64(domain, &table->domain);
	if (good) {
		table->gfn = strtoull(gfn, &end, 16);
		good = !*end;
	}
	free(text);
	return good;
}

/*
 * A domain has a second tree if a vCPU was in system management mode, as firmware is for
 * moments. The map does not tell the trees apart; the tables of that one have few entries.
 */
static void keep_fuller(struct nested_map *map)
{
	size_t kept = 0;

	qsort(map->table, map->count, sizeof(*map->table), compare);
	for (size_t i = 0; i < map->count; i++) {
		if (!kept || compare(&map->table[kept - 1], &map->table[i]))
			map->table[kept++] = map->table[i];
		else if (map->table[kept - 1].leaves < map->table[i].leaves)
			map->table[kept - 1] = map->table[i];
	}
	map->count = kept;
}

bool nested_map_load(struct nested_map *map, const struct vm_lines *lines)
{
	struct nested_table *above;

	/* One more than can be needed: calloc(0) may be NULL. */
	*map = (struct nested_map){ 0 };
	map->table = must_have(calloc(lines->count + 1, sizeof(*map->table)));
	for (size_t i = 0; i < lines->count; i++) {
		if (strcmp(lines->line[i].key, "domain"))
			continue;
		if (!parse(&map->table[map->count++], lines->line[i].rest)) {
			nested_map_free(map);
			return false;
		}
	}
	keep_fuller(map);
	/* The entries of a table that do not lead to another table are leaf entries. */
	for (size_t i = 0; i < map->count; i++) {
		above = find(map, map->table[i].domain, map->table[i].level + 1, map->table[i].gfn);
		if (above && above->leaves)
			above->leaves--;
	}
	return true;
}

void nested_map_free(struct nested_map *map)
{
	free(map->table);
	*map = (struct nested_map){ 0 };
}

/* Has the domain a tree of its own? The root maps the first frame. */
static bool has_tree(const struct nested_map *map, uint64_t domain)
{
	return find(map, domain, 4, 0) || find(map, domain, 5, 0);
}

bool nested_leaf_node(const struct nested_map *map, uint64_t domain, uint64_t gfn, uint64_t *node)
{
	const struct nested_table *table;

	if (!has_tree(map, domain))
		domain = SHARED;
	for (uint64_t level = 1; level <= LEAF_LEVELS; level++) {
		table = find(map, domain, level, gfn);
		if (table) {
			*node = table->node;
			return table->leaves;
		}
	}
	return false;
}
