// SPDX-License-Identifier: GPL-2.0-only
#include "watch.h"

#if !__has_include(<curses.h>)
#error "hydractl needs ncurses: install the package libncurses-dev"
#endif

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "options.h"
#include "why.h"

#define LINES_LEAST 8

enum page { PAGE_TABLE, PAGE_PROCESS, PAGE_HELP };

static struct watch *watch;
static enum page page;
static pid_t chosen;		/* 0: the first row */
static size_t first_row;	/* of the table that is seen */
static size_t first_line;	/* of the other pages */
static bool asks_policy, done;
static char *message;		/* for the last line, or NULL */

static const char help[] =
	"Up Down PgUp PgDn Home End   choose a process\n"
	"Enter, i    inspect the process; again: back\n"
	"p           switch the policy of the process\n"
	"< >         sort by the column to the left or right (*)\n"
	"a           all processes, or those under Hydra\n"
	"Space       look now; of a recording, and Right: the next look\n"
	"Left        of a recording: the look before\n"
	"[ ] { }     of a recording: a minute back, on; an hour\n"
	"?, h        this help; again: back\n"
	"q, Ctrl-C   end\n"
	"\n"
	"SENT/S      interrupts sent per second, one for each CPU\n"
	"SPARED/S    interrupts saved per second\n"
	"FILLS/S     faults that copied entries for a node\n"
	"FLUSH/S     TLB flushes\n"
	"REP-KIB     memory of the replica tables now\n"
	"AUTO, WHY   what the kernel has decided under policy auto, and why\n";

static volatile sig_atomic_t signal_seen;
static bool hung_up;

static void note_signal(int signal)
{
	signal_seen = signal;
}

static void terminal_close(void)
{
	if (!isendwin())
		endwin();
}

/* error() calls this before its message, which would be lost on a screen. */
static void close_and_print_name(void)
{
	terminal_close();
	fprintf(stderr, "%s: ", program_invocation_name);
}

/* Names are UTF-8, whatever the user's language. */
static void use_utf8(void)
{
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8"))
		setlocale(LC_CTYPE, "C.UTF-8");
}

/* Take the terminal; exit with a message if it cannot be drawn on. However hydractl ends, the terminal is given back as it was. */
static void terminal_open(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = note_signal };
	const char *kind = getenv("TERM");

	use_utf8();
	if (!newterm(NULL, stdout, stdin))
		error(EXIT_ERROR, 0, "unknown type of terminal '%s' (TERM): use --batch or --json", kind ?: "");
	error_print_progname = close_and_print_name;
	atexit(terminal_close);
	if (!tigetstr("cup"))
		error(EXIT_ERROR, 0, "a terminal of type '%s' (TERM) cannot move its cursor: use --batch or --json",
		      kind ?: "");
	/* Without SA_RESTART, so that a wait for keys ends. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, true);
	set_escdelay(50);
	timeout(0);
	curs_set(0);
}

/*
 * Wait for a key, until the time is up or a signal comes. Returns the key as of curses(3),
 * or ERR.
 */
static int terminal_key(double seconds)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int key = getch();

	if (key != ERR || signal_seen)
		return key;
	poll(&input, 1, seconds > 0 ? seconds * 1000 + 1 : 0);
	hung_up = input.revents & (POLLHUP | POLLERR | POLLNVAL);
	return getch();
}

/* Has the user pressed Ctrl-C, or has the terminal gone? */
static bool terminal_ended(void)
{
	if (signal_seen && signal_seen != SIGINT) {
		terminal_close();
		signal(signal_seen, SIG_DFL);
		raise(signal_seen);
	}
	return signal_seen || hung_up;
}

static void say(char *text)
{
	free(message);
	message = text;
}

static size_t chosen_row(void)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->row[i].process->pid == chosen)
			return i;
	return 0;
}

/* Draw @text in one line, cut off at the right. Returns the next line. */
static int draw_line(int y, const char *text)
{
	if (y < LINES)
		mvaddnstr(y, 0, text, width(COLS, text));
	return y + 1;
}

/* Draw @text in as many lines as needed, broken at spaces. Returns the next line. */
static int draw_words(int y, const char *text)
{
	while (*text && y < LINES) {
		size_t length = strlen(text), most = COLS;

		if (length > most) {
			for (length = most; length && text[length] != ' '; length--)
				;
			length = length ?: most;
		}
		mvaddnstr(y++, 0, text, length);
		text += length;
		text += strspn(text, " ");
	}
	return y;
}

