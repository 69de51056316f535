// SPDX-License-Identifier: GPL-2.0-only
#include "interrupts.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>

#include "machine.h"
#include "tlb_line.h"

static const char path[] = "/proc/interrupts";

uint64_t shootdown_interrupts(void)
{
	uint64_t sum;

	if (tlb_interrupts(path, &sum))
		return sum;
	if (errno == ENOMSG)
		error(EXIT_LACKING, 0, "%s has no line 'TLB:': not an x86 kernel for several CPUs?", path);
	error(EXIT_FAILURE, errno, "cannot read %s", path);
	abort();
}
