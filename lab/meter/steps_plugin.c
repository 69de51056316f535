// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU's translator (TCG) that counts what one virtual CPU executes between two markers: the instrument
 * of ./hydra bench steps. workloads/steps.c has the markers.
 *
 * Until a program says START only markers are instrumented, so that the machine boots nearly as fast as ever. Then all
 * translations are thrown away and each instruction calls on_instruction(), and after START_MEMORY each access to memory
 * on_access() too.
 *
 * The machine must run its virtual CPUs in turns (-icount, or -accel tcg,thread=single): there are no locks here.
 *
 *   -plugin steps.so,symbols=FILE,out=FILE[,functions=on]
 *
 * The symbols are those of the kernel, in the order of their addresses: "address class name", see enum class.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plugin_interface.h"

/* --- What is kept ----------------------------------------------------------------------------------------------- */

/* What the execution of a symbol's first instruction means. */
enum class {
	ORDINARY,	/* "-" */
	PAGES,		/* "p": pages are allocated */
	OBJECT,		/* "s": an object is allocated of a slab */
	RCU,		/* "r": a callback is queued for the end of a grace period */
	SWITCH,		/* "t": to another task */
	INTERRUPT,	/* "i": an interrupt for the CPU itself: a timer's, another CPU's */
	DEVICE,		/* "d": an interrupt of a device */
	EXCEPTION,	/* "e" */
	FAULT,		/* "f": an exception after which an instruction is executed once more */
};

static const char class_letters[] = "-psrtidef";

#define MAX_SYMBOLS (1u << 17)
#define NAME_LENGTH 64

static struct symbol {
	uint64_t address;
	enum class class;
	char name[NAME_LENGTH];
} symbols[MAX_SYMBOLS];
static size_t nr_symbols;
static bool want_functions;

/* By symbol: instructions executed in this sample; with START_MEMORY the remote lines. */
static uint32_t in_function[MAX_SYMBOLS];

/* What callbacks know of an instruction, packed into their data so that nothing is to be read or freed. */
#define SYMBOL_SHIFT 44
#define CLASS_SHIFT 40
#define KERNEL (1ULL << 32)
#define LOCKED (1ULL << 33)
#define REPEATED (1ULL << 34)
#define PAUSE (1ULL << 35)
#define IRET (1ULL << 36)

struct counts {
	uint64_t user, kernel, locked, pages, objects, rcu, switches, remote;
};

/* The sample that is being taken. There is one at most: programs measure one after the other. */
static struct sample {
	int cpu;		/* that is measured; -1: none */
	uint32_t number;
	uint8_t policy, row;
	const char *dirty;	/* why it is worth nothing */
	struct counts now;
	uint64_t executed;	/* by the emulator: interrupts, repetitions and waiting too */
	uint64_t last;		/* instruction counted */
	uint64_t faulting;	/* taken back, as it caused the fault that is being handled; 0: none */
	bool returned;		/* from handling it, by the instruction before */
	uint64_t repeating;	/* the instruction with a REP that was executed last, if none came after it */

	/* Interrupts are not counted. */
	unsigned int interrupts, depth;
	uint64_t repeating_before;

	/* Of a loop that waits for another CPU, the first pass is counted. */
	unsigned int waits;
	uint64_t waiting_at;
	struct counts waiting_since;
} sample = { .cpu = -1 };

#define LONGEST_WAIT_PASS 64	/* instructions: a longer way from one pause to the next one does something */

static enum depth { MARKERS, INSTRUCTIONS, ACCESSES } instrumented;
static qemu_plugin_id_t self;
static FILE *out;

/* --- Remote lines ----------------------------------------------------------------------------------------------- */

/* Which CPU has changed a line last, and which ones have read it since. */
struct line {
	uint64_t readers;
	uint32_t writer;	/* + 1; 0: not seen yet */
	uint32_t counted;	/* in the sample of this number */
};

#define NR_LINES (1ULL << 28)	/* 16 GiB of addresses; only what the machine uses becomes memory */
static struct line *lines;

/* Does this access fetch a line from another CPU, or take it away from one? */
static bool moves_line(struct line *line, unsigned int cpu, bool store)
{
	uint64_t me = 1ULL << cpu;
	bool others = line->writer && line->writer != cpu + 1 && !(line->readers & me);

	if (!store) {
		line->readers |= me;
		return others;
	}
	others |= (line->readers & ~me) != 0 || (line->writer && line->writer != cpu + 1);
	line->writer = cpu + 1;
	line->readers = me;
	return others;
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct qemu_plugin_hwaddr *at = qemu_plugin_get_hwaddr(info, address);
	struct line *line;
	uint64_t number;

	if (!at || qemu_plugin_hwaddr_is_io(at))
		return;
	number = qemu_plugin_hwaddr_phys_addr(at) / 64;
	if (number >= NR_LINES)
		return;
	line = &lines[number];
	if (moves_line(line, cpu, qemu_plugin_mem_is_store(info)) && (int)cpu == sample.cpu && !sample.depth &&
	    line->counted != sample.number) {
		/* Fetched to be read and taken away to be written is one line all the same. */
		line->counted = sample.number;
		sample.now.remote++;
		in_function[(uint64_t)data >> SYMBOL_SHIFT]++;
	}
}

