/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of policies and settings, the options that choose them, and changing them. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <argp.h>
#include <linux/hydra.h>
#include <stdbool.h>
#include <sys/types.h>

struct records;

struct policy {
	const char *name;
	char key;		/* of 'hydractl top': a letter of the name */
	const char *help;
	struct hydra_settings settings;
};

/* All, as for --policy; the last has no name. */
extern const struct policy policies[];

enum setting { SETTING_DOMAINS, SETTING_REPLICATION, SETTING_PREFETCH, SETTING_FILTER, SETTINGS };

/* What the options asked for. */
struct settings_choice {
	const struct policy *policy;	/* or NULL */
	bool chosen[SETTINGS];
	struct hydra_settings settings;	/* those chosen; tables and expose, for virtual machines, are chosen if they are not 0 */
};

/* Does @choice name a setting, apart from a policy? */
bool settings_chosen(const struct settings_choice *choice);

/* The parser of --policy, --domains, --replication, --prefetch and --filter, for options.choice. */
extern const struct argp settings_argp;

/* The same of --follow and --expose, for virtual machines. */
extern const struct argp machine_argp;

/*
 * Take "POLICY[,KEY=VALUE...]" or "KEY=VALUE[,...]", also with colons, for options.choice; or
 * leave with the error of @state.
 */
void settings_parse(const struct argp_state *state, const char *text);

/* The settings of @choice, with policy hydra if @choice names no policy. */
struct hydra_settings settings_choose(const struct settings_choice *choice);

/* Put what @choice names, apart from a policy, into @settings. */
void settings_apply(struct hydra_settings *settings, const struct settings_choice *choice);

/* The text for a write to /proc/PID/hydra, to be freed. */
char *settings_text(const struct hydra_settings *settings);

/* The same for what @choice names alone; all settings of a policy, if it names one. May be empty. */
char *settings_named_text(const struct settings_choice *choice);

/* The settings as POLICY[,KEY=VALUE...] with what differs from the policy, in the kernel's names; to be freed. */
char *settings_of_kernel(const struct settings_choice *choice);

/* From the names in /proc/PID/hydra. False if a name is unknown. */
bool settings_from_records(struct hydra_settings *settings, const struct records *records);

/* The policy with this name (as for --policy), or NULL. */
const struct policy *policy_find(const char *name);

/* The name (as for --policy) of the policy with exactly the given settings, or NULL. */
const char *policy_name(const struct hydra_settings *settings);

/* What virtual machines have apart from the settings of processes; NULL: it stays. */
struct vm_settings {
	const char *tables;	/* "follow": the tables of a machine's one tree move to its memory; or "stay" */
	const char *expose;	/* "on": the guest may ask where its CPUs and its memory are; or "off" */
	const char *limit;	/* the most KiB for nested page tables, or "max" */
};

/* Give process @pid the settings. Returns NULL, or why that failed, to be freed. */
char *process_change(pid_t pid, const struct hydra_settings *settings);

/* The same for all virtual machines of the process: what the two name. If they name nothing, a machine that went back to one tree tries again. */
char *vms_change(pid_t pid, const struct settings_choice *choice, const struct vm_settings *more);

/* Why the kernel refused settings (errno), to be freed. */
char *settings_refusal(const char *settings);

#endif /* SETTINGS_H */