static int lines_of_words(const char *text)
{
	return COLS > 0 ? strlen(text) / COLS + 1 : 1;
}

static bool too_small(void)
{
	return COLS < WATCH_LEAST_COLUMNS || LINES < LINES_LEAST;
}

static void draw_too_small(void)
{
	autofree char *text = xasprintf("Terminal too small: %dx%d. Needed: %dx%d. Widen it, or use --batch. q: quit.",
					COLS, LINES, WATCH_LEAST_COLUMNS, LINES_LEAST);

	draw_words(0, text);
}

/* What all processes do, and each node, in at most a third of the lines. */
static int draw_totals(void)
{
	const struct counters *total = &watch->total;
	char sent[RATE_SIZE], spared[RATE_SIZE], fills[RATE_SIZE], clock[32];
	double both = total->rate[INTERRUPTED] + total->rate[SPARED];
	autofree char *title = group_title(&options.group), *heading, *rates;
	time_t seconds = watch->time;
	int y = 0, x = 0;

	strftime(clock, sizeof(clock), watch->go ? "%F %T" : "%T", localtime(&seconds));
	heading = xasprintf("%s%s  %zu process%s%s of %s%s", clock, watch->where ?: "", watch->count, plural_es(watch->count),
			    watch->all ? "" : " under Hydra", title,
			    watch->after.unreadable ? " (not all readable: be root)" : "");
	rates = xasprintf("sent %s/s  spared %s/s (%.0f%%)  fills %s/s  replicas %" PRIu64 " KiB",
			  rate_text(sent, total->rate[INTERRUPTED]), rate_text(spared, total->rate[SPARED]),
			  both > 0 ? 100 * total->rate[SPARED] / both : 0,
			  rate_text(fills, total->rate[FILLS]), total->number[REPLICA_KIB]);
	y = draw_line(draw_line(y, heading), rates);
	for (size_t i = 0; i < total->node_count; i++) {
		const struct node_counters *node = &total->node[i];
		autofree char *text = xasprintf("node %" PRIu64 ": %s fills/s, %" PRIu64 " KiB", node->node,
						rate_text(fills, node->fill_rate), node->number[NODE_REPLICA_KIB]);

		if (x && x + (int)strlen(text) > COLS) {
			x = 0;
			y++;
		}
		if (y >= LINES / 3)
			return draw_line(y, "...");
		mvaddnstr(y, x, text, COLS - x);
		x += strlen(text) + 3;
	}
	return y + !!total->node_count;
}

/* The head and @count rows, to be freed. */
static char *table_text(size_t first, size_t count)
{
	char *text;
	size_t size;
	FILE *out = must_have(open_memstream(&text, &size));
	struct table table = watch_table(out, COLS);

	watch_head(&table, watch->order);
	for (size_t i = first; i < watch->count && i < first + count; i++)
		watch_row(&table, &watch->row[i]);
	must_have(fclose(out) ? NULL : text);
	return text;
}

static void draw_table(int y, int end)
{
	size_t row = chosen_row(), room = end > y + 1 ? end - y - 1 : 0;
	autofree char *text = NULL;
	char *rest;

	if (row < first_row)
		first_row = row;
	if (room && row >= first_row + room)
		first_row = row - room + 1;
	rest = text = table_text(first_row, room);
	attron(A_BOLD);
	y = draw_line(y, strsep(&rest, "\n"));
	attroff(A_BOLD);
	if (!watch->count)
		draw_words(y, watch->all ? "no process" :
			   "No process runs under Hydra: start one with 'hydractl run', or press a for all processes.");
	for (size_t i = first_row; *rest; i++) {
		if (i == row)
			attron(A_REVERSE);
		y = draw_line(y, strsep(&rest, "\n"));
		attroff(A_REVERSE);
	}
}

/* As many of the lines as fit, from the first that is seen on */
static void draw_lines(const char *text, int end)
{
	autofree char *copy = must_have(strdup(text));
	char *rest = copy;
	size_t count = 0, room = end > 0 ? end : 0;

	for (const char *at = text; *at; at++)
		count += *at == '\n';
	if (first_line + room > count)
		first_line = count > room ? count - room : 0;
	for (size_t i = 0; i < count && i < first_line + room; i++) {
		const char *line = strsep(&rest, "\n");

		if (i >= first_line)
			draw_line(i - first_line, line);
	}
}

