// SPDX-License-Identifier: GPL-2.0-only
/* hydractl tables: the page tables through which each domain reaches memory. */
#include <math.h>

#include "commands.h"
#include "leaf_tables.h"

static const struct argp argp = {
	.children = view_children,
	.args_doc = "PID",
	.doc = "Show, for each domain, how many pages its CPUs reach through leaf page tables on their own node (LOCAL) and on other nodes (REMOTE), and how much page-table memory process PID has on each node. SHARE is LOCAL divided by the sum of both. Works under every policy.\n"
	       "\n"
	       "MARKED pages are mapped without access, so no CPU reaches such a page before the next fault: automatic NUMA balancing marks pages to find out which node uses each page next; mprotect(PROT_NONE) marks pages, too. LOCAL and REMOTE do not count MARKED pages.\v"
	       "Cost: calls of the process that change mappings, such as mmap and munmap, wait while the kernel walks the page tables, up to 256 tables at a time. For a single look, not for monitoring. Needs the permission to trace the process.\n\n"
	       "Exit status: 0 done; 2 an error.",
};

static void json_tables(const struct leaf_tables *tables)
{
	json_open_process(options.pid, process_name(options.pid));
	json_leaf_tables(tables);
	json_close();
}

static void print_tables(const struct leaf_tables *tables)
{
	static const struct column of_domains[] = {
		{ .head = "DOMAIN", 6 }, { .head = "NODE", 4 }, { .head = "LOCAL", 12 }, { .head = "REMOTE", 12 },
		{ .head = "SHARE", 10 }, { .head = "MARKED", 12 },
	};
	static const struct column of_nodes[] = { { .head = "", 6 }, { .head = "NODE", 4 }, { .head = "PAGE TABLES", 16 } };
	struct table domains = TABLE(stdout, of_domains, SIZE_MAX), nodes = TABLE(stdout, of_nodes, SIZE_MAX);

	print_process_name(options.pid);
	printf("\n\n");
	table_head(&domains);
	for (size_t i = 0; i < tables->domain_count; i++) {
		const struct domain_leaves *domain = &tables->domain[i];
		double share = local_leaf_share(domain);

		table_cell(&domains, "%" PRIu64, domain->domain);
		table_cell(&domains, "%" PRIu64, domain->node);
		table_cell(&domains, "%" PRIu64, domain->local);
		table_cell(&domains, "%" PRIu64, domain->remote);
		table_cell(&domains, isnan(share) ? "-" : "%.2f %%", 100 * share);
		table_cell(&domains, domain->marked_told ? "%" PRIu64 : "-", domain->marked);
	}
	putchar('\n');
	table_head(&nodes);
	for (size_t i = 0; i < tables->node_count; i++) {
		table_cell(&nodes, "%s", "");
		table_cell(&nodes, "%" PRIu64, tables->node[i].node);
		table_cell(&nodes, "%" PRIu64 " KiB", tables->node[i].kib);
	}
}

int command_tables(int argc, char **argv)
{
	struct leaf_tables tables;
	char *text;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	text = process_need(options.pid, "hydra_tables", "read");
	if (!leaf_tables_parse(&tables, text))
		process_unexpected(options.pid, "hydra_tables", strerror(errno));
	if (options.json)
		json_tables(&tables);
	else
		print_tables(&tables);
	return 0;
}
