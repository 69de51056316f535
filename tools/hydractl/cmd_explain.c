// SPDX-License-Identifier: GPL-2.0-only
/* hydractl explain: watch processes for a while, then say what Hydra would do for them. */
#include <math.h>
#include <signal.h>

#include "subjects.h"
#include "commands.h"

static double seconds = 10;
static bool look_at_tables, look_at_locks;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 's':
		seconds = parse_seconds(state, "time", arg);
		return 0;
	case 't':
		look_at_tables = true;
		return 0;
	case 'x':
		look_at_locks = true;
		return 0;
	case ARGP_KEY_END:
		if (!options.pid && options.group.kind == GROUP_NONE)
			argp_error(state, "no process named: give a PID, --tree, --cgroup, --unit or --all");
		return 0;
	case ARGP_KEY_SUCCESS:
		if (look_at_locks && (!options.pid || look_at_tables))
			argp_error(state, "--locks takes one PID, and not --tables");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option explain_options[] = {
	{ "seconds", 's', "SECONDS", 0, "How long to watch; 10, unless given", 0 },
	{ "locks", 'x', NULL, 0, "Instead, count which system calls of one process take its mmap_lock, by the kernel's trace events: see below", 0 },
	{ "tables", 't', NULL, 0, "Look at the page tables of several processes, too: each waits meanwhile, as of 'hydractl tables'. For a single PID, and for processes on one node with 1 MiB of page tables, hydractl always does", 0 },
	{ 0 }
};

static const struct argp_child children[] = {
	{ .argp = &view_argp },
	{ .argp = &group_all_argp, .header = "Instead of a PID, several processes:" },
	{ 0 }
};

static const struct argp argp = {
	.options = explain_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "[PID]",
	.doc = "Watch processes for a while, then say what Hydra would do for them. No policy is changed: the kernel counts the TLB flushes of the processes, and each takes a few instructions more meanwhile. Ctrl-C ends the watch, and shows what was seen until then.\n"
	       "\n"
	       "SENT/S: interrupts for TLB shootdowns per second, one for each CPU. ACROSS/S: of these, to CPUs of another node than the flushing CPU: the most that page tables for each node can save. SAVES: that in percent of the CPU time, by the kernel's prices (/sys/kernel/mm/hydra/auto/); under a policy that has split the process, what it saves less what it costs. NODES: where the threads ran last. TABLE-KIB: the page tables. COST-KIB: what Hydra's page tables would take at most, (nodes - 1) x TABLE-KIB + nodes x 20 KiB; under a policy, what they take.\n"
	       "\n"
	       "ADVICE, the first that applies: decided: policy auto has decided, as 'hydractl why' says. keep: another policy saves 0.2 % of the CPU time or more. auto: policy auto would split the process. cores: interrupts within nodes cost 0.2 % or more, and only --policy abis or radixvm might help. moved: the process runs on one node, and left its page tables on others (1 MiB or more, with half of the pages or more), from which a policy moves them. one-node: it runs on one node, and a policy costs nothing. not-split: the policy does nothing yet. walks: few interrupts, but 2 MiB of page tables or more, which threads on several nodes read. off: a policy saves too little. small: less than 0.2 % to save. quiet: nothing to save.\v"
	       "For example:\n"
	       "  hydractl explain 1234\n"
	       "  hydractl explain --unit mysql --seconds 60\n"
	       "  hydractl explain --locks 1234\n"
	       "\n"
	       "--locks needs root, and no Hydra. READ, WRITE: acquisitions of mmap_lock by the process's threads, and by children that vfork() has started. FITS: those for writing by calls that a kernel could do under a finer lock, in a region: mmap() without an address (or MAP_FIXED in a region), of private anonymous memory that grants nothing or read and write, of at most 16 GiB, but not from 2 MiB on where huge pages are 'always' and MAP_STACK is not given; munmap() of it; mprotect() to read and write, or from nothing to nothing. No kernel has regions yet. Not seen: MCL_FUTURE, READ_IMPLIES_EXEC, and pages without entries, from which mprotect() may take the grant. WAITS, WAITED-US: of 10 us or more. Meanwhile each system call of the machine takes longer, and each lock of the process. After SIGKILL the trace stays: rmdir /sys/kernel/tracing/instances/hydractl-*\n"
	       "\n"
	       "Not seen: what makes policy auto leave a process alone, such as mlockall(); and a program that uses mprotect() or munmap() as a memory barrier for all threads must not run under Hydra, however much it would gain. See 'Programs that rely on the interrupts' in docs/hydractl.md.\n"
	       "\n"
	       "Exit status: 0 done, also if some of the processes have ended meanwhile; 2 an error, or no process that can be counted; 3 all processes have ended, or the cgroup or unit has gone.",
};

