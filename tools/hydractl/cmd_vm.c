// SPDX-License-Identifier: GPL-2.0-only
/* hydractl vm: the virtual machines of a process, and their nested page tables. */
#include "commands.h"

static bool tables;

static const struct argp_option own_options[] = {
	{ "tables", 't', NULL, 0, "Show where the nested page tables are, instead of settings and counters", 0 },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	(void)arg, (void)state;
	if (key != 't')
		return ARGP_ERR_UNKNOWN;
	tables = true;
	return 0;
}

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = view_children,
	.args_doc = "PID",
	.doc = "Show the virtual machines of process PID (as of QEMU): whether each NUMA node has a tree of nested page tables of its own (NPT, EPT), and what KVM has counted. 'hydractl set --vm' changes that while the machine runs. A machine takes over the policy of the process that makes it: hydractl run -- qemu-system-x86_64 …\v"
	       "With --tables: for each node, how many vCPUs are there, and how many guest pages they reach through tables on the node (local_leaves) and elsewhere (remote_leaves); and the nested tables on each node. Works under every policy. Cost: the kernel walks all nested tables, while faults of the guest go on. For a single look, not for monitoring.\n\n"
	       "Exit status: 0 done; 2 an error (also: the process has no virtual machine).",
};

/* Does a line begin with the key? Then the record has its values. */
static bool is_row(const struct vm_lines *vm, size_t line, const char *key, struct record *record)
{
	return !strcmp(vm->line[line].key, key) && record_parse(record, must_have(strdup(vm->line[line].rest)), key);
}

/* The lines that begin with a key, as a table of the values behind the key */
static void print_rows(const struct vm_lines *vm, const char *key)
{
	struct record record;
	bool head = true;

	for (size_t i = 0; i < vm->count; i++) {
		if (!is_row(vm, i, key, &record))
			continue;
		if (head)
			putchar('\n');
		print_record(&record, head);
		head = false;
	}
}

static void json_rows(const struct vm_lines *vm, const char *key, const char *name)
{
	struct record record;

	json_open_rows(name);
	for (size_t i = 0; i < vm->count; i++) {
		if (!is_row(vm, i, key, &record))
			continue;
		json_open_object(NULL);
		json_pairs(&record);
		json_close();
	}
	json_close();
}

static void json_vms(const struct vms *vms)
{
	json_open_process(options.pid, process_name(options.pid));
	json_open_rows("vms");
	for (size_t i = 0; i < vms->count; i++) {
		const struct vm_lines *vm = &vms->vm[i];

		json_open_object(NULL);
		/* A machine with one tree has no line of a domain. Among the settings, "domains" is one. */
		if (tables || vm_text(vm, "domain"))
			json_rows(vm, "domain", tables ? "domains" : "trees");
		if (tables)
			json_rows(vm, "node", "nodes");
		for (size_t j = 0; !tables && j < vm->count; j++)
			if (strcmp(vm->line[j].key, "domain"))
				json_value(vm->line[j].key, vm->line[j].rest);
		json_close();
	}
	json_close();
	json_close();
}

static void print_vms(const struct vms *vms)
{
	print_process_name(options.pid);
	putchar('\n');
	for (size_t i = 0; i < vms->count; i++) {
		const struct vm_lines *vm = &vms->vm[i];

		printf("\nvirtual machine %zu\n", i);
		for (size_t j = 0; !tables && j < vm->count; j++)
			if (strcmp(vm->line[j].key, "domain"))
				printf("  %-29s %s\n", vm->line[j].key, vm->line[j].rest);
		print_rows(vm, "domain");
		if (tables)
			print_rows(vm, "node");
	}
}

int command_vm(int argc, char **argv)
{
	struct vms vms;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	vms_read(&vms, options.pid, tables ? "hydra_vm_tables" : "hydra_vm");
	if (options.json)
		json_vms(&vms);
	else
		print_vms(&vms);
	return 0;
}