/* The documented counters, and per second those which grow only */
static void write_counters(FILE *out, const struct process *process, const struct counters *counters)
{
	static const char *const others[] = { "forgotten", "barriers" };
	char rate[RATE_SIZE];

	for (enum counter i = 0; i < COUNTERS; i++) {
		if (!process_text(process, counter_keys[i]))
			continue;
		fprintf(out, "%-23s %12" PRIu64, counter_keys[i], counters->number[i]);
		if (i < GROWING)
			fprintf(out, " %9s/s", rate_text(rate, counters->rate[i]));
		fputc('\n', out);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (process_text(process, others[i]))
			fprintf(out, "%-23s %12s\n", others[i], process_text(process, others[i]));
}

static void write_domains(FILE *out, const struct process *process)
{
	static const struct column of_domains[] = {
		{ .head = "DOMAIN", 6 }, { .head = "NODE", 4 }, { .head = "ROOT", -9 }, { .head = "FILLS", 8 },
		{ .head = "REP-KIB", 8 }, { .head = "REPLICAS", 8 }, { .head = "UPPER", 8 }, { .head = "FORGOTTEN", 9 },
	};
	static const char *const keys[] = {
		"domain", "node", "root", "fills", "replica_kib", "replica_tables", "upper_tables", "forgotten",
	};
	struct table table = TABLE(out, of_domains, SIZE_MAX);
	const struct record *domain;

	if (process_number(process, "split"))
		table_head(&table);
	for (size_t next = 0; (domain = process_domain(process, &next)); )
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			table_cell(&table, "%s", record_get(domain, keys[i]) ?: "-");
}

/* The sentence, in lines of the screen */
static void write_why(FILE *out, const struct process *process)
{
	autofree char *why = why_sentence(process), *text = xasprintf("%s: %s", process_text(process, "auto"), why);

	write_wrapped(out, 0, COLS, text);
}

/* All that is known of the process, to be freed */
static char *details(const struct row *row)
{
	const struct process *process = row->process;
	autofree char *name = printable(process->name);
	char *text;
	size_t size;
	FILE *out = must_have(open_memstream(&text, &size));

	fprintf(out, "process %d (%s)%s\n", process->pid, name, process_active(process) ? "" : ": not under Hydra");
	fprintf(out, "policy %s: domains=%s,replication=%s,\n", process_text(process, "policy"),
		process_text(process, "domains"), process_text(process, "replication"));
	fprintf(out, "  prefetch=%s,filter=%s\n", process_text(process, "prefetch"), process_text(process, "filter"));
	if (process_is_auto(process))
		write_why(out, process);
	else
		fprintf(out, "%s\n", process_number(process, "split") ? "threads run on several nodes" :
			"threads have run on one node only");
	write_counters(out, process, &row->counters);
	write_domains(out, process);
	must_have(fclose(out) ? NULL : text);
	return text;
}

static void draw_process(int end)
{
	const struct row *row = &watch->row[chosen_row()];
	autofree char *text = NULL;

	if (!watch->count || row->process->pid != chosen) {
		draw_words(0, "This process has ended. Enter: back.");
		return;
	}
	text = details(row);
	draw_lines(text, end);
}

static void draw(void)
{
	const char *last = message ?: watch->go ? "q quit  ? help  Left Right [ ] { } time  < > sort  Enter inspect  a all" :
			   "q quit  ? help  < > sort  p policy  Enter inspect  a all";
	int end = LINES - lines_of_words(last);

	erase();
	if (too_small()) {
		draw_too_small();
		refresh();
		return;
	}
	if (page == PAGE_TABLE)
		draw_table(draw_totals(), end);
	else if (page == PAGE_PROCESS)
		draw_process(end);
	else
		draw_lines(help, end);
	attron(message ? A_BOLD : A_DIM);
	draw_words(end, last);
	attroff(A_BOLD | A_DIM);
	refresh();
}

/* Of a recording: the next look, or go @by seconds. */
static void go(long by)
{
	if (watch->go)
		watch->go(watch, by >= 0, labs(by));
}

static void go_back(long by)
{
	(void)by;
	if (watch->go)
		watch->go(watch, false, 0);
}

static void look(long by)
{
	(void)by;
	if (watch->go) {
		go(0);
		return;
	}
	if (!watch_look(watch))
		group_gone(&options.group);
	/* The first process stays chosen until the user chooses. */
	if (!chosen && watch->count)
		first_row = 0;
}

static void move_choice(long by)
{
	long row = chosen_row() + by;

	if (page != PAGE_TABLE) {
		first_line = (long)first_line + by > 0 ? first_line + by : 0;
		return;
	}
	if (!watch->count)
		return;
	if (row < 0)
		row = 0;
	if (row >= (long)watch->count)
		row = watch->count - 1;
	chosen = watch->row[row].process->pid;
}

static void move_page(long by)
{
	move_choice(by * (LINES / 2));
}

static void turn_to(long to)
{
	page = (long)page == to ? PAGE_TABLE : to;
	first_line = 0;
	if (watch->count && to == PAGE_PROCESS)
		chosen = watch->row[chosen_row()].process->pid;
}

static void sort_by(long step)
{
	watch->order = (watch->order + ORDERS + step) % ORDERS;
	watch_compare(watch);
}

static void show_all(long by)
{
	(void)by;
	watch->all = !watch->all;
	watch_compare(watch);
}

static void quit(long by)
{
	(void)by;
	done = true;
}

static void switch_policy(int key)
{
	char *text = must_have(strdup("the policy stays"));

	asks_policy = false;
	for (const struct policy *policy = policies; policy->name; policy++) {
		if (policy->key != key)
			continue;
		free(text);
		text = process_change(chosen, &policy->settings) ?:
		       xasprintf("process %d: policy %s", chosen, policy->name);
		look(0);
	}
	say(text);
}

/* "Policy of process 7? [l]inux ..." */
static void ask_policy(long by)
{
	char *question = NULL;

	(void)by;
	if (page == PAGE_HELP || !watch->count)
		return;
	if (watch->go) {
		say(must_have(strdup("a recording: no policy can be changed")));
		return;
	}
	chosen = watch->row[chosen_row()].process->pid;
	append(&question, "Policy of process %d?", chosen);
	for (const struct policy *policy = policies; policy->name; policy++) {
		const char *key = strchr(policy->name, policy->key);

		append(&question, " %.*s[%c]%s", (int)(key - policy->name), policy->name, *key, key + 1);
	}
	append(&question, "; other keys: none");
	say(question);
	asks_policy = true;
}

/* What else a key does, and by how much */
static const struct {
	int key;
	void (*act)(long by);
	long by;
} keys[] = {
	{ 'q', quit, 0 }, { KEY_UP, move_choice, -1 }, { KEY_DOWN, move_choice, 1 },
	{ KEY_PPAGE, move_page, -1 }, { KEY_NPAGE, move_page, 1 },
	{ KEY_HOME, move_choice, INT32_MIN }, { KEY_END, move_choice, INT32_MAX },
	{ '\r', turn_to, PAGE_PROCESS }, { '\n', turn_to, PAGE_PROCESS }, { KEY_ENTER, turn_to, PAGE_PROCESS },
	{ 'i', turn_to, PAGE_PROCESS }, { '?', turn_to, PAGE_HELP }, { 'h', turn_to, PAGE_HELP },
	{ '<', sort_by, -1 }, { '>', sort_by, 1 }, { 'p', ask_policy, 0 }, { 'a', show_all, 0 }, { ' ', look, 0 },
	{ KEY_RIGHT, go, 0 }, { KEY_LEFT, go_back, 0 }, { ']', go, 60 }, { '[', go, -60 }, { '}', go, 3600 }, { '{', go, -3600 },
};

static void handle(int key)
{
	/* On a terminal that is too small, the user does not see what a key does. */
	if (key == KEY_RESIZE || (too_small() && key != 'q'))
		return;
	if (asks_policy) {
		switch_policy(key);
		return;
	}
	say(NULL);
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (keys[i].key == key)
			keys[i].act(keys[i].by);
}

void screen_run(struct watch *watched)
{
	double next = now() + options.delay;
	uint64_t looks = 0;
	int key;

	watch = watched;
	terminal_open();
	while (!done) {
		draw();
		key = terminal_key(watch->go ? 3600 : next - now());
		if (terminal_ended())
			break;
		if (key != ERR)
			handle(key);
		if (watch->go || now() < next)
			continue;
		look(0);
		next = now() + options.delay;
		if (++looks == options.count)
			break;
	}
	terminal_close();
}
