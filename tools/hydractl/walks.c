// SPDX-License-Identifier: GPL-2.0-only
/* hydractl walks: the 2D page walks of a virtual machine, by where their last entries are. */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "cpulist.h"
#include "guest_memory.h"
#include "json.h"
#include "kernel.h"
#include "nested_map.h"
#include "process.h"
#include "qmp.h"
#include "threads.h"
#include "view.h"
#include "vms.h"

#define PRESENT		1ULL
#define HUGE_PAGE	(1ULL << 7)
#define HUGE_LEVELS	3
#define ADDRESS		0x000ffffffffff000ULL
#define LEVEL_BITS	9
#define PAGE_BITS	12
#define CR4_LA57	(1ULL << 12)
#define EFER_LMA	(1ULL << 10)
#define LAST		(1ULL << 56)	/* no user address is higher */
#define PER_LEAF_TABLE	512ULL		/* frames of a nested leaf table */

struct options {
	struct view view;
	const char *monitor;
	bool stop;
	uint64_t start, end;	/* the guest's virtual addresses */
};

/* Where the last entries of a walk are: in the guest's table, and in the nested one. */
enum where { LOCAL_LOCAL, LOCAL_REMOTE, REMOTE_LOCAL, REMOTE_REMOTE, UNMAPPED, WHERES };

static const char *const where_keys[WHERES] = {
	"local_local", "local_remote", "remote_local", "remote_remote", "unmapped",
};

/* A page table of the guest that vCPUs of a domain have loaded */
struct root {
	uint64_t table;
	unsigned int levels;
	uint64_t entry[GUEST_ENTRIES / 2];	/* those for user addresses */
};

/* A virtual CPU, and the CPU of the host on which it ran last */
struct place {
	int index;
	uint64_t cpu;
};

struct walkers {
	uint64_t domain, node, vcpus;
	const char *cpus;
	size_t roots;
	struct root *root;
	uint64_t pages[WHERES];
};

struct walks {
	struct vms tables, maps;		/* the text of the kernel's files */
	struct records domains;
	struct nested_map nested;
	size_t count;
	struct walkers *walkers;		/* by domain */
	uint64_t start, end;
	unsigned int not_64_bit;		/* vCPUs left out */
};

enum { STOP = 's', RANGE = 'r', QMP = 'm' };

static const struct argp_option own_options[] = {
	{ "monitor", QMP, "SOCKET", 0, "The Unix socket of a monitor of QEMU's machine protocol which no other program uses. QEMU has one with -qmp unix:SOCKET,server=on,wait=off; several are possible", 0 },
	{ "stop", STOP, NULL, 0, "Stop the machine meanwhile, so that its page tables do not change under the look. It goes on afterwards", 0 },
	{ "range", RANGE, "START-END", 0, "Count pages with these virtual addresses of the guest's programs only (hexadecimal, as in /proc/PID/maps of the guest)", 0 },
	{ 0 }
};

static void parse_range(const struct argp_state *state, const char *text, struct options *options)
{
	char *end;

	errno = 0;
	options->start = strtoull(text, &end, 16);
	if (end == text || *end != '-' || errno)
		argp_error(state, "'%s' is no range START-END", text);
	text = end + 1;
	options->end = strtoull(text, &end, 16);
	if (end == text || *end || errno || options->end <= options->start ||
	    options->end > LAST)
		argp_error(state, "'%s' is no end of a range", text);
	/* Whole pages */
	options->start &= -(uint64_t)GUEST_PAGE;
	options->end = (options->end + GUEST_PAGE - 1) & -(uint64_t)GUEST_PAGE;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->view;
		return 0;
	case QMP:
		options->monitor = arg;
		return 0;
	case STOP:
		options->stop = true;
		return 0;
	case RANGE:
		parse_range(state, arg, options);
		return 0;
	case ARGP_KEY_END:
		if (!options->monitor)
			argp_error(state, "give the machine's monitor: --monitor=SOCKET");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp view_argp = { .options = view_options, .parser = view_parse };
static const struct argp_child children[] = { { .argp = &view_argp }, { 0 } };

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "PID",
	.doc = "A virtual machine's CPU that misses its TLB walks two page tables: the guest's, and the nested one of the host. Show for the machine of process PID (QEMU), for each domain of CPUs: of the pages that the programs have which its virtual CPUs run now (an idle one: ran last), how many are reached through last entries on the domain's node (LOCAL) or on another (REMOTE). The first word is for the guest's page table, the second for the nested one, as in figure 2 of the vMitosis paper (ASPLOS 2021). UNMAPPED pages have no nested table for this domain yet. Works under every policy of the host and of the guest.\v"
	       "Counted are 4 KiB pages with user addresses, once for each page table of the guest that virtual CPUs of the domain have loaded; not how often a program reaches them. A page counts by the nested table in which its entry is, or will be: the kernel tells of tables, not of entries. Virtual CPUs that run a machine within the machine spoil the count: their registers are those of that machine. Without --stop, what the guest changes meanwhile may be counted wrongly.\n\n"
	       "If hydractl is killed with signal 9 during --stop, the machine stays stopped (QEMU: cont).\n\n"
	       "Cost: the kernel walks all nested tables, and the guest's page tables are read out of QEMU's memory. For a single look, not for monitoring. Needs the permission to trace the process.\n\n"
	       "Example: hydractl walks --monitor /run/vm.qmp --stop $(pidof qemu-system-x86_64)\n\n"
	       "Exit status: 0 done; 2 an error.",
};

