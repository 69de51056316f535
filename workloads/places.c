// SPDX-License-Identifier: GPL-2.0-only
#include "places.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "procfile.h"

static void print_lines(const char *key, const char *path)
{
	char *text = file_read(path), *rest = NULL;

	if (!text)
		error(EXIT_FAILURE, errno, "cannot read %s", path);
	json_open_list(key);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		json_string(NULL, line);
	json_close();
	free(text);
}

void print_places(bool cores)
{
	print_lines("map", "/proc/self/hydra_map");
	print_lines("domains", cores ? "/sys/kernel/mm/hydra/domains_core" : "/sys/kernel/mm/hydra/domains");
}
