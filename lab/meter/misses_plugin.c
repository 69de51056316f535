// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU's translator (TCG) that feeds a model of TLBs (tlb_model.h), one for each virtual CPU, with the
 * accesses of programs to their memory, and counts page walks by CPU and leaf table between two markers. With the
 * nodes of the leaf tables (/proc/PID/hydra_map) that tells how many walks read a table of the CPU's own node.
 *
 * Programs say START_MEMORY, BEGIN, END, STOP (workloads/markers.h). Between START_MEMORY and BEGIN they can warm the
 * model up. Accesses of the kernel to memory of programs count, accesses to its own memory and fetches of instructions
 * do not. A write of CR3 and INVPCID empty the model's TLBs of that CPU. INVLPG empties the PDEs; which page it is, a
 * plugin cannot know: so there is at most one walk more for each, and their number is reported.
 *
 * The machine must run its virtual CPUs in turns (-icount): there are no locks here.
 *
 *   -plugin misses.so,out=FILE[,first=SETSxWAYS][,second=SETSxWAYS][,pdes=SETSxWAYS]
 */
#include <inttypes.h>
#include <stdio.h>

#include "plugin_interface.h"
#include "tlb_model.h"

#define MOST_CPUS 64
#define PLACES (1u << 16)		/* of walks; a power of two */

static struct cpu {
	struct tlb tlb;
	uint64_t found[TLB_FOUND];	/* in this sample */
	uint64_t invalidated;
} cpus[MOST_CPUS];

/* Walks of a CPU in a leaf table; the key is 0: nothing there. */
static struct place {
	uint64_t key;
	uint64_t walks;
} places[PLACES];

static struct tlb_sizes sizes = TLB_SIZES;
static bool instrumented, started, sampling;
static unsigned int left_out;		/* walks of more places than there is room for */
static qemu_plugin_id_t self;
static FILE *out;

/* --- Walks by CPU and table ------------------------------------------------------------------------------------- */

static uint64_t key_of(unsigned int cpu, uint64_t address)
{
	return address >> 21 << 6 | cpu | 1ULL << 63;
}

static void count_walk(unsigned int cpu, uint64_t address)
{
	uint64_t key = key_of(cpu, address);
	size_t at = key * 0x9e3779b97f4a7c15 >> 48;

	for (size_t tries = 0; tries < PLACES; tries++, at++) {
		struct place *place = &places[at % PLACES];

		if (place->key && place->key != key)
			continue;
		place->key = key;
		place->walks++;
		return;
	}
	left_out++;
}

static void report_places(unsigned int cpu)
{
	const char *comma = "";

	for (size_t i = 0; i < PLACES; i++) {
		const struct place *place = &places[i];
		uint64_t table = place->key << 1 >> 7;

		if (!place->key || (place->key & (MOST_CPUS - 1)) != cpu)
			continue;
		fprintf(out, "%s[%" PRIu64 ", %" PRIu64 "]", comma, table << 21, place->walks);
		comma = ", ";
	}
}

static void report(void)
{
	const char *comma = "";

	fprintf(out, "{\"left_out\": %u, \"cpus\": [", left_out);
	for (unsigned int i = 0; i < MOST_CPUS; i++) {
		const struct cpu *cpu = &cpus[i];
		uint64_t all = 0;

		for (enum tlb_found found = 0; found < TLB_FOUND; found++)
			all += cpu->found[found];
		if (!all)
			continue;
		fprintf(out, "%s{\"cpu\": %u, \"accesses\": %" PRIu64 ", \"second\": %" PRIu64 ", \"walks\": %" PRIu64
			", \"long\": %" PRIu64 ", \"invalidated\": %" PRIu64 ", \"tables\": [", comma, i, all,
			cpu->found[TLB_SECOND], cpu->found[TLB_WALK] + cpu->found[TLB_LONG_WALK],
			cpu->found[TLB_LONG_WALK], cpu->invalidated);
		report_places(i);
		fputs("]}", out);
		comma = ", ";
	}
	fputs("]}\n", out);
	fflush(out);
}

static void forget_counts(void)
{
	for (unsigned int i = 0; i < MOST_CPUS; i++) {
		memset(cpus[i].found, 0, sizeof(cpus[i].found));
		cpus[i].invalidated = 0;
	}
	memset(places, 0, sizeof(places));
	left_out = 0;
}

