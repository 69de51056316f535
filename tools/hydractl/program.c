// SPDX-License-Identifier: GPL-2.0-only
#include "program.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernel.h"
#include "settings.h"

void program_become(const struct hydra_settings *settings, char **program)
{
	if (prctl(PR_SET_HYDRA, settings, sizeof(*settings), 0, 0))
		settings_refused(must_have(settings_text(settings)));
	execvp(program[0], program);
	error(errno == ENOENT ? EXIT_RUN_NOT_FOUND : EXIT_RUN_NOT_EXECUTABLE, errno,
	      "cannot run '%s'", program[0]);
	abort();
}
