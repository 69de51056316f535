/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups of CPUs that take the place of nodes: see groups.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_GROUPS_H
#define _ARCH_X86_MM_HYDRA_GROUPS_H

#include <linux/hydra_vm.h>
#include <linux/types.h>

/* Where the groups come from */
enum hydra_groups_source {
	HYDRA_GROUPS_OFF,
	HYDRA_GROUPS_PV,
	HYDRA_GROUPS_MEASURE,
	HYDRA_GROUPS_LIST,
};

extern enum hydra_groups_source hydra_groups_from;
extern u8 *hydra_groups_host;

unsigned int hydra_groups_at_boot(u16 **group, unsigned int most);
int hydra_groups_parse(char *text, unsigned int most, u16 *group);
int hydra_ask_groups(unsigned int nr, u16 *group);

#endif /* _ARCH_X86_MM_HYDRA_GROUPS_H */