/* --- Instructions ----------------------------------------------------------------------------------------------- */

/* Takes note of interrupts; true while one is being handled. */
static bool interrupted(uint64_t insn, enum class class)
{
	if (!sample.depth) {
		if (class == DEVICE)
			sample.dirty = "an interrupt of a device";
		if (class != INTERRUPT)
			return false;
		sample.interrupts++;
		sample.depth = 1;
		sample.repeating_before = sample.repeating;
		return true;
	}
	if (class == INTERRUPT || class == EXCEPTION || class == FAULT) {
		sample.depth++;
	} else if (class == SWITCH) {
		/* What comes now is another task, the way back not the interrupt's. */
		sample.dirty = "an interrupt switched to another task";
		sample.depth = 0;
	} else if (insn & IRET && !--sample.depth) {
		sample.repeating = sample.repeating_before;
	}
	return true;
}

/* A pause: if it closes another pass of a wait loop, that pass did not happen. */
static void count_pause(uint64_t insn)
{
	uint64_t kernel = sample.now.kernel - sample.waiting_since.kernel;

	sample.waits++;
	if (insn == sample.waiting_at && kernel + sample.now.user - sample.waiting_since.user <= LONGEST_WAIT_PASS) {
		uint32_t *here = &in_function[insn >> SYMBOL_SHIFT];

		/* The loop is one function's but for what that calls. */
		if (instrumented == INSTRUCTIONS)
			*here -= kernel < *here ? kernel : *here;
		sample.now = sample.waiting_since;
		return;
	}
	sample.waiting_at = insn;
	sample.waiting_since = sample.now;
}

static void count(uint64_t insn, int64_t times)
{
	if (insn & KERNEL)
		sample.now.kernel += times;
	else
		sample.now.user += times;
	if (insn & LOCKED)
		sample.now.locked += times;
	if (instrumented == INSTRUCTIONS)
		in_function[insn >> SYMBOL_SHIFT] += times;
}

/*
 * An instruction that causes a fault does not come to its end: it is executed
 * again later, and counts then.
 */
static void take_back(void)
{
	if (!sample.last)
		return;
	count(sample.last, -1);
	sample.executed--;
	sample.faulting = sample.last;
	sample.last = 0;
}

/*
 * The handling of a fault is over. If another instruction follows than was taken
 * back, then that one had been executed, and its successor could not be fetched.
 */
static void settle_fault(uint64_t insn)
{
	if (insn != sample.faulting) {
		count(sample.faulting, 1);
		sample.executed++;
	}
	sample.faulting = 0;
}

static void on_instruction(unsigned int cpu, void *data)
{
	uint64_t insn = (uint64_t)data;
	enum class class;

	if ((int)cpu != sample.cpu)
		return;
	sample.executed++;
	class = insn >> CLASS_SHIFT & 0xf;
	if (interrupted(insn, class))
		return;
	if (sample.returned && sample.faulting)
		settle_fault(insn);
	sample.returned = insn & IRET;
	if (class == FAULT)
		take_back();
	/* The emulator executes an instruction with a REP once for each repetition, a processor once. */
	if (insn & REPEATED) {
		if (insn == sample.repeating)
			return;
		sample.repeating = insn;
	} else {
		sample.repeating = 0;
	}
	count(insn, 1);
	sample.last = insn;
	if (insn & PAUSE)
		count_pause(insn);
	switch (class) {
	case PAGES:
		sample.now.pages++;
		break;
	case OBJECT:
		sample.now.objects++;
		break;
	case RCU:
		sample.now.rcu++;
		break;
	case SWITCH:
		sample.now.switches++;
		break;
	default:
		break;
	}
}

/* --- Markers ---------------------------------------------------------------------------------------------------- */

