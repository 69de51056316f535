// SPDX-License-Identifier: GPL-2.0-only
#include "tlb_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 22];

static bool read_text(const char *path)
{
	size_t used = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += got;
	text[used] = '\0';
	close(fd);
	return !got;
}

bool tlb_interrupts(const char *path, uint64_t *sum)
{
	char *line, *end;

	*sum = 0;
	if (!read_text(path))
		return false;
	line = strstr(text, "TLB:");
	if (!line) {
		errno = ENOMSG;
		return false;
	}
	for (line += strlen("TLB:"); ; line = end) {
		uint64_t number = strtoull(line, &end, 10);

		/* The line ends with words. */
		if (end == line)
			return true;
		*sum += number;
	}
}
