// SPDX-License-Identifier: GPL-2.0-only
#include "screen.h"

#include <curses.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "change.h"
#include "columns.h"
#include "details.h"
#include "kernel.h"
#include "settings.h"
#include "terminal.h"
#include "text.h"

#define LINES_LEAST 8

enum page { PAGE_TABLE, PAGE_PROCESS, PAGE_HELP };

struct screen {
	struct watch *watch;
	const struct repeat *repeat;
	enum page page;
	pid_t chosen;		/* 0: the first row */
	size_t first_row;	/* of the table that is seen */
	size_t first_line;	/* of the other pages */
	bool asks_policy;
	char *message;		/* for the last line, or NULL */
	bool done;
};

static const char *const help[] = {
	"Up Down PgUp PgDn Home End   choose a process",
	"Enter, i    inspect the process; again: back",
	"p           switch the policy of the process",
	"< >         sort by the column to the left or right (*)",
	"a           all processes, or those under Hydra",
	"Space       look now",
	"?, h        this help; again: back",
	"q, Ctrl-C   end",
	"",
	"SENT/S      interrupts sent per second, one for each CPU",
	"SPARED/S    interrupts saved per second",
	"FILLS/S     faults that copied entries for a node",
	"FLUSH/S     TLB flushes",
	"REP-KIB     memory of the replica tables now",
};

static void say(struct screen *screen, char *message)
{
	free(screen->message);
	screen->message = message;
}

