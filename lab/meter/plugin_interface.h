/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the plugins of QEMU's translator (TCG) use of its interface, which Debian ships without the header: of version 1
 * (QEMU 7.2, Debian 12) and of version 4 (QEMU 10.0, Debian 13). And how they know markers.
 *
 * A marker is an instruction that does nothing and that no compiler makes: a long NOP whose displacement is a magic
 * number, what is to be done, and a value:  0f 1f 80 <le32: 0x4859 << 16 | mark << 8 | value>. A program needs no help
 * of the kernel to execute one, and a plugin no registers, which version 1 cannot read.
 */
#ifndef PLUGIN_INTERFACE_H
#define PLUGIN_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

enum { CB_NO_REGS };
enum { MEM_RW = 3 };

typedef void (*instruction_callback)(unsigned int cpu, void *data);
typedef void (*access_callback)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
typedef void (*translation_callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translation_callback callback);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, instruction_callback callback, int flags,
					    void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, access_callback callback, int flags, int accesses,
				      void *data);
void qemu_plugin_reset(qemu_plugin_id_t id, void (*done)(qemu_plugin_id_t id));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *at);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *at);

/* QEMU reads the version when it has loaded the plugin. The function that tells the versions apart came with version 4. */
EXPORT int qemu_plugin_version = 1;
extern char qemu_plugin_read_memory_vaddr[] __attribute__((weak));

static __attribute__((constructor)) void choose_version(void)
{
	if (qemu_plugin_read_memory_vaddr)
		qemu_plugin_version = 4;
}

enum { LONGEST_INSN = 15 };
const void *code_in_qemu(const struct qemu_plugin_insn *insn) __asm__("qemu_plugin_insn_data");
size_t copy_code(const struct qemu_plugin_insn *insn, void *copy, size_t size) __asm__("qemu_plugin_insn_data");

/* The bytes of an instruction: version 1 returns QEMU's own, version 4 fills the copy. */
static inline const uint8_t *code_of(const struct qemu_plugin_insn *insn, uint8_t *copy)
{
	if (qemu_plugin_version == 1)
		return code_in_qemu(insn);
	copy_code(insn, copy, LONGEST_INSN);
	return copy;
}

/* What a marker asks for; the same numbers are in workloads/markers.h. */
enum mark { START = 1, START_MEMORY, STOP, POLICY, ROW, BEGIN, END };

static inline bool is_marker(const uint8_t *code, size_t size)
{
	return size == 7 && code[0] == 0x0f && code[1] == 0x1f && code[2] == 0x80 && code[5] == 0x59 && code[6] == 0x48;
}

/* The mark and the value of a marker, as the data of a callback */
static inline void *marker_of(const uint8_t *code)
{
	return (void *)(uint64_t)(code[4] << 8 | code[3]);
}

static inline bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65:	/* segments */
	case 0x66: case 0x67:							/* sizes */
	case 0xf0: case 0xf2: case 0xf3:
		return true;
	}
	return (byte & 0xf0) == 0x40;						/* REX */
}

#endif /* PLUGIN_INTERFACE_H */