/* Returns the signal that ended the watch, 0 if the time is up. */
static int wait_for(size_t count, const sigset_t *signals)
{
	int columns = terminal_columns(STDERR_FILENO), signal = 0;
	double end = now() + seconds, left;

	while (signal <= 0 && (left = end - now()) > 0) {
		const double most = columns && left > 1 ? 1 : left;
		const struct timespec wait = { .tv_sec = most, .tv_nsec = (most - (time_t)most) * 1e9 };
		autofree char *text = xasprintf("%.0f s left, %zu process%s", ceil(left), count, plural_es(count));

		/* Over the line before */
		if (columns)
			fprintf(stderr, "\r%-*.*s\r", columns - 1, columns - 1, text);
		signal = sigtimedwait(signals, NULL, &wait);
	}
	if (columns)
		fprintf(stderr, "\r%*s\r", columns - 1, "");
	return signal > 0 ? signal : 0;
}

static const struct column columns[] = {
	{ .head = "PID", 7, 0 }, { .head = "COMMAND", -15, 4 }, { .head = "POLICY", -7, 9 },
	{ .head = "THREADS", 7, 11 }, { .head = "NODES", -7, 5 }, { .head = "FLUSH/S", 8, 7 },
	{ .head = "SENT/S", 8, 6 }, { .head = "ACROSS/S", 8, 3 }, { .head = "SAVES", 8, 2 },
	{ .head = "TABLE-KIB", 9, 10 }, { .head = "COST-KIB", 9, 8 }, { .head = "ADVICE", -8, 1, .ragged = true },
};

/* The memory that Hydra's page tables would take at most, or take. */
static uint64_t cost_kib(const struct subject *seen)
{
	return seen->active ? seen->hydra_kib : most_kib(seen);
}

static void print_row(struct table *table, const struct subject *seen)
{
	autofree char *name = printable(seen->name), *nodes = thread_nodes_list(&seen->nodes);
	double percent = (int64_t)saving_ppm(seen) / 1e4;
	char rate[RATE_SIZE];

	table_cell(table, "%d", seen->pid);
	table_cell(table, "%s", name);
	table_cell(table, "%s", seen->policy);
	table_cell(table, "%" PRIu64, seen->nodes.threads);
	table_cell(table, "%s", nodes);
	table_cell(table, "%s", rate_text(rate, seen->flushes));
	table_cell(table, "%s", rate_text(rate, seen->sent));
	table_cell(table, "%s", rate_text(rate, seen->across));
	table_cell(table, fabs(percent) < 9.95 ? "%.2g%%" : "%.0f%%", percent);
	table_cell(table, "%" PRIu64, seen->table_kib);
	table_cell(table, "%" PRIu64, cost_kib(seen));
	table_cell(table, "%s", advice_words[advice_for(seen)]);
}

static bool has_something_to_gain(const struct subject *seen)
{
	enum advice advice = advice_for(seen);

	return advice != ADVICE_ONE_NODE && advice != ADVICE_QUIET && advice != ADVICE_SMALL && advice != ADVICE_DECIDED;
}

/* The highest rate to other nodes first, then of all interrupts, then of flushes; then by PID. */
static int compare_subjects(const void *a, const void *b)
{
	const struct subject *one = a, *other = b;

	if (one->across != other->across)
		return one->across > other->across ? -1 : 1;
	if (one->sent != other->sent)
		return one->sent > other->sent ? -1 : 1;
	if (one->flushes != other->flushes)
		return one->flushes > other->flushes ? -1 : 1;
	return one->pid - other->pid;
}

