// SPDX-License-Identifier: GPL-2.0-only
#include "change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "settings.h"
#include "text.h"
#include "vms.h"

/* Of lines "no SETTING: REASON": the text after "no" of a line whose setting is requested. */
static char *reason_against(char *missing, const char *settings)
{
	for (char *line = strtok(missing, "\n"); line; line = strtok(NULL, "\n")) {
		autofree char *setting = NULL;
		char *said = line + strlen("no ");

		if (strncmp(line, "no ", strlen("no ")))
			continue;
		setting = must_have(strndup(said, strcspn(said, ":")));
		if (strstr(settings, setting))
			return said;
	}
	return NULL;
}

/*
 * Why the process may not choose settings, to be freed, if the administrator is the
 * reason; else NULL. errno stays.
 */
static char *allow_refusal(void)
{
	int saved = errno;
	autofree char *allow = kernel_allow();
	const char *why = NULL;

	if (allow && !strcmp(allow, "cap_sys_nice"))
		why = "only processes with CAP_SYS_NICE, as root's, may choose settings ('hydractl allow' says so)";
	if (allow && !strcmp(allow, "nobody"))
		why = "no process may choose settings ('hydractl allow' says so); 'hydractl allow anybody', by root, ends that";
	errno = saved;
	return why ? must_have(strdup(why)) : NULL;
}

char *settings_refusal(const char *settings)
{
	int saved = errno;
	char *missing, *reason, *why = saved == EPERM ? allow_refusal() : NULL;
	autofree char *supported = NULL;

	if (why)
		return why;
	if (saved != EOPNOTSUPP)
		return xasprintf("the kernel refused the settings '%s': %s", settings, strerror(saved));
	supported = kernel_supported(&missing);
	reason = missing ? reason_against(missing, settings) : NULL;
	if (strcmp(supported, "yes"))
		return xasprintf("Hydra cannot work on this machine (%s)", supported);
	if (reason)
		return xasprintf("this machine cannot do '%s' (%s): choose another filter", settings, reason);
	/* Older kernels refuse kinds of domains, replication and filters. */
	return xasprintf("this kernel, or this machine, cannot do '%s': choose --domains node, --replication lazy, and --filter none or --filter table",
			 settings);
}

static char *change(pid_t pid, const char *file, const char *text,
		    char *(*failure)(pid_t pid, const char *doing))
{
	char *why;

	if (process_write(pid, file, text))
		return NULL;
	why = errno == EPERM ? allow_refusal() : NULL;
	if (why)
		return why;
	return errno == EINVAL || errno == EOPNOTSUPP ? settings_refusal(text) : failure(pid, "change");
}

char *process_change(pid_t pid, const struct hydra_settings *settings)
{
	autofree char *text = settings_text(settings);

	return change(pid, "hydra", text, process_failure);
}

char *vms_change(pid_t pid, const struct settings_choice *choice, const struct vm_settings *more)
{
	autofree char *shared = settings_named_text(choice);
	autofree char *text = xasprintf("%s%s%s%s%s", shared, more->tables ? ",tables=" : "", more->tables ?: "",
					more->expose ? ",expose=" : "", more->expose ?: "");

	return change(pid, "hydra_vm", *text ? text + (*text == ',') : "again", vms_failure);
}
