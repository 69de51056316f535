// SPDX-License-Identifier: GPL-2.0-only
#include "process.h"

#include <argp.h>
#include <ctype.h>
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "json.h"
#include "kernel.h"
#include "settings.h"

#define STAT_PARENT 4
#define STAT_START 22
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))

/* What a process with the domains "auto" has besides; the third list: may be negative. */
static const char *const auto_texts[] = { "auto", "why" };
static const char *const auto_numbers[] = { "tries", "rent_us", "price_us", "rent_ppm" };
static const char *const auto_integers[] = { "gain_ppm", "balance_us", "purse_us" };

/* The first key of them that is missing, or has no number; NULL: none */
static const char *missing_of_auto(const struct records *records)
{
	const char *value;
	uint64_t number;
	int64_t integer;

	for (size_t i = 0; i < ARRAY_SIZE(auto_texts); i++)
		if (!records_get(records, auto_texts[i]))
			return auto_texts[i];
	for (size_t i = 0; i < ARRAY_SIZE(auto_numbers); i++) {
		value = records_get(records, auto_numbers[i]);
		if (!value || !parse_u64(value, &number))
			return auto_numbers[i];
	}
	for (size_t i = 0; i < ARRAY_SIZE(auto_integers); i++) {
		value = records_get(records, auto_integers[i]);
		if (!value || !parse_s64(value, &integer))
			return auto_integers[i];
	}
	return NULL;
}

/* Older kernels lack these. */
static bool may_be_missing(const char *key)
{
	return !strcmp(key, "count") || !strcmp(key, "barriers") || !strcmp(key, counter_keys[ACROSS]) ||
	       !strncmp(key, "ended_", strlen("ended_"));
}

/*
 * Every documented key must be present, and further keys may be. Returns the first key
 * that is missing, or has no number. Older kernels lack some: where they are, they have numbers, too.
 */
