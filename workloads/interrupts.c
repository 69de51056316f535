// SPDX-License-Identifier: GPL-2.0-only
#include "interrupts.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"

static const char path[] = "/proc/interrupts";
static char text[1 << 20];

uint64_t shootdown_interrupts(void)
{
	size_t used = 0;
	ssize_t got;
	uint64_t sum = 0;
	char *line, *end;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		error(EXIT_FAILURE, errno, "cannot open %s", path);
	while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += got;
	if (got < 0)
		error(EXIT_FAILURE, errno, "cannot read %s", path);
	close(fd);
	text[used] = '\0';

	line = strstr(text, "TLB:");
	if (!line)
		error(EXIT_LACKING, 0, "%s has no line 'TLB:': not an x86 kernel for several CPUs?", path);
	for (line += strlen("TLB:"); ; line = end) {
		uint64_t number = strtoull(line, &end, 10);

		/* The line ends with words. */
		if (end == line)
			return sum;
		sum += number;
	}
}
