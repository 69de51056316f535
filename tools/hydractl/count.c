// SPDX-License-Identifier: GPL-2.0-only
#include "count.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "kernel.h"

bool count_set(pid_t pid, bool on)
{
	return process_write(pid, on ? "count=on" : "count=off");
}

bool count_known(const struct process *process)
{
	return process_text(process, "count");
}

bool counted(const struct process *process)
{
	return process_number(process, "count");
}

uint64_t counted_ended(const struct process *process, const char *key)
{
	uint64_t number;
	char *ended;

	ended = must_have(asprintf(&ended, "ended_%s", key) < 0 ? NULL : ended);
	number = process_number(process, ended);
	free(ended);
	return number;
}

char *count_refusal(pid_t pid)
{
	char *supported, *missing, *why;

	/* Only kernels that do not know the text call it invalid. */
	if (errno == EINVAL)
		return must_have(strdup("this kernel's Hydra is older than hydractl, and cannot count processes under policy linux"));
	if (errno != EOPNOTSUPP)
		return process_failure(pid, "count");
	supported = kernel_supported(&missing);
	why = must_have(asprintf(&why, "Hydra cannot work on this machine (%s)", supported) < 0 ? NULL : why);
	free(supported);
	return why;
}
