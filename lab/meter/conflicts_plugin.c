// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU's translator (TCG) that finds the lines at which two operations meet in the kernel: the instrument of
 * ./hydra bench concurrent. workloads/conflicts.c has the markers.
 *
 * Samples come in pairs: one virtual CPU does an operation, then another one does. What the kernel reads and writes in both
 * is kept for each line of memory. A line that both touch and at least one writes is a conflict: CPUs that do the two at once
 * would take it from each other.
 *
 * The machine must run its virtual CPUs in turns (-icount, or -accel tcg,thread=single): there are no locks here.
 *
 *   -plugin conflicts.so,out=FILE
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "plugin_interface.h"

/* What an operation has done to a line: its first write, or without one its first read. */
struct use {
	uint64_t code, address;		/* of the instruction; which address it used */
	bool touched, wrote;
};

#define NR_LINES (1u << 16)

/* The lines that a pair touches, by a hash of their numbers */
static struct line {
	uint64_t number;		/* + 1; 0: free */
	struct use use[2];
} lines[NR_LINES];
static unsigned int nr_lines;

static int measured = -1;		/* the CPU that does an operation */
static unsigned int role;		/* 0: the first one of the pair; 1: the second one */
static uint8_t policy, row;
static bool instrumented;
static qemu_plugin_id_t self;
static FILE *out;

static struct line *line_of(uint64_t number)
{
	unsigned int at = (number * 0x9e3779b97f4a7c15u) >> 48;

	while (lines[at].number && lines[at].number != number + 1)
		at = (at + 1) % NR_LINES;
	if (!lines[at].number) {
		/* A full table would be searched for ever. */
		if (nr_lines == NR_LINES / 2)
			return NULL;
		nr_lines++;
		lines[at].number = number + 1;
	}
	return &lines[at];
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	bool store = qemu_plugin_mem_is_store(info);
	struct qemu_plugin_hwaddr *at;
	struct line *line;
	struct use *use;

	if ((int)cpu != measured)
		return;
	at = qemu_plugin_get_hwaddr(info, address);
	if (!at || qemu_plugin_hwaddr_is_io(at))
		return;
	line = line_of(qemu_plugin_hwaddr_phys_addr(at) / 64);
	if (!line)
		return;
	use = &line->use[role];
	if (!use->touched || (store && !use->wrote))
		*use = (struct use){ .code = (uint64_t)data, .address = address };
	use->touched = true;
	use->wrote |= store;
}

static void report(void)
{
	unsigned int touched[2] = { 0, 0 };
	const char *comma = "";

	fprintf(out, "{\"policy\": %u, \"row\": %u, \"full\": %s, \"conflicts\": [", policy, row, nr_lines == NR_LINES / 2 ? "true" : "false");
	for (unsigned int i = 0; i < NR_LINES; i++) {
		const struct use *use = lines[i].use;

		touched[0] += use[0].touched;
		touched[1] += use[1].touched;
		if (!use[0].touched || !use[1].touched || (!use[0].wrote && !use[1].wrote))
			continue;
		fprintf(out, "%s[%" PRIu64 ", %" PRIu64 ", %d, %" PRIu64 ", %" PRIu64 ", %d]", comma, use[0].code, use[0].address,
			use[0].wrote, use[1].code, use[1].address, use[1].wrote);
		comma = ", ";
	}
	fprintf(out, "], \"touched\": [%u, %u]}\n", touched[0], touched[1]);
	fflush(out);
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

static void instrument(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
}

static void on_marker(unsigned int cpu, void *data)
{
	enum mark mark = (uint64_t)data >> 8;
	uint8_t value = (uint64_t)data;

	switch (mark) {
	case START:
		return;
	case START_MEMORY:
	case STOP:
		if (instrumented == (mark == START_MEMORY))
			return;
		instrumented = mark == START_MEMORY;
		role = 0;
		qemu_plugin_reset(self, instrument);
		return;
	case POLICY:
		policy = value;
		return;
	case ROW:
		row = value;
		role = 0;
		return;
	case BEGIN:
		if (!role) {
			memset(lines, 0, sizeof(lines));
			nr_lines = 0;
		}
		measured = cpu;
		return;
	case END:
		if (measured < 0)
			return;
		measured = -1;
		if (role)
			report();
		role = !role;
		return;
	}
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *at = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(at);
		uint8_t copy[LONGEST_INSN];
		const uint8_t *code = code_of(at, copy);

		if (is_marker(code, qemu_plugin_insn_size(at)))
			qemu_plugin_register_vcpu_insn_exec_cb(at, on_marker, CB_NO_REGS, marker_of(code));
		else if (instrumented && address >> 63)
			qemu_plugin_register_vcpu_mem_cb(at, on_access, CB_NO_REGS, MEM_RW, (void *)address);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	self = id;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "w");
	if (!out) {
		fprintf(stderr, "conflicts: give out=FILE, usable\n");
		return -1;
	}
	instrument(id);
	return 0;
}
