// SPDX-License-Identifier: GPL-2.0-only
/* What programs with turns print. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "auto_policy.h"
#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "round_robin.h"

int round_robin_report(const struct round_robin *turns, const char *program,
		       void (*about)(const struct round_robin *turns))
{
	struct own_hydra own;
	uint64_t tables;

	use_plain_memory();
	round_robin_run(turns);
	own = own_hydra_read();
	/* JSON takes memory, too. */
	tables = page_tables_kib();

	json_open_object(NULL);
	json_string("program", program);
	about(turns);
	round_robin_print_interrupts("interrupts", 0);
	json_number("pagetable_kib", tables);
	json_number("fills", own.fills);
	auto_policy_print();
	json_close();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