static const char *missing(const struct records *records)
{
	static const char *const texts[] = { "policy", "domains", "replication", "filter" };
	static const char *const numbers[] = { "prefetch", "active", "split" };
	uint64_t number;

	for (size_t i = 0; i < records->count; i++) {
		const char *key = records->record[i].pair[0].key;

		if (records->record[i].count == 1 && may_be_missing(key) &&
		    !parse_u64(records->record[i].pair[0].value, &number))
			return key;
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (!records_get(records, texts[i]))
			return texts[i];
	if (!strcmp(records_get(records, "domains"), "auto") && missing_of_auto(records))
		return missing_of_auto(records);
	for (size_t i = 0; i < ARRAY_SIZE(numbers) + COUNTERS; i++) {
		const char *key = i < ARRAY_SIZE(numbers) ? numbers[i] : counter_keys[i - ARRAY_SIZE(numbers)];
		const char *value = records_get(records, key);

		if ((!value || !parse_u64(value, &number)) && key != counter_keys[ACROSS])
			return key;
	}
	return NULL;
}

/* The kernel says "custom" where --policy has a name for the same settings. */
static void name_policy(struct records *records)
{
	struct hydra_settings settings;
	const char *name;

	if (strcmp(records_get(records, "policy"), "custom") ||
	    !settings_from_records(&settings, records))
		return;
	name = policy_name(&settings);
	for (size_t i = 0; name && i < records->count; i++)
		if (!strcmp(records->record[i].pair[0].key, "policy"))
			records->record[i].pair[0].value = name;
}

void process_free(struct process *process)
{
	free(process->name);
	records_free(&process->records);
}

const char *process_parse(struct process *process, pid_t pid, char *name, char *text)
{
	const char *gap;

	*process = (struct process){ .pid = pid, .name = name };
	gap = records_parse(&process->records, text, NULL) ? missing(&process->records) : strerror(errno);
	if (gap)
		process_free(process);
	else
		name_policy(&process->records);
	return gap;
}

const char *process_load(struct process *process, pid_t pid, char *text)
{
	return process_parse(process, pid, process_name(pid), text);
}

const char *process_text(const struct process *process, const char *key)
{
	return records_get(&process->records, key);
}

uint64_t process_number(const struct process *process, const char *key)
{
	const char *text = process_text(process, key);
	uint64_t number = 0;

	if (text)
		parse_u64(text, &number);
	return number;
}

int64_t process_integer(const struct process *process, const char *key)
{
	const char *text = process_text(process, key);
	int64_t integer = 0;

	if (text)
		parse_s64(text, &integer);
	return integer;
}

bool process_active(const struct process *process)
{
	return process_number(process, "active");
}

bool process_is_auto(const struct process *process)
{
	return !strcmp(process_text(process, "domains"), "auto");
}

bool process_under_hydra(const struct process *process)
{
	return process_active(process) && !(process_is_auto(process) && !strcmp(process_text(process, "auto"), "plain"));
}

const struct record *process_domain(const struct process *process, size_t *next)
{
	const struct records *records = &process->records;

	while (*next < records->count) {
		const struct record *record = &records->record[(*next)++];

		if (record->count > 1 && !strcmp(record->pair[0].key, "domain"))
			return record;
	}
	return NULL;
}

void json_value(const char *key, const char *value)
{
	uint64_t number;
	int64_t integer;

	if (parse_u64(value, &number))
		json_number(key, number);
	else if (parse_s64(value, &integer))
		json_integer(key, integer);
	else
		json_string(key, value);
}

void json_pairs(const struct record *record)
{
	for (size_t i = 0; i < record->count; i++)
		json_value(record->pair[i].key, record->pair[i].value);
}

void json_open_process(pid_t pid, const char *name)
{
	json_open_object(NULL);
	json_number("pid", pid);
	json_string("comm", name);
}

void json_process(const struct process *process, const char *split)
{
	const struct records *records = &process->records;
	const struct record *domain;

	json_open_process(process->pid, process->name);
	for (size_t i = 0; i < records->count; i++)
		if (records->record[i].count == 1)
			json_pairs(&records->record[i]);
	json_string("split_state", split);
	json_open_list("per_domain");
	for (size_t next = 0; (domain = process_domain(process, &next)); ) {
		json_open_object(NULL);
		json_pairs(domain);
		json_close();
	}
	json_close();
	json_close();
}

void processes_load(struct processes *processes, const pid_t *pids, size_t count,
		    bool (*wanted)(const struct process *process))
{
	*processes = (struct processes){ 0 };
	/* One more than can be needed: calloc(0) may be NULL. */
	processes->process = must_have(calloc(count + 1, sizeof(*processes->process)));
	for (size_t i = 0; i < count; i++) {
		struct process *process = &processes->process[processes->count];
		char *text = process_file(pids[i], "hydra");

		if (!text) {
			/* Else gone meanwhile, or a kernel thread: nothing to show. */
			if (errno == EACCES || errno == EPERM)
				processes->unreadable++;
			continue;
		}
		if (process_load(process, pids[i], text))
			processes->not_understood++;
		else if (!wanted || wanted(process))
			processes->count++;
		else
			process_free(process);
	}
}

void processes_free(struct processes *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		process_free(&processes->process[i]);
	free(processes->process);
	*processes = (struct processes){ 0 };
}

static int compare_pids(const void *a, const void *b)
{
	return ((const struct process *)a)->pid - ((const struct process *)b)->pid;
}

const struct process *processes_find(const struct processes *processes, pid_t pid)
{
	const struct process key = { .pid = pid };

	if (!processes->count)
		return NULL;
	return bsearch(&key, processes->process, processes->count, sizeof(key), compare_pids);
}

void processes_say_left_out(const struct processes *processes)
{
	if (processes->unreadable)
		error(0, 0, "%u process%s left out: not permitted to read (be root)",
		      processes->unreadable, plural_es(processes->unreadable));
	if (processes->not_understood)
		error(0, 0, "%u process%s left out: cannot make sense of what the kernel says there: is hydractl of the same version as the kernel?",
		      processes->not_understood, plural_es(processes->not_understood));
}

static int is_process(const struct dirent *entry)
{
	return isdigit((unsigned char)*entry->d_name);
}

pid_t *all_pids(size_t *count)
{
	struct dirent **entries;
	int found = scandir(kernel_proc(), &entries, is_process, versionsort);
	pid_t *pids;

	if (found < 0) {
		error(argp_err_exit_status, errno, "cannot list %s", kernel_proc());
		abort();
	}
	pids = must_have(calloc(found + 1, sizeof(*pids)));
	for (int i = 0; i < found; i++) {
		pids[i] = atoi(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	*count = found;
	return pids;
}

uint64_t stat_field(const char *text, unsigned int field)
{
	/* "12 (name) S 1 ...": the name may be any bytes. */
	const char *end = strrchr(text, ')');

	for (unsigned int at = 2; end && at < field; at++) {
		end = strchr(end, ' ');
		end = end ? end + 1 : NULL;
	}
	return end ? strtoull(end, NULL, 10) : 0;
}

uint64_t ticks_since_boot(void)
{
	struct timespec time;
	long second = sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &time);
	return time.tv_sec * second + time.tv_nsec / (1000000000 / second);
}

uint64_t born(pid_t pid)
{
	autofree char *text = process_file(pid, "stat");

	return text ? stat_field(text, STAT_START) : 0;
}

pid_t parent_of(pid_t pid)
{
	autofree char *text = process_file(pid, "stat");

	return text ? stat_field(text, STAT_PARENT) : 0;
}

char *vms_failure(pid_t pid, const char *doing)
{
	int saved = errno;
	autofree char *of_vms = process_path(pid, "hydra_vm"), *of_process = process_path(pid, "hydra");

	if (saved == ENOENT && !access(of_vms, F_OK))
		return xasprintf("process %d has no virtual machine", pid);
	if (saved == ENOENT && !access(of_process, F_OK))
		return must_have(strdup("the kernel has no Hydra for virtual machines (CONFIG_KVM_HYDRA)"));
	errno = saved;
	return process_failure(pid, doing);
}

static void add_line(struct vm_lines *vm, char *text)
{
	char *space = strchr(text, ' ');

	if (space)
		*space = '\0';
	vm->line = must_have(realloc(vm->line, (vm->count + 1) * sizeof(*vm->line)));
	vm->line[vm->count].key = text;
	vm->line[vm->count++].rest = space ? space + 1 : "";
}

bool vms_load(struct vms *vms, pid_t pid, const char *file)
{
	char *save, *line;

	*vms = (struct vms){ .text = process_file(pid, file) };
	if (!vms->text) {
		/* A process without one has an empty file. */
		if (errno == ENODATA)
			errno = ENOENT;
		return false;
	}
	for (line = strtok_r(vms->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, "vm ", strlen("vm "))) {
			vms->vm = must_have(realloc(vms->vm, (vms->count + 1) * sizeof(*vms->vm)));
			vms->vm[vms->count++] = (struct vm_lines){ 0 };
		} else if (!vms->count) {
			process_unexpected(pid, file, "a line before the first vm");
		} else {
			add_line(&vms->vm[vms->count - 1], line);
		}
	}
	return true;
}

void vms_read(struct vms *vms, pid_t pid, const char *file)
{
	if (!vms_load(vms, pid, file))
		error(EXIT_ERROR, 0, "%s", vms_failure(pid, "read"));
}

void vms_free(struct vms *vms)
{
	for (size_t i = 0; i < vms->count; i++)
		free(vms->vm[i].line);
	free(vms->vm);
	free(vms->text);
}

const char *vm_text(const struct vm_lines *vm, const char *key)
{
	for (size_t i = 0; i < vm->count; i++)
		if (!strcmp(vm->line[i].key, key))
			return vm->line[i].rest;
	return NULL;
}