static size_t chosen_row(const struct screen *screen)
{
	const struct rate_table *table = &screen->watch->table;

	for (size_t i = 0; i < table->count; i++)
		if (table->row[i].process->pid == screen->chosen)
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

__attribute__((format(printf, 2, 3)))
static int draw_format(int y, const char *format, ...)
{
	va_list arguments;
	char *text;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	y = draw_line(y, must_have(length < 0 ? NULL : text));
	free(text);
	return y;
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
	return COLS < COLUMNS_LEAST || LINES < LINES_LEAST;
}

static void draw_too_small(void)
{
	char *text;
	int length = asprintf(&text, "Terminal too small: %dx%d. Needed: %dx%d. Widen it, or use --batch. q: quit.",
			      COLS, LINES, COLUMNS_LEAST, LINES_LEAST);

	draw_words(0, must_have(length < 0 ? NULL : text));
	free(text);
}

/* What all processes do, and each node, in at most a third of the lines. */
static int draw_totals(const struct screen *screen)
{
	const struct watch *watch = screen->watch;
	const struct rates *total = &watch->table.total;
	char sent[CELL_SIZE], spared[CELL_SIZE], fills[CELL_SIZE], clock[16];
	char *title = group_title(&watch->group);
	double both = total->sent + total->spared;
	time_t seconds = time(NULL);
	int y = 0, x = 0;

	strftime(clock, sizeof(clock), "%T", localtime(&seconds));
	y = draw_format(y, "%s  %zu process%s%s of %s%s", clock, watch->table.count,
			plural_es(watch->table.count),
			watch->all ? "" : " under Hydra", title,
			watch->after.unreadable ? " (not all readable: be root)" : "");
	free(title);
	y = draw_format(y, "sent %s/s  spared %s/s (%.0f%%)  fills %s/s  replicas %" PRIu64 " KiB",
			rate_text(sent, total->sent), rate_text(spared, total->spared),
			both > 0 ? 100 * total->spared / both : 0,
			rate_text(fills, total->fills), total->replica_kib);
	for (size_t i = 0; i < total->node_count; i++) {
		const struct node_rates *node = &total->node[i];
		char text[2 * CELL_SIZE];

		snprintf(text, sizeof(text), "node %" PRIu64 ": %s fills/s, %" PRIu64 " KiB", node->node,
			 rate_text(fills, node->fills), node->replica_kib);
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

static void draw_table(struct screen *screen, int y, int end)
{
	const struct rate_table *table = &screen->watch->table;
	size_t chosen = chosen_row(screen), room;
	bool shown[COLUMN_COUNT];
	char *line;

	columns_fit(COLS, shown);
	line = columns_head(shown, screen->watch->order);
	attron(A_BOLD);
	y = draw_line(y, line);
	attroff(A_BOLD);
	free(line);
	room = end > y ? end - y : 0;
	if (chosen < screen->first_row)
		screen->first_row = chosen;
	if (room && chosen >= screen->first_row + room)
		screen->first_row = chosen - room + 1;
	if (!table->count)
		draw_words(y, screen->watch->all ? "no process" :
			   "No process runs under Hydra: start one with 'hydractl run', or press a for all processes.");
	for (size_t i = screen->first_row; i < table->count && y < end; i++) {
		line = columns_row(shown, &table->row[i]);
		if (i == chosen)
			attron(A_REVERSE);
		y = draw_line(y, line);
		attroff(A_REVERSE);
		free(line);
	}
}

static void draw_lines(struct screen *screen, const char *const *lines, size_t count, int end)
{
	size_t room = end > 0 ? end : 0;

	if (screen->first_line + room > count)
		screen->first_line = count > room ? count - room : 0;
	for (size_t i = 0; i < room && screen->first_line + i < count; i++)
		draw_line(i, lines[screen->first_line + i]);
}

static void draw_process(struct screen *screen, int end)
{
	const struct rate_table *table = &screen->watch->table;
	const struct process *process;
	struct details details;

	if (!table->count || table->row[chosen_row(screen)].process->pid != screen->chosen) {
		draw_words(0, "This process has ended. Enter: back.");
		return;
	}
	process = table->row[chosen_row(screen)].process;
	details = details_make(processes_find(&screen->watch->before, process->pid), process,
			       screen->watch->seconds);
	draw_lines(screen, (const char *const *)details.line, details.count, end);
	details_free(&details);
}

static void draw(struct screen *screen)
{
	static const char keys[] = "q quit  ? help  < > sort  p policy  Enter inspect  a all";
	const char *last = screen->message ?: keys;
	int end = LINES - lines_of_words(last);

	erase();
	if (too_small()) {
		draw_too_small();
		refresh();
		return;
	}
	if (screen->page == PAGE_TABLE)
		draw_table(screen, draw_totals(screen), end);
	else if (screen->page == PAGE_PROCESS)
		draw_process(screen, end);
	else
		draw_lines(screen, help, sizeof(help) / sizeof(*help), end);
	attron(screen->message ? A_BOLD : A_DIM);
	draw_words(end, last);
	attroff(A_BOLD | A_DIM);
	refresh();
}

static void look(struct screen *screen)
{
	if (!watch_look(screen->watch))
		group_gone(&screen->watch->group);
	/* The first process stays chosen until the user chooses. */
	if (!screen->chosen && screen->watch->table.count)
		screen->first_row = 0;
}

static void move_choice(struct screen *screen, long by)
{
	const struct rate_table *table = &screen->watch->table;
	long row = chosen_row(screen) + by;

	if (screen->page != PAGE_TABLE) {
		screen->first_line = (long)screen->first_line + by > 0 ? screen->first_line + by : 0;
		return;
	}
	if (!table->count)
		return;
	if (row < 0)
		row = 0;
	if (row >= (long)table->count)
		row = table->count - 1;
	screen->chosen = table->row[row].process->pid;
}

static void turn_to(struct screen *screen, enum page page)
{
	screen->page = screen->page == page ? PAGE_TABLE : page;
	screen->first_line = 0;
	if (screen->watch->table.count && page == PAGE_PROCESS)
		screen->chosen = screen->watch->table.row[chosen_row(screen)].process->pid;
}

static void sort_by(struct screen *screen, int step)
{
	screen->watch->order = (screen->watch->order + ORDERS + step) % ORDERS;
	watch_compare(screen->watch);
}

static void switch_policy(struct screen *screen, int key)
{
	char *message = must_have(strdup("the policy stays"));

	screen->asks_policy = false;
	for (const struct policy *policy = policies; policy->name; policy++) {
		if (policy->key != key)
			continue;
		free(message);
		message = process_change(screen->chosen, &policy->settings) ?:
			  xasprintf("process %d: policy %s", screen->chosen, policy->name);
		look(screen);
	}
	say(screen, message);
}

/* "Policy of process 7? [l]inux ..." */
static void ask_policy(struct screen *screen)
{
	const struct rate_table *table = &screen->watch->table;
	char *question;
	size_t size;
	FILE *out;

	if (screen->page == PAGE_HELP || !table->count)
		return;
	screen->chosen = table->row[chosen_row(screen)].process->pid;
	out = must_have(open_memstream(&question, &size));
	fprintf(out, "Policy of process %d?", screen->chosen);
	for (const struct policy *policy = policies; policy->name; policy++) {
		const char *key = strchr(policy->name, policy->key);

		fprintf(out, " %.*s[%c]%s", (int)(key - policy->name), policy->name, *key, key + 1);
	}
	fprintf(out, "; other keys: none");
	must_have(fclose(out) ? NULL : question);
	say(screen, question);
	screen->asks_policy = true;
}

static void handle(struct screen *screen, int key)
{
	/* On a terminal that is too small, the user does not see what a key does. */
	if (key == KEY_RESIZE || (too_small() && key != 'q'))
		return;
	if (screen->asks_policy) {
		switch_policy(screen, key);
		return;
	}
	say(screen, NULL);
	switch (key) {
	case 'q':
		screen->done = true;
		break;
	case KEY_UP:
		move_choice(screen, -1);
		break;
	case KEY_DOWN:
		move_choice(screen, 1);
		break;
	case KEY_PPAGE:
		move_choice(screen, -(LINES / 2));
		break;
	case KEY_NPAGE:
		move_choice(screen, LINES / 2);
		break;
	case KEY_HOME:
		move_choice(screen, INT32_MIN);
		break;
	case KEY_END:
		move_choice(screen, INT32_MAX);
		break;
	case '\r':
	case '\n':
	case KEY_ENTER:
	case 'i':
		turn_to(screen, PAGE_PROCESS);
		break;
	case '?':
	case 'h':
		turn_to(screen, PAGE_HELP);
		break;
	case '<':
		sort_by(screen, -1);
		break;
	case '>':
		sort_by(screen, 1);
		break;
	case 'p':
		ask_policy(screen);
		break;
	case 'a':
		screen->watch->all = !screen->watch->all;
		watch_compare(screen->watch);
		break;
	case ' ':
		look(screen);
		break;
	}
}

void screen_run(struct watch *watch, const struct repeat *repeat)
{
	struct screen screen = { .watch = watch, .repeat = repeat };
	double next = now() + repeat->delay;
	uint64_t looks = 0;
	int key;

	terminal_open();
	while (!screen.done) {
		draw(&screen);
		key = terminal_key(next - now());
		if (terminal_ended())
			break;
		if (key != ERR)
			handle(&screen, key);
		if (now() < next)
			continue;
		look(&screen);
		next = now() + repeat->delay;
		if (++looks == repeat->count)
			break;
	}
	terminal_close();
	free(screen.message);
}