/* The only machine of the process, as one of the kernel's files describes it */
static struct vm_lines *only_vm(struct vms *vms, pid_t pid, const char *file)
{
	vms_read(vms, pid, file);
	if (vms->count != 1)
		error(EXIT_ERROR, 0, "process %d has %zu virtual machines: which one has this monitor is unknown", pid, vms->count);
	return &vms->vm[0];
}

static void load_domains(struct walks *walks, pid_t pid)
{
	const struct vm_lines *lines = only_vm(&walks->tables, pid, "hydra_vm_tables");

	if (!records_parse(&walks->domains, kernel_file("domains"), "domain"))
		kernel_unexpected("domains", strerror(errno));
	walks->count = walks->domains.count;
	walks->walkers = must_have(calloc(walks->count + 1, sizeof(*walks->walkers)));
	for (size_t i = 0; i < walks->count; i++) {
		const struct record *record = &walks->domains.record[i];
		struct walkers *walkers = &walks->walkers[i];

		walkers->cpus = record_get(record, "cpus");
		if (!walkers->cpus || !record_get_u64(record, "domain", &walkers->domain))
			kernel_unexpected("domains", "a line without its domain or cpus");
	}
	/* A domain without memory has its tables on another node. */
	for (size_t i = 0; i < lines->count; i++) {
		struct record record;
		uint64_t domain;
		char *text;

		if (strcmp(lines->line[i].key, "domain"))
			continue;
		text = must_have(strdup(lines->line[i].rest));
		if (!record_parse(&record, text, "domain") || !record_get_u64(&record, "domain", &domain))
			process_unexpected(pid, "hydra_vm_tables", lines->line[i].rest);
		for (size_t j = 0; j < walks->count; j++)
			if (walks->walkers[j].domain == domain &&
			    !record_get_u64(&record, "node", &walks->walkers[j].node))
				process_unexpected(pid, "hydra_vm_tables", lines->line[i].rest);
		free(text);
	}
}

static void load_nested(struct walks *walks, pid_t pid)
{
	if (!nested_map_load(&walks->nested, only_vm(&walks->maps, pid, "hydra_vm_map")))
		process_unexpected(pid, "hydra_vm_map", "a line without its domain, gfn, level, node or entries");
}

/* Those of the domain with the CPU */
static struct walkers *walkers_on(struct walks *walks, uint64_t cpu)
{
	uint64_t first, last;
	const char *list;

	for (size_t i = 0; i < walks->count; i++) {
		list = walks->walkers[i].cpus;
		while ((list = cpulist_next(list, &first, &last)))
			if (first <= cpu && cpu <= last)
				return &walks->walkers[i];
	}
	kernel_unexpected("domains", "a CPU in none of them");
}

/*
 * With page-table isolation, Linux has two roots for a program, which lead to the same tables. The
 * kernel's root forbids it to execute the program's pages.
 */
static bool same_tables(const struct root *a, const struct root *b)
{
	bool some = false;

	for (int i = 0; i < GUEST_ENTRIES / 2; i++) {
		if ((a->entry[i] ^ b->entry[i]) & (ADDRESS | PRESENT))
			return false;
		some |= a->entry[i] & PRESENT;
	}
	return some;
}

