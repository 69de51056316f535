// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the plugin lab/meter/conflicts_plugin.c without QEMU. The arguments are the plugin's. Standard input has a line for
 * each instruction: "i CPU HEX" executes the instruction, "r CPU CODE ADDRESS" and "w CPU CODE ADDRESS" one at CODE that reads
 * or writes at ADDRESS, which is also its place in memory.
 */
#include "conflicts_plugin.c"

struct qemu_plugin_insn {
	uint8_t code[16];
	size_t size;
	uint64_t address;
	instruction_callback executed;
	access_callback accessed;
	void *data;
};

struct qemu_plugin_tb {
	struct qemu_plugin_insn insn;
};

static translation_callback translated;
static uint64_t accessed_at;

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
	insn->accessed = callback;
	insn->data = data;
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
	(void)index;
	return (struct qemu_plugin_insn *)&tb->insn;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->size;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->address;
}

const void *code_in_qemu(const struct qemu_plugin_insn *insn)
{
	return insn->code;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	return info;
}

struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address)
{
	(void)info;
	accessed_at = address;
	return (struct qemu_plugin_hwaddr *)&accessed_at;
}

bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *at)
{
	return *(const uint64_t *)at == 0xdead;
}

uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *at)
{
	return *(const uint64_t *)at;
}

int main(int argc, char **argv)
{
	unsigned long long code, address;
	char line[128], hex[40], kind;
	unsigned int cpu;

	if (qemu_plugin_install(0, NULL, argc - 1, argv + 1))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		struct qemu_plugin_tb tb = { .insn.size = 1 };

		if (sscanf(line, "i %u %39s", &cpu, hex) == 2) {
			tb.insn.size = strlen(hex) / 2;
			for (size_t i = 0; i < tb.insn.size; i++)
				sscanf(hex + 2 * i, "%2hhx", &tb.insn.code[i]);
			translated(0, &tb);
			if (tb.insn.executed)
				tb.insn.executed(cpu, tb.insn.data);
		} else if (sscanf(line, "%c %u %llx %llx", &kind, &cpu, &code, &address) == 4) {
			tb.insn.address = code;
			translated(0, &tb);
			if (tb.insn.accessed)
				tb.insn.accessed(cpu, kind == 'w', address, tb.insn.data);
		} else {
			return 2;
		}
	}
	return 0;
}
