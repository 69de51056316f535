// SPDX-License-Identifier: GPL-2.0-only
/* hydractl default: the policy of programs that have chosen none, now and at each boot. */
#include "commands.h"

#define KEY "HYDRA_DEFAULT="

static bool now_only;

static const struct argp_option own_options[] = {
	{ "now", 'N', NULL, 0, "Until the next boot: leave the file alone", 0 },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'N':
		now_only = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one policy only, with its settings behind commas");
		settings_parse(state, arg);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!options.choice.policy && (settings_chosen(&options.choice) || now_only))
			argp_error(state, "name a policy, too, as in hydra,prefetch=4");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { .argp = &settings_argp }, { .argp = &form_argp }, { 0 } };

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "[POLICY[,SETTING=VALUE...]]",
	.doc = "Change the default: the policy of programs that start from now on and have chosen none, and of all programs after each boot; without a policy, show it. Only root may change it.\n"
	       "\n"
	       "For the next boots it is written to /etc/default/hydra, from which hydra.service of the package sets it. Programs that run already keep their policy until they execute another program; a policy that was chosen for a program stays. memory.hydra of a cgroup goes before the default.\v"
	       "For example:\n"
	       "  hydractl default hydra,prefetch=4\n"
	       "  hydractl default linux\n"
	       "\n"
	       "Exit status: 0 done; 2 an error, nothing changed; or it holds until the next boot only, as hydra.service is not enabled.",
};

/* The value of the last line of the file that sets one, as for systemd, to be freed; NULL: none */
static char *value_in(const char *text)
{
	char *value = NULL;

	for (const char *line = text; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL) {
		const char *begin = line + strlen(KEY);
		size_t length;

		if (strncmp(line, KEY, strlen(KEY)))
			continue;
		begin += strspn(begin, " \t\"'");
		length = strcspn(begin, "\n\"'");
		while (length && strchr(" \t", begin[length - 1]))
			length--;
		free(value);
		value = length ? must_have(strndup(begin, length)) : NULL;
	}
	return value;
}

/* The text with this value in the place of the first line that sets one, to be freed */
static char *text_with(const char *text, const char *value)
{
	char *made = must_have(strdup(""));
	bool done = false;

	for (size_t length; *text; text += length) {
		length = strcspn(text, "\n");
		length += text[length] == '\n';
		if (strncmp(text, KEY, strlen(KEY)))
			append(&made, "%.*s%s", (int)length, text, text[length - 1] == '\n' ? "" : "\n");
		else if (!done)
			append(&made, KEY "%s\n", value);
		done |= !strncmp(text, KEY, strlen(KEY));
	}
	if (!done)
		append(&made, KEY "%s\n", value);
	return made;
}

static bool is_enabled(void)
{
	autofree char *link = xasprintf("%s/systemd/system/sysinit.target.wants/hydra.service", kernel_etc());

	return !access(link, F_OK);
}

static void show(const char *initial, const char *file)
{
	autofree char *text = file_read(file), *value = value_in(text);
	const char *boot = is_enabled() ? value : NULL;

	if (options.json) {
		json_open_object(NULL);
		json_string("now", initial);
		json_string("boot", boot);
		json_flag("enabled", is_enabled());
		json_close();
		return;
	}
	printf("now      %s\nat boot  ", initial);
	if (boot)
		printf("%s (%s)\n", boot, file);
	else
		printf("the kernel's: %s\n", is_enabled() ? "the service hydra sets none" : "the service hydra is not enabled");
}

static _Noreturn void refuse(const char *settings)
{
	if (errno == EACCES || errno == EPERM)
		error(EXIT_ERROR, 0, "cannot change the default: be root");
	error(EXIT_ERROR, 0, "%s", settings_refusal(settings));
	abort();
}

/* Change the default now, and in the file. Both stay as they are if one of them cannot be changed. */
static void change(const char *initial, const char *file)
{
	autofree char *settings = settings_of_kernel(&options.choice), *text = file_read(file), *made = NULL;

	if (!text && !now_only)
		error(EXIT_ERROR, errno, "cannot read %s, from which the service hydra sets the default at boot (install the package hydractl, or change it --now alone)", file);
	if (!kernel_set("default", settings))
		refuse(settings);
	if (now_only)
		return;
	made = text_with(text, settings);
	if (file_replace(file, made, strlen(made)))
		return;
	text = xasprintf("cannot write %s: %s; the default stays '%s'", file, strerror(errno), initial);
	kernel_set("default", initial);
	error(EXIT_ERROR, 0, "%s", text);
}

int command_default(int argc, char **argv)
{
	char *initial, *file;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	initial = kernel_file("default");
	file = xasprintf("%s/default/hydra", kernel_etc());
	if (options.choice.policy)
		change(initial, file);
	else
		show(initial, file);
	if (options.choice.policy && !now_only && !is_enabled())
		error(EXIT_ERROR, 0, "the default holds until the next boot only, as the service is not enabled: 'systemctl enable hydra'");
	free(initial);
	free(file);
	return 0;
}