static void add_root(struct walkers *walkers, uint64_t table, unsigned int levels)
{
	uint64_t entry[GUEST_ENTRIES];
	struct root *root;

	if (!guest_read_table(table, entry))
		return;
	walkers->root = must_have(reallocarray(walkers->root, walkers->roots + 1, sizeof(*root)));
	root = &walkers->root[walkers->roots];
	root->table = table;
	root->levels = levels;
	memcpy(root->entry, entry, sizeof(root->entry));
	for (size_t i = 0; i < walkers->roots; i++)
		if (walkers->root[i].table == table || same_tables(&walkers->root[i], root))
			return;
	walkers->roots++;
}

static uint64_t register_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	if (!at)
		error(EXIT_ERROR, 0, "hydractl does not understand QEMU's registers: no %s", name);
	return strtoull(at + strlen(name), NULL, 16);
}

/* What QEMU says of one virtual CPU's registers: "CPU#3", a newline, and lines of NAME=VALUE */
static const char *registers_of(const char *all, int index)
{
	char label[32];
	size_t length = snprintf(label, sizeof(label), "CPU#%d", index);
	const char *at = strstr(all, label);

	/* "CPU#1" is not "CPU#10". */
	while (at && isdigit((unsigned char)at[length]))
		at = strstr(at + 1, label);
	if (!at)
		error(EXIT_ERROR, 0, "hydractl does not understand QEMU's registers: no %s", label);
	return at;
}

/* Where the vCPUs ran last: before anything wakes them. To be freed. */
static struct place *load_places(pid_t pid, size_t *count)
{
	struct qmp_vcpu *vcpus = qmp_vcpus(count);
	struct place *places = must_have(calloc(*count + 1, sizeof(*places)));
	char thread[16];

	for (size_t i = 0; i < *count; i++) {
		snprintf(thread, sizeof(thread), "%d", vcpus[i].thread);
		places[i].index = vcpus[i].index;
		if (!thread_cpu(pid, thread, &places[i].cpu))
			error(EXIT_ERROR, 0, "the machine of this monitor is not that of process %d, which has no thread %s", pid, thread);
	}
	free(vcpus);
	return places;
}

/* The page tables which the vCPUs have loaded */
static void load_roots(struct walks *walks, const struct place *places, size_t count)
{
	char *all = qmp_human("info registers -a");

	for (size_t i = 0; i < count; i++) {
		const char *registers = registers_of(all, places[i].index);
		struct walkers *walkers = walkers_on(walks, places[i].cpu);

		walkers->vcpus++;
		if (register_of(registers, "EFER=") & EFER_LMA)
			add_root(walkers, register_of(registers, "CR3=") & ADDRESS,
				 register_of(registers, "CR4=") & CR4_LA57 ? 5 : 4);
		else
			walks->not_64_bit++;
	}
	free(all);
}

/* Pages that one entry of the guest maps from @gfn on: counted by nested leaf tables. */
static void count_pages(const struct walks *walks, struct walkers *walkers, bool local,
			uint64_t gfn, uint64_t pages)
{
	uint64_t node, part;

	for (; pages; pages -= part, gfn += part) {
		enum where where = UNMAPPED;

		part = PER_LEAF_TABLE - gfn % PER_LEAF_TABLE;
		if (part > pages)
			part = pages;
		if (nested_leaf_node(&walks->nested, walkers->domain, gfn, &node))
			where = local ? node == walkers->node ? LOCAL_LOCAL : LOCAL_REMOTE :
					node == walkers->node ? REMOTE_LOCAL : REMOTE_REMOTE;
		walkers->pages[where] += part;
	}
}

/* The page table of @level (1: small pages) whose first entry is for the virtual address @start */
static void count_table(const struct walks *walks, struct walkers *walkers, uint64_t table,
			unsigned int level, uint64_t start, unsigned int entries)
{
	uint64_t size = 1ULL << (PAGE_BITS + LEVEL_BITS * (level - 1)), node = 0;
	uint64_t entry[GUEST_ENTRIES], next, from, end;
	bool asked = false, local = false;

	if (!guest_read_table(table, entry))
		return;
	for (unsigned int i = 0; i < entries && !qmp_interrupted(); i++, start += size) {
		if (!(entry[i] & PRESENT) || start + size <= walks->start || start >= walks->end)
			continue;
		next = entry[i] & ADDRESS;
		if (level > HUGE_LEVELS || (level > 1 && !(entry[i] & HUGE_PAGE))) {
			count_table(walks, walkers, next, level - 1, start, GUEST_ENTRIES);
			continue;
		}
		if (!asked)
			local = guest_page_node(table, &node) && node == walkers->node;
		asked = true;
		from = start < walks->start ? walks->start - start : 0;
		end = walks->end - start < size ? walks->end - start : size;
		count_pages(walks, walkers, local, ((next & ~(size - 1)) + from) >> PAGE_BITS,
			    (end - from) >> PAGE_BITS);
	}
}

