// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the plugin lab/meter/misses_plugin.c without QEMU, as VERSION of QEMU's interface does. The arguments are the
 * plugin's. Standard input has a line for each instruction: "i CPU HEX" executes the instruction, "a CPU ADDRESS" one
 * that accesses memory there.
 */
#include "misses_plugin.c"

struct qemu_plugin_insn {
	uint8_t code[16];
	size_t size;
	instruction_callback executed;
	access_callback accessed;
	void *data;
};

struct qemu_plugin_tb {
	struct qemu_plugin_insn insn;
};

static translation_callback translated;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translation_callback callback)
{
	(void)id;
	translated = callback;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, instruction_callback callback, int flags, void *data)
{
	(void)flags;
	insn->executed = callback;
	insn->data = data;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, access_callback callback, int flags, int accesses, void *data)
{
	(void)flags;
	(void)accesses;
	(void)data;
	insn->accessed = callback;
}

void qemu_plugin_reset(qemu_plugin_id_t id, void (*done)(qemu_plugin_id_t id))
{
	done(id);
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	(void)tb;
	return 1;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index)
{
	return (struct qemu_plugin_insn *)&tb[index].insn;
}

#if VERSION == 4
char qemu_plugin_read_memory_vaddr[1];

size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *copy, size_t size)
{
	size = size < insn->size ? size : insn->size;
	memcpy(copy, insn->code, size);
	return size;
}
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
	return insn->code;
}
#endif

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->size;
}

static struct qemu_plugin_tb translate_code(const char *hex)
{
	struct qemu_plugin_tb tb = { 0 };

	while (sscanf(hex + 2 * tb.insn.size, "%2hhx", &tb.insn.code[tb.insn.size]) == 1)
		tb.insn.size++;
	translated(0, &tb);
	return tb;
}

int main(int argc, char **argv)
{
	unsigned int cpu;
	char kind, word[32];

	if (qemu_plugin_version != VERSION || qemu_plugin_install(0, NULL, argc - 1, argv + 1))
		return 1;
	while (scanf(" %c %u %31s", &kind, &cpu, word) == 3) {
		struct qemu_plugin_tb tb = translate_code(kind == 'i' ? word : "488b07");

		if (tb.insn.executed)
			tb.insn.executed(cpu, tb.insn.data);
		if (kind == 'a' && tb.insn.accessed)
			tb.insn.accessed(cpu, 0, strtoull(word, NULL, 0), NULL);
	}
	return 0;
}
