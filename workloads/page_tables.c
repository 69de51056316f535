// SPDX-License-Identifier: GPL-2.0-only
#include "page_tables.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>

#include "leaf_tables.h"
#include "machine.h"
#include "procfile.h"

static const char path[] = "/proc/self/hydra_tables";

uint64_t page_tables_kib(void)
{
	char *text = file_read(path);
	struct leaf_tables tables;
	uint64_t kib = 0;

	if (!text && errno == ENOENT)
		error(EXIT_LACKING, 0, "this kernel has no Hydra (%s is missing): boot a kernel built with CONFIG_HYDRA_MM",
		      path);
	if (!text || !leaf_tables_parse(&tables, text))
		error(EXIT_FAILURE, errno, "cannot read %s", path);
	for (size_t i = 0; i < tables.node_count; i++)
		kib += tables.node[i].kib;
	leaf_tables_free(&tables);
	return kib;
}