/* --- What CPUs do ----------------------------------------------------------------------------------------------- */

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	enum tlb_found found;

	(void)info;
	(void)data;
	if (!started || address >> 63 || cpu >= MOST_CPUS)
		return;
	found = tlb_access(&cpus[cpu].tlb, address);
	if (!sampling)
		return;
	cpus[cpu].found[found]++;
	if (found >= TLB_WALK)
		count_walk(cpu, address);
}

static void on_flush(unsigned int cpu, void *data)
{
	(void)data;
	if (cpu < MOST_CPUS)
		tlb_flush(&cpus[cpu].tlb);
}

static void on_invalidation(unsigned int cpu, void *data)
{
	(void)data;
	if (cpu >= MOST_CPUS)
		return;
	lru_clear(&cpus[cpu].tlb.pdes);
	cpus[cpu].invalidated++;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

static void instrument(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
}

/*
 * From the first time on, all code stays instrumented. A reset throws away translated code with its callbacks, and QEMU 7.2
 * may call those once more for a CPU that has halted: its pointer to them stays.
 */
static void start(void)
{
	for (unsigned int i = 0; i < MOST_CPUS; i++)
		tlb_flush(&cpus[i].tlb);
	started = true;
	if (instrumented)
		return;
	instrumented = true;
	qemu_plugin_reset(self, instrument);
}

static void on_marker(unsigned int cpu, void *data)
{
	(void)cpu;
	switch ((enum mark)((uint64_t)data >> 8)) {
	case START_MEMORY:
		start();
		break;
	case STOP:
		started = false;
		break;
	case BEGIN:
		forget_counts();
		sampling = true;
		break;
	case END:
		if (sampling)
			report();
		sampling = false;
		break;
	default:
		break;
	}
}

/* --- Translation ------------------------------------------------------------------------------------------------ */

/* The callback of an instruction that empties caches of the MMU; NULL: it does not. */
static instruction_callback flushes(const uint8_t *code, size_t size)
{
	size_t at = 0;

	while (at + 1 < size && is_prefix(code[at]))
		at++;
	if (at + 2 >= size || code[at] != 0x0f)
		return NULL;
	if (code[at + 1] == 0x22 && (code[at + 2] >> 3 & 7) == 3)		/* mov to CR3 */
		return on_flush;
	if (code[at + 1] == 0x38 && code[at + 2] == 0x82)			/* invpcid */
		return on_flush;
	if (code[at + 1] == 0x01 && (code[at + 2] >> 3 & 7) == 7 && code[at + 2] >> 6 != 3)	/* invlpg */
		return on_invalidation;
	return NULL;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t copy[LONGEST_INSN];
		const uint8_t *code = code_of(insn, copy);
		size_t size = qemu_plugin_insn_size(insn);
		instruction_callback flush;

		if (is_marker(code, size)) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, CB_NO_REGS, marker_of(code));
			continue;
		}
		if (!instrumented)
			continue;
		flush = flushes(code, size);
		if (flush)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, flush, CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, CB_NO_REGS, MEM_RW, NULL);
	}
}

/* --- The start -------------------------------------------------------------------------------------------------- */

static bool take_option(const char *option)
{
	if (!strncmp(option, "out=", 4)) {
		out = fopen(option + 4, "w");
		return out;
	}
	return sscanf(option, "first=%ux%u", &sizes.first.sets, &sizes.first.ways) == 2 ||
	       sscanf(option, "second=%ux%u", &sizes.second.sets, &sizes.second.ways) == 2 ||
	       sscanf(option, "pdes=%ux%u", &sizes.pdes.sets, &sizes.pdes.ways) == 2;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	self = id;
	for (int i = 0; i < argc; i++) {
		if (!take_option(argv[i])) {
			fprintf(stderr, "misses: cannot use '%s'\n", argv[i]);
			return -1;
		}
	}
	if (!out || !sizes.first.sets || !sizes.first.ways || !sizes.second.sets || !sizes.second.ways ||
	    !sizes.pdes.sets || !sizes.pdes.ways) {
		fprintf(stderr, "misses: give out=FILE, and sizes that are not 0\n");
		return -1;
	}
	for (unsigned int i = 0; i < MOST_CPUS; i++)
		tlb_make(&cpus[i].tlb, &sizes);
	instrument(id);
	return 0;
}
