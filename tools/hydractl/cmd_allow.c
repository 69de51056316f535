// SPDX-License-Identifier: GPL-2.0-only
/* hydractl allow: which processes may choose settings. */
#include "commands.h"

/* As the kernel calls them. */
static const char *const kinds[] = { "anybody", "cap_sys_nice", "nobody" };

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	const char **kind = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one word only");
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			if (!strcmp(kinds[i], arg))
				*kind = kinds[i];
		if (!*kind)
			argp_error(state, "unknown word '%s': choose anybody, cap_sys_nice or nobody", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.parser = parse_option,
	.args_doc = "[anybody|cap_sys_nice|nobody]",
	.doc = "Say which processes may choose settings, for themselves and for processes that they may trace; without a word, show what holds now. Only root may change it. It holds until the next boot.\n"
	       "\n"
	       "anybody: all processes. cap_sys_nice: processes with that capability, as root has. nobody: no process, not even root's. Settings that a process has stay and are inherited. The default for new programs stays, too.\v"
	       "For example:\n"
	       "  hydractl allow cap_sys_nice\n"
	       "\n"
	       "Exit status: 0 done; 2 an error, nothing changed.",
};

int command_allow(int argc, char **argv)
{
	const char *kind = NULL;
	char *now;

	argp_parse(&argp, argc, argv, 0, NULL, &kind);
	kernel_require();
	now = kernel_allow();
	if (!now)
		error(EXIT_ERROR, 0, "this kernel's Hydra is older than hydractl: every process may choose settings");
	if (!kind)
		printf("%s\n", now);
	else if (!kernel_set("allow", kind))
		error(EXIT_ERROR, 0, "cannot change which processes may choose settings: %s",
		      errno == EACCES || errno == EPERM ? "be root" : strerror(errno));
	free(now);
	return 0;
}
