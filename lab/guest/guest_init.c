// SPDX-License-Identifier: GPL-2.0-only
/* The first process of a machine inside the lab's machine: runs /commands with the shell, then switches the machine off. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const mounts[][2] = {
	{ "proc", "/proc" }, { "sysfs", "/sys" }, { "devtmpfs", "/dev" }, { "tmpfs", "/dev/shm" }, { "tmpfs", "/tmp" },
};

int main(void)
{
	pid_t shell;

	for (unsigned int i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i][1], 0755);
		if (mount(mounts[i][0], mounts[i][1], mounts[i][0], 0, NULL))
			perror(mounts[i][1]);
	}
	shell = fork();
	if (!shell) {
		setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
		execl("/bin/sh", "sh", "/commands", NULL);
		perror("/bin/sh");
		_exit(127);
	}
	/* This process inherits the children of others. */
	while (wait(NULL) != shell)
		;
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
