// SPDX-License-Identifier: GPL-2.0-only
#include "cpulist.h"

#include <ctype.h>
#include <stdlib.h>

const char *cpulist_next(const char *list, uint64_t *first, uint64_t *last)
{
	char *end;

	if (!isdigit((unsigned char)*list))
		return NULL;
	*first = *last = strtoull(list, &end, 10);
	if (*end == '-')
		*last = strtoull(end + 1, &end, 10);
	return end + (*end == ',');
}
