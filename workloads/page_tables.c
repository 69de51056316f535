// SPDX-License-Identifier: GPL-2.0-only
#include "page_tables.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>

#include "leaf_tables.h"
#include "machine.h"
#include "procfile.h"

static const char path[] = "/proc/self/hydra_tables";

static struct leaf_tables read_tables(void)
{
	char *text = file_read(path);
	struct leaf_tables tables;

	if (!text && errno == ENOENT)
		error(EXIT_LACKING, 0, "this kernel has no Hydra (%s is missing): boot a kernel built with CONFIG_HYDRA_MM",
		      path);
	if (!text || !leaf_tables_parse(&tables, text))
		error(EXIT_FAILURE, errno, "cannot read %s", path);
	return tables;
}

struct reach page_tables_reach(uint64_t node)
{
	struct leaf_tables tables = read_tables();
	struct reach reach = { 0 };

	for (size_t i = tables.domain_count; i--;)
		if (tables.domain[i].node == node)
			reach = (struct reach){ .near = tables.domain[i].local, .far = tables.domain[i].remote };
	leaf_tables_free(&tables);
	return reach;
}

uint64_t page_tables_kib(void)
{
	struct leaf_tables tables = read_tables();
	uint64_t kib = 0;

	for (size_t i = 0; i < tables.node_count; i++)
		kib += tables.node[i].kib;
	leaf_tables_free(&tables);
	return kib;
}