static void report(void)
{
	const struct counts *now = &sample.now;
	const char *comma = "";

	fprintf(out, "{\"policy\": %u, \"row\": %u, \"accesses\": %u, \"dirty\": \"%s\", \"interrupts\": %u, \"waits\": %u",
		sample.policy, sample.row, instrumented == ACCESSES, sample.dirty ? sample.dirty : "",
		sample.interrupts, sample.waits);
	fprintf(out, ", \"user\": %" PRIu64 ", \"kernel\": %" PRIu64 ", \"locked\": %" PRIu64 ", \"executed\": %" PRIu64,
		now->user, now->kernel, now->locked, sample.executed);
	fprintf(out, ", \"pages\": %" PRIu64 ", \"objects\": %" PRIu64 ", \"call_rcu\": %" PRIu64 ", \"switches\": %" PRIu64
		", \"remote\": %" PRIu64, now->pages, now->objects, now->rcu, now->switches, now->remote);
	if (want_functions) {
		fputs(", \"functions\": {", out);
		for (size_t i = 1; i < nr_symbols; i++) {
			if (in_function[i]) {
				fprintf(out, "%s\"%zu\": %" PRIu32, comma, i, in_function[i]);
				comma = ", ";
			}
		}
		fputc('}', out);
	}
	fputs("}\n", out);
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
	enum depth wanted;

	switch (mark) {
	case START:
	case START_MEMORY:
	case STOP:
		wanted = mark == START ? INSTRUCTIONS : mark == START_MEMORY ? ACCESSES : MARKERS;
		if (instrumented == wanted)
			return;
		instrumented = wanted;
		qemu_plugin_reset(self, instrument);
		return;
	case POLICY:
		sample.policy = value;
		return;
	case ROW:
		sample.row = value;
		return;
	case BEGIN:
		sample = (struct sample){ .cpu = cpu, .number = sample.number + 1, .policy = sample.policy, .row = sample.row };
		memset(in_function, 0, sizeof(*in_function) * nr_symbols);
		return;
	case END:
		if (sample.cpu < 0)
			return;
		if (sample.cpu != (int)cpu)
			sample.dirty = "it ended on another CPU than it began on";
		report();
		sample.cpu = -1;
		return;
	}
}

/* --- Translation ------------------------------------------------------------------------------------------------ */

static size_t symbol_of(uint64_t address)
{
	size_t low = 0, high = nr_symbols;

	if (!(address >> 63))
		return 0;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (symbols[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Instructions that a REP repeats; on others it means something else (pause, popcnt). */
static bool is_string(uint8_t opcode)
{
	return (opcode >= 0x6c && opcode <= 0x6f) || (opcode >= 0xa4 && opcode <= 0xa7) ||
	       (opcode >= 0xaa && opcode <= 0xaf);
}

static uint64_t describe(const uint8_t *code, size_t size, uint64_t address)
{
	size_t at = 0, symbol = symbol_of(address);
	uint64_t insn = (address & UINT32_MAX) | (uint64_t)symbol << SYMBOL_SHIFT;
	bool lock = false, rep = false;

	for (; at + 1 < size && is_prefix(code[at]); at++) {
		lock |= code[at] == 0xf0;
		rep |= code[at] == 0xf2 || code[at] == 0xf3;
	}
	if (address >> 63)
		insn |= KERNEL;
	/* An exchange with memory is locked without the prefix. */
	if (lock || ((code[at] & 0xfe) == 0x86 && at + 1 < size && code[at + 1] >> 6 != 3))
		insn |= LOCKED;
	if (rep && is_string(code[at]))
		insn |= REPEATED;
	if (rep && code[at] == 0x90)
		insn |= PAUSE;
	if (code[at] == 0xcf)
		insn |= IRET;
	if (symbols[symbol].address == address)
		insn |= (uint64_t)symbols[symbol].class << CLASS_SHIFT;
	return insn;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *at = qemu_plugin_tb_get_insn(tb, i);
		uint8_t copy[LONGEST_INSN];
		const uint8_t *code = code_of(at, copy);
		size_t size = qemu_plugin_insn_size(at);
		void *insn;

		if (is_marker(code, size)) {
			qemu_plugin_register_vcpu_insn_exec_cb(at, on_marker, CB_NO_REGS,
							       marker_of(code));
			continue;
		}
		if (instrumented == MARKERS)
			continue;
		insn = (void *)describe(code, size, qemu_plugin_insn_vaddr(at));
		qemu_plugin_register_vcpu_insn_exec_cb(at, on_instruction, CB_NO_REGS, insn);
		if (instrumented == ACCESSES)
			qemu_plugin_register_vcpu_mem_cb(at, on_access, CB_NO_REGS, MEM_RW, insn);
	}
}

/* --- The start -------------------------------------------------------------------------------------------------- */

static bool read_symbols(const char *path)
{
	FILE *file = fopen(path, "r");
	char letter;

	if (!file)
		return false;
	/* The first one stands for all that is not the kernel's. */
	nr_symbols = 1;
	while (nr_symbols < MAX_SYMBOLS) {
		struct symbol *symbol = &symbols[nr_symbols];
		const char *found;

		if (fscanf(file, "%" SCNx64 " %c %63s", &symbol->address, &letter, symbol->name) != 3)
			break;
		found = strchr(class_letters, letter);
		if (!found)
			break;
		symbol->class = found - class_letters;
		nr_symbols++;
	}
	letter = feof(file);
	fclose(file);
	return letter && nr_symbols > 1;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	self = id;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "symbols=", 8) && !read_symbols(argv[i] + 8)) {
			fprintf(stderr, "steps: cannot read the symbols in %s\n", argv[i] + 8);
			return -1;
		}
		if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "w");
		if (!strcmp(argv[i], "functions=on"))
			want_functions = true;
	}
	lines = mmap(NULL, NR_LINES * sizeof(*lines), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!nr_symbols || !out || lines == MAP_FAILED) {
		fprintf(stderr, "steps: give symbols=FILE and out=FILE, both usable\n");
		return -1;
	}
	instrument(id);
	return 0;
}
