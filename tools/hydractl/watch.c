// SPDX-License-Identifier: GPL-2.0-only
#include "watch.h"

#include <stdlib.h>

#include "repeat.h"

void watch_compare(struct watch *watch)
{
	rates_free(&watch->table);
	rates_compare(&watch->table, &watch->before, &watch->after, watch->seconds, watch->order,
		      watch->all);
}

bool watch_look(struct watch *watch)
{
	double moment = now();
	size_t count;
	pid_t *pids = group_pids(&watch->group, &count);

	if (!pids)
		return false;
	rates_free(&watch->table);
	processes_free(&watch->before);
	watch->before = watch->after;
	processes_load(&watch->after, pids, count, false);
	free(pids);
	watch->seconds = watch->moment ? moment - watch->moment : 0;
	watch->moment = moment;
	watch_compare(watch);
	return true;
}

void watch_end(struct watch *watch)
{
	rates_free(&watch->table);
	processes_free(&watch->before);
	processes_free(&watch->after);
	free(watch->group.path);
}
