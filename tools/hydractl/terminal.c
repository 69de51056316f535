// SPDX-License-Identifier: GPL-2.0-only
#include "terminal.h"

#if !__has_include(<curses.h>)
#error "hydractl needs ncurses: install the package libncurses-dev"
#endif

#include <curses.h>
#include <errno.h>
#include <error.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#include "kernel.h"

static volatile sig_atomic_t signal_seen;
static bool hung_up;

static void note_signal(int signal)
{
	signal_seen = signal;
}

void terminal_close(void)
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

void terminal_open(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = note_signal };
	const char *kind = getenv("TERM");

	use_utf8();
	if (!newterm(NULL, stdout, stdin))
		error(EXIT_ERROR, 0, "unknown type of terminal '%s' (TERM): use --batch or --json", kind ?: "");
	error_print_progname = close_and_print_name;
	atexit(terminal_close);
	if (!cursor_address)
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

int terminal_key(double seconds)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int key = getch();

	if (key != ERR || signal_seen)
		return key;
	poll(&input, 1, seconds > 0 ? seconds * 1000 + 1 : 0);
	hung_up = input.revents & (POLLHUP | POLLERR | POLLNVAL);
	return getch();
}

bool terminal_ended(void)
{
	if (signal_seen && signal_seen != SIGINT) {
		terminal_close();
		signal(signal_seen, SIG_DFL);
		raise(signal_seen);
	}
	return signal_seen || hung_up;
}