static void print_tables(const struct leaf_tables *tables, size_t wide)
{
	for (size_t i = 0; i < tables->node_count; i++)
		print_wrapped(2, wide, "page tables on node %" PRIu64 ": %" PRIu64 " KiB", tables->node[i].node, tables->node[i].kib);
	for (size_t i = 0; i < tables->domain_count; i++) {
		double share = local_leaf_share(&tables->domain[i]);

		if (!isnan(share))
			print_wrapped(2, wide, "CPUs of node %" PRIu64 " reach %.1f %% of the pages through page tables of their node",
				      tables->domain[i].node, 100 * share);
	}
}

/* All that is known of one process. */
static void print_subject(const struct subject *seen, size_t wide)
{
	autofree char *name = printable(seen->name), *sentence = advice_sentence(seen);

	print_wrapped(0, wide, "process %d (%s), policy %s, watched for %.1f s", seen->pid, name, seen->policy, seen->seconds);
	putchar('\n');
	print_wrapped(0, wide, "%s", sentence);
	putchar('\n');
	print_wrapped(2, wide, "%.2f CPUs used", seen->cpus);
	print_wrapped(2, wide, "%.1f TLB flushes/s", seen->flushes);
	print_wrapped(2, wide, "%.1f interrupts sent/s, one for each CPU", seen->sent);
	print_wrapped(2, wide, "%.1f/s of these to CPUs of another node (%.1f %%)", seen->across,
		      seen->sent > 0 ? 100 * seen->across / seen->sent : 0);
	if (seen->active)
		print_wrapped(2, wide, "%.1f interrupts spared/s, which Linux would send besides", seen->spared);
	print_wrapped(2, wide, "%" PRIu64 " thread%s", seen->nodes.threads, plural_s(seen->nodes.threads));
	for (size_t i = 0; i < seen->nodes.count; i++)
		print_wrapped(2, wide, "%zu of them ran last on node %" PRIu64, seen->nodes.node[i].threads,
			      seen->nodes.node[i].node);
	print_wrapped(2, wide, "%" PRIu64 " KiB of page tables%s", seen->table_kib, seen->active ? ", with Hydra's" : "");
	if (seen->active)
		print_wrapped(2, wide, "%" PRIu64 " KiB of them are Hydra's", seen->hydra_kib);
	else if (spans_nodes(seen))
		print_wrapped(2, wide, "%" PRIu64 " KiB more at most with Hydra: (nodes - 1) x page tables + nodes x %d KiB",
			      most_kib(seen), ROOT_KIB);
	print_tables(&seen->tables, wide);
}

static void print_table(const struct subjects *subjects, size_t wide)
{
	struct table table = TABLE(stdout, columns, wide);
	size_t rows = 0, left_out = 0;

	for (size_t i = 0; i < subjects->count; i++) {
		const struct subject *subject = &subjects->subject[i];

		if (subject->ended)
			continue;
		if (!has_something_to_gain(subject) && !(subject->flushes > 0)) {
			left_out++;
			continue;
		}
		if (!rows++)
			table_head(&table);
		print_row(&table, subject);
	}
	if (left_out)
		print_wrapped(0, wide, "%s%zu process%s without a TLB flush, and with nothing to gain",
			      rows ? "and " : "", left_out, plural_es(left_out));
	for (size_t i = 0; i < subjects->count; i++) {
		const struct subject *subject = &subjects->subject[i];
		autofree char *name = printable(subject->name), *sentence = NULL;

		if (subject->ended || !(has_something_to_gain(subject) || look_at_tables))
			continue;
		sentence = advice_sentence(subject);
		putchar('\n');
		print_wrapped(0, wide, "%d (%s): %s", subject->pid, name, sentence);
		print_tables(&subject->tables, wide);
	}
}

