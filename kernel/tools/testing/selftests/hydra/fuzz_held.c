// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files held open while the process they belong to executes another program,
 * perhaps one that is set-user-ID root, and ends; or while who holds them gives
 * its privileges up.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "fuzz.h"

static char program_dir[] = "/tmp/hydra-fuzz-XXXXXX";

static bool copy_program(const char *name, mode_t mode)
{
	char path[64], buffer[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	ssize_t got;

	snprintf(path, sizeof(path), "%s/%s", program_dir, name);
	to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	while ((got = read(from, buffer, sizeof(buffer))) > 0)
		if (write(to, buffer, got) != got)
			return false;
	close(from);
	return !fchmod(to, mode) && !close(to) && !got;
}

/* Says "e" and its effective user; then does as told: e(xec), s(et-user-ID), x */
static int victim(int in, int out)
{
	char path[64], in_text[16], out_text[16], order;
	uid_t said = geteuid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(out, &said, sizeof(said)) != sizeof(said) || read(in, &order, 1) != 1 ||
	    order == 'x')
		return 0;
	snprintf(path, sizeof(path), "%s/%s", program_dir, order == 's' ? "setuid" : "plain");
	sprintf(in_text, "%d", in);
	sprintf(out_text, "%d", out);
	execl(path, path, "victim", program_dir, in_text, out_text, NULL);
	return 1;
}

int victim_main(char **argv)
{
	snprintf(program_dir, sizeof(program_dir), "%s", argv[2]);
	return victim(atoi(argv[3]), atoi(argv[4]));
}

static bool order_victim(const int orders, const int answers, char order, uid_t expected)
{
	uid_t uid = -1;

	return write(orders, &order, 1) == 1 &&
	       (order == 'x' || (read(answers, &uid, sizeof(uid)) == sizeof(uid) &&
				 uid == expected));
}

static void hold_over_life(struct way *way, const struct caller *holder)
{
	int orders[2], answers[2];
	struct command c = { .action = HOLD };
	bool denied = false;
	struct subject *subject;
	siginfo_t info;
	uid_t uid;
	pid_t child;

	if (pipe(orders) || pipe(answers)) {
		mistake("no pipes");
		return;
	}
	fflush(NULL);
	child = fork();
	if (!child) {
		close(orders[1]);
		_exit(!become_nobody() || victim(orders[0], answers[1]));
	}
	if (read(answers[0], &uid, sizeof(uid)) != sizeof(uid) || uid != NOBODY)
		mistake("no victim");
	subject = add_subject("a victim", child);
	sprintf(c.path, "/proc/%d/hydra", child);
	if (tell(holder, &c))
		mistake("nobody cannot open %s of its own process", c.path);

	for (int step = 0; step < 4 && !mistakes; step++) {
		for (int i = below(3); i >= 0; i--) {
			unsigned int may = MAY(PERM);

			command_text(&c, &way[0]);
			c.action = one_in(3) ? READ_HELD : WRITE_HELD;
			if (!denied)
				may = c.action == READ_HELD ? MAY(TAKEN) :
				      c.len >= TEXT_MAX ? MAY(INVAL) :
				      understand(c.text, c.len, &subject->settings);
			else if (c.action == WRITE_HELD && c.len >= TEXT_MAX)
				/* more than one thing is wrong with it */
				may |= MAY(INVAL);
			judge(&way[denied], may, tell(holder, &c), "step %d, action %d, \"%s", step,
			      c.action, quote(c.text, c.len));
			check_everything();
		}
		if (step == 3)
			break;
		if (step == 2 || one_in(3)) {
			denied = true;
			if (!order_victim(orders[1], answers[0], 's', 0))
				mistake("the victim is not root after a set-user-ID program");
			/* its choice was not for a program with other rights */
			subject->settings = machine.settings.domains == HYDRA_DOMAINS_MACHINE ?
				(struct hydra_settings){ .prefetch = HYDRA_PREFETCH_MAX } :
				machine.settings;
		} else if (!denied && !order_victim(orders[1], answers[0], 'e', NOBODY)) {
			mistake("the victim cannot execute");
		}
		/* settings go with it */
		check_everything();
	}
	nr_subjects--;
	order_victim(orders[1], answers[0], 'x', 0);
	close(orders[1]);
	waitid(P_PID, child, &info, WEXITED | WNOWAIT);
	c.action = one_in(2) ? READ_HELD : WRITE_HELD;
	c.len = valid_text(c.text);
	judge(&way[2], MAY(SRCH), tell(holder, &c), "a zombie, action %d", c.action);
	hydra_wait_child(child);
	c.action = one_in(2) ? READ_HELD : WRITE_HELD;
	judge(&way[2], MAY(SRCH), tell(holder, &c), "it was, action %d", c.action);
	close(orders[0]);
	close(answers[0]);
	close(answers[1]);
	check_everything();
}

/* Root opens, and gives its privileges up */
static void hold_and_drop(struct way *way, const struct subject *target)
{
	long *results = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			     -1, 0);
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		char path[64], text[64];
		int fd;

		sprintf(path, "/proc/%d/hydra", target->pid);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || !become_nobody())
			_exit(1);
		results[0] = RESULT(write(fd, "hydra,prefetch=1", 16));
		results[1] = RESULT(read(fd, text, sizeof(text)));
		_exit(0);
	}
	if (hydra_wait_child(child))
		mistake("a child could not open a file and become nobody");
	judge(way, MAY(PERM), results[0], "writing to what root has opened");
	judge(way, MAY(PERM), results[1], "reading from what root has opened");
	munmap(results, PAGE_SIZE);
	check_everything();
}

void fuzz_held_files(void)
{
	struct way way[] = {
		{ "held over exec", MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) },
		{ "held over exec of a set-user-ID program", MAY(PERM) },
		{ "held over the end", MAY(SRCH) },
		{ "held by root that became nobody", MAY(PERM) },
	};
	struct subject *target = add_subject("a process of root", spawn(NULL));
	struct caller holder;

	/* not on a file system without set-user-ID, or where nobody cannot go */
	if (!mkdtemp(program_dir) || mount("none", program_dir, "tmpfs", 0, "mode=755") ||
	    !copy_program("plain", 0755) || !copy_program("setuid", 04755)) {
		mistake("no tmpfs with copies of this program (CONFIG_TMPFS): %s", strerror(errno));
		return;
	}
	holder = spawn_caller("nobody", become_nobody);
	for (operation = 0; operation < option.operations / 16 && !mistakes; operation++) {
		hold_over_life(way, &holder);
		hold_and_drop(&way[3], target);
	}
	umount2(program_dir, MNT_DETACH);
	rmdir(program_dir);
	for (int i = 0; i < ARRAY_SIZE(way); i++)
		account_for(&way[i]);
}
