// SPDX-License-Identifier: GPL-2.0-only
#include "qmp.h"

#if !__has_include(<json-c/json.h>)
#error "hydractl needs json-c: install the package libjson-c-dev"
#endif

#include <errno.h>
#include <error.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "kernel.h"

#define PATIENCE 10	/* seconds for an answer */
#define LAST_WAITS 6	/* times PATIENCE, for the answer on the way out */

static const char *monitor;
static FILE *stream;
static int requests;	/* so far. Each has its number: late answers are not taken for others */
static bool greeted;
static bool stopped;
static sigset_t signals;

static _Noreturn void fail(const char *what)
{
	error(EXIT_ERROR, 0, "%s: %s", monitor, what);
	abort();
}

static _Noreturn void no_answer(void)
{
	if (errno == EAGAIN && greeted)
		fail("no answer in ten seconds");
	if (errno == EAGAIN)
		fail("no answer in ten seconds. QEMU talks to one program at a time: give it a monitor that no other program uses, with -qmp unix:PATH,server=on,wait=off");
	fail("the connection ended. Is that a monitor of QEMU's machine protocol (-qmp)?");
}

/* The next message; NULL and errno if there is none */
static struct json_object *next_message(void)
{
	struct json_object *message;
	char *line = NULL;
	size_t size;

	/* After a wait that was too long, the stream would not read again. */
	clearerr(stream);
	errno = 0;
	if (getline(&line, &size, stream) < 0) {
		free(line);
		return NULL;
	}
	message = json_tokener_parse(line);
	free(line);
	if (!message)
		errno = EBADMSG;
	return message;
}

static struct json_object *receive(void)
{
	struct json_object *message = next_message();

	if (!message && errno == EBADMSG)
		fail("its answer is not of QEMU's machine protocol");
	if (!message)
		no_answer();
	return message;
}

/* Is the message an answer to the last request? Events and late answers are not. */
static bool answers(struct json_object *message)
{
	struct json_object *id;

	return json_object_object_get_ex(message, "id", &id) &&
	       json_object_get_int(id) == requests;
}

static struct json_object *request(const char *name, struct json_object *arguments)
{
	struct json_object *made = must_have(json_object_new_object());

	json_object_object_add(made, "execute", must_have(json_object_new_string(name)));
	json_object_object_add(made, "id", must_have(json_object_new_int(++requests)));
	if (arguments)
		json_object_object_add(made, "arguments", arguments);
	return made;
}

/* Takes over @made. False and errno. */
static bool sent(struct json_object *made)
{
	const char *text = json_object_to_json_string_ext(made, JSON_C_TO_STRING_PLAIN);
	char *line = must_have(asprintf(&line, "%s\n", text ?: "") < 0 ? NULL : line);
	ssize_t length = strlen(line), done = send(fileno(stream), line, length, MSG_NOSIGNAL);

	free(line);
	json_object_put(made);
	return done == length;
}

static struct json_object *ask(const char *name, struct json_object *arguments)
{
	struct json_object *message, *part;

	if (!sent(request(name, arguments)))
		no_answer();
	for (message = receive(); !answers(message); message = receive())
		json_object_put(message);
	if (json_object_object_get_ex(message, "error", &part))
		error(EXIT_ERROR, 0, "%s: %s: %s", monitor, name,
		      json_object_get_string(json_object_object_get(part, "desc")) ?: "refused");
	if (!json_object_object_get_ex(message, "return", &part))
		fail("its answer is not of QEMU's machine protocol");
	json_object_get(part);
	json_object_put(message);
	return part;
}

/* A command without arguments */
static struct json_object *ask_for(const char *name)
{
	return ask(name, NULL);
}

static int int_of(struct json_object *object, const char *key)
{
	struct json_object *number;

	if (!json_object_object_get_ex(object, key, &number))
		fail("hydractl does not understand QEMU's list of CPUs");
	return json_object_get_int(number);
}

struct qmp_vcpu *qmp_vcpus(size_t *count)
{
	struct json_object *list = ask_for("query-cpus-fast");
	struct qmp_vcpu *vcpus;

	*count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	vcpus = must_have(calloc(*count + 1, sizeof(*vcpus)));
	for (size_t i = 0; i < *count; i++) {
		struct json_object *vcpu = json_object_array_get_idx(list, i);

		vcpus[i].index = int_of(vcpu, "cpu-index");
		vcpus[i].thread = int_of(vcpu, "thread-id");
	}
	json_object_put(list);
	return vcpus;
}

char *qmp_human(const char *line)
{
	struct json_object *arguments = must_have(json_object_new_object()), *said;
	char *text;

	json_object_object_add(arguments, "command-line", must_have(json_object_new_string(line)));
	said = ask("human-monitor-command", arguments);
	if (!json_object_is_type(said, json_type_string))
		fail("its answer is not of QEMU's machine protocol");
	text = must_have(strdup(json_object_get_string(said)));
	json_object_put(said);
	return text;
}

void qmp_open(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = PATIENCE };
	struct json_object *greeting;
	int fd;

	monitor = path;
	if (strlen(path) >= sizeof(address.sun_path))
		fail("too long for the path of a socket");
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
		fail(strerror(errno));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		error(EXIT_ERROR, errno, "%s: cannot connect to QEMU's monitor", path);
	stream = must_have(fdopen(fd, "r"));
	greeting = receive();
	if (!json_object_object_get_ex(greeting, "QMP", NULL))
		fail("this is not a monitor of QEMU's machine protocol (-qmp)");
	json_object_put(greeting);
	greeted = true;
	json_object_put(ask_for("qmp_capabilities"));
}

/*
 * On every way out, also after an error: a stopped machine has to go on. QEMU forgets commands
 * of a program that has closed its connection, so the answer is awaited.
 */
static void leave(void)
{
	struct json_object *message;
	int waits = LAST_WAITS;
	bool done = false;

	if (!stopped)
		return;
	if (!sent(request("cont", NULL)))
		waits = 0;
	while (waits) {
		message = next_message();
		if (!message && errno != EAGAIN)
			break;
		if (!message) {
			waits--;
		} else if (answers(message)) {
			waits = 0;
			done = json_object_object_get_ex(message, "return", NULL);
		}
		json_object_put(message);
	}
	if (!done)
		fprintf(stderr, "%s: %s: the machine may still be stopped\n", program_invocation_name, monitor);
}

bool qmp_interrupted(void)
{
	sigset_t pending;

	return stopped && !sigpending(&pending) &&
	       (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
		sigismember(&pending, SIGHUP) || sigismember(&pending, SIGQUIT));
}

void qmp_stop(void)
{
	struct json_object *status = ask_for("query-status");
	bool running = json_object_get_boolean(json_object_object_get(status, "running"));

	json_object_put(status);
	if (!running)
		return;
	sigemptyset(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGQUIT);
	sigaddset(&signals, SIGTSTP);
	sigaddset(&signals, SIGTTOU);
	sigaddset(&signals, SIGPIPE);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	atexit(leave);
	stopped = true;
	json_object_put(ask_for("stop"));
}

void qmp_go_on(void)
{
	if (!stopped)
		return;
	json_object_put(ask_for("cont"));
	stopped = false;
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}