static void json_subject(const struct subject *seen)
{
	autofree char *sentence = NULL;

	json_open_process(seen->pid, seen->name);
	json_flag("ended", seen->ended);
	if (seen->ended) {
		json_close();
		return;
	}
	sentence = advice_sentence(seen);
	json_real("seconds", seen->seconds);
	json_string("policy", seen->policy);
	json_flag("active", seen->active);
	json_string("split_state", split_words[seen->split]);
	json_real("cpus", seen->cpus);
	json_real("saving_ppm", saving_ppm(seen));
	json_real("flushes_per_second", seen->flushes);
	json_real("sent_per_second", seen->sent);
	json_real("across_per_second", seen->across);
	json_real("spared_per_second", seen->spared);
	json_number("threads", seen->nodes.threads);
	json_open_list("nodes");
	for (size_t i = 0; i < seen->nodes.count; i++) {
		json_open_object(NULL);
		json_number("node", seen->nodes.node[i].node);
		json_number("threads", seen->nodes.node[i].threads);
		json_close();
	}
	json_close();
	json_flag("spans_nodes", spans_nodes(seen));
	json_number("pagetable_kib", seen->table_kib);
	json_number("cost_kib", cost_kib(seen));
	if (seen->tables.domain_count) {
		json_open_object("tables");
		json_leaf_tables(&seen->tables);
		json_close();
	} else {
		json_string("tables", NULL);
	}
	json_string("advice", advice_words[advice_for(seen)]);
	json_string("sentence", sentence);
	json_close();
}

static void json_subjects(const struct subjects *subjects)
{
	json_open_object(NULL);
	json_string("group", options.group.kind == GROUP_NONE ? "process" : group_kind_name(&options.group));
	json_string("name", options.group.name);
	json_open_rows("processes");
	for (size_t i = 0; i < subjects->count; i++)
		json_subject(&subjects->subject[i]);
	json_close();
	json_number("unreadable", subjects->left_out.unreadable);
	json_number("not_understood", subjects->left_out.not_understood);
	json_close();
}

/* The processes to watch. Exit if there are none. */
static void begin(struct subjects *subjects)
{
	pid_t *pids = &options.pid;
	size_t count = 1;

	if (!options.pid) {
		group_find(&options.group);
		pids = group_list(&options.group, &count);
	}
	subjects_begin(subjects, pids, count, options.pid);
	if (subjects->count)
		return;
	processes_say_left_out(&subjects->left_out);
	error(EXIT_ERROR, 0, "no process can be counted");
}

static bool all_ended(const struct subjects *subjects)
{
	for (size_t i = 0; i < subjects->count; i++)
		if (!subjects->subject[i].ended)
			return false;
	return true;
}

/* Say what was seen. Returns the exit status. */
static int report(const struct subjects *subjects)
{
	size_t wide = terminal_columns(STDOUT_FILENO) ?: SIZE_MAX, count;

	if (options.json)
		json_subjects(subjects);
	if (all_ended(subjects)) {
		if (options.group.path)
			group_list(&options.group, &count);
		error(0, 0, "all processes have ended while they were watched: nothing is left to explain");
		return EXIT_GONE;
	}
	if (options.json)
		return 0;
	if (options.pid)
		print_subject(&subjects->subject[0], wide);
	else
		print_table(subjects, wide);
	for (size_t i = 0; i < subjects->count; i++) {
		autofree char *name = printable(subjects->subject[i].name);

		if (subjects->subject[i].ended)
			print_wrapped(0, wide, "process %d (%s) has ended while it was watched",
				      subjects->subject[i].pid, name);
	}
	putchar('\n');
	print_wrapped(0, wide, "Not seen here: programs that use mprotect() or munmap() as a memory barrier for all threads must not run under Hydra; policy auto guards mprotect() of a single page only (docs/hydractl.md, \"Programs that rely on the interrupts\").");
	return 0;
}

int command_explain(int argc, char **argv)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct subjects subjects;
	int signal, status;
	sigset_t signals, before;
	struct sigaction action;

	options.pid_optional = true;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (look_at_locks)
		return explain_locks(seconds);
	kernel_require();
	/* A signal waits until no process is counted any more. */
	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (!sigaction(ends[i], NULL, &action) && action.sa_handler != SIG_IGN)
			sigaddset(&signals, ends[i]);
	sigprocmask(SIG_BLOCK, &signals, &before);
	begin(&subjects);
	signal = wait_for(subjects.count, &signals);
	subjects_look(&subjects, options.pid || look_at_tables);
	subjects_restore();
	if (signal && signal != SIGINT)
		raise(signal);
	sigprocmask(SIG_SETMASK, &before, NULL);
	qsort(subjects.subject, subjects.count, sizeof(*subjects.subject), compare_subjects);
	status = report(&subjects);
	processes_say_left_out(&subjects.left_out);
	return status;
}