static void count(struct walks *walks)
{
	for (size_t i = 0; i < walks->count; i++) {
		struct walkers *walkers = &walks->walkers[i];
		const struct root *root = walkers->root;

		/* The upper half of the first table is for the guest's kernel. */
		for (size_t j = 0; j < walkers->roots; j++, root++)
			count_table(walks, walkers, root->table, root->levels, 0,
				    GUEST_ENTRIES / 2);
	}
}

static uint64_t sum(const struct walkers *walkers)
{
	uint64_t pages = 0;

	for (int where = 0; where < WHERES; where++)
		pages += walkers->pages[where];
	return pages;
}

static void json_walks(pid_t pid, const char *name, const struct walks *walks)
{
	json_open_object(NULL);
	json_number("pid", pid);
	json_string("comm", name);
	json_number("vcpus_not_64_bit", walks->not_64_bit);
	json_open_list("per_domain");
	for (size_t i = 0; i < walks->count; i++) {
		const struct walkers *walkers = &walks->walkers[i];

		if (!walkers->vcpus)
			continue;
		json_open_object(NULL);
		json_number("domain", walkers->domain);
		json_number("node", walkers->node);
		json_number("vcpus", walkers->vcpus);
		json_number("page_tables", walkers->roots);
		json_number("pages", sum(walkers));
		for (int where = 0; where < WHERES; where++)
			json_number(where_keys[where], walkers->pages[where]);
		json_close_object();
	}
	json_close_list();
	json_close_object();
}

static void print_walks(pid_t pid, const char *name, const struct walks *walks)
{
	print_process_name(pid, name);
	printf("\n\n%6s %4s %5s %10s %12s %12s %12s %13s %9s\n", "DOMAIN", "NODE", "VCPUS", "PAGES", "LOCAL-LOCAL",
	       "LOCAL-REMOTE", "REMOTE-LOCAL", "REMOTE-REMOTE", "UNMAPPED");
	for (size_t i = 0; i < walks->count; i++) {
		static const int width[WHERES] = { 12, 12, 12, 13, 9 };
		const struct walkers *walkers = &walks->walkers[i];
		uint64_t pages = sum(walkers);

		if (!walkers->vcpus)
			continue;
		printf("%6" PRIu64 " %4" PRIu64 " %5" PRIu64 " %10" PRIu64, walkers->domain, walkers->node, walkers->vcpus, pages);
		for (int where = 0; where < WHERES; where++) {
			if (pages)
				printf(" %*.1f %%", width[where] - 2, 100.0 * walkers->pages[where] / pages);
			else
				printf(" %*s", width[where], "-");
		}
		putchar('\n');
	}
	if (walks->not_64_bit)
		printf("\n%u virtual CPUs are not in 64-bit mode and were left out.\n", walks->not_64_bit);
}

static void walks_free(struct walks *walks)
{
	for (size_t i = 0; i < walks->count; i++)
		free(walks->walkers[i].root);
	free(walks->walkers);
	records_free(&walks->domains);
	nested_map_free(&walks->nested);
	vms_free(&walks->tables);
	vms_free(&walks->maps);
}

int command_walks(int argc, char **argv)
{
	struct options options = { .end = LAST };
	struct walks walks = { 0 };
	struct place *places;
	size_t vcpus;
	char *name;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	kernel_require(EXIT_ERROR);
	name = process_name(options.view.pid);
	load_domains(&walks, options.view.pid);
	walks.start = options.start;
	walks.end = options.end;
	qmp_open(options.monitor);
	guest_memory_of(options.view.pid);
	places = load_places(options.view.pid, &vcpus);
	if (options.stop)
		qmp_stop();
	load_roots(&walks, places, vcpus);
	load_nested(&walks, options.view.pid);
	count(&walks);
	qmp_go_on();
	if (options.view.json)
		json_walks(options.view.pid, name, &walks);
	else
		print_walks(options.view.pid, name, &walks);
	free(name);
	free(places);
	walks_free(&walks);
	return 0;
}
