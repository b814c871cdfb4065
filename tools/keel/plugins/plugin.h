/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * QEMU's interface for plugins, as far as it is used here: its header is not packaged everywhere.
 * PLUGIN_API is the version that the plugin is built for: 1, which QEMU has before 9.0, 2, or 3,
 * which it has from 9.1 on beside later ones.
 */
#ifndef KEEL_PLUGIN_H
#define KEEL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
typedef uint32_t qemu_plugin_meminfo_t;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };
typedef void (*qemu_plugin_udata_cb)(qemu_plugin_id_t id, void *data);
typedef void (*qemu_plugin_tb_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_plugin_vcpu_cb)(unsigned int vcpu, void *data);
typedef void (*qemu_plugin_mem_cb)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_tb_cb cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb cb, void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_cb cb,
					  enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_cb cb,
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_mem_cb cb,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw which, void *data);
_Bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
_Bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t number);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = PLUGIN_API;

/* An instruction. */
struct code {
	size_t size;
	uint8_t bytes[15];
};

#if PLUGIN_API < 3
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);

static inline void read_code(const struct qemu_plugin_insn *insn, struct code *code)
{
	memcpy(code->bytes, qemu_plugin_insn_data(insn), code->size);
}
#else
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *bytes, size_t size);

static inline void read_code(const struct qemu_plugin_insn *insn, struct code *code)
{
	qemu_plugin_insn_data(insn, code->bytes, code->size);
}
#endif

static inline struct code code_of(const struct qemu_plugin_insn *insn)
{
	const size_t size = qemu_plugin_insn_size(insn);
	struct code code = { .size = size < sizeof(code.bytes) ? size : sizeof(code.bytes) };

	read_code(insn, &code);
	return code;
}

#if PLUGIN_API < 2
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, enum qemu_plugin_op op, void *place,
					      uint64_t value);

/* Has a number counted up each time that a block is executed. */
static inline void count_executions(struct qemu_plugin_tb *tb, uint64_t *number)
{
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, number, 1);
}
#else
static inline void count_up(unsigned int vcpu, void *number)
{
	(void)vcpu;
	++*(uint64_t *)number;
}

static inline void count_executions(struct qemu_plugin_tb *tb, uint64_t *number)
{
	qemu_plugin_register_vcpu_tb_exec_cb(tb, count_up, QEMU_PLUGIN_CB_NO_REGS, number);
}
#endif

#endif
