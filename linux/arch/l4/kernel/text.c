// SPDX-License-Identifier: GPL-2.0-only
/*
 * Changes of the server's own text, which is writable: jump labels, which are jumps or
 * no-operations of the same length, and what x86's BPF compiler asks for. While text that may be
 * executing is changed, stop_machine() keeps all processors from running other code of Linux: each
 * one writes the same bytes and then serialises itself (sync_core()).
 */
#include <linux/jump_label.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <asm/nops.h>
#include <asm/sync_core.h>
#include <asm/text-patching.h>

static const u8 l4_nops[] = {
	BYTES_NOP1, BYTES_NOP2, BYTES_NOP3, BYTES_NOP4,
	BYTES_NOP5, BYTES_NOP6, BYTES_NOP7, BYTES_NOP8,
};

/* By length. In l4_nops, that of length n comes after all those of lengths up to n - 1. */
const u8 * const x86_nops[] = {
	NULL, l4_nops, l4_nops + 1, l4_nops + 3, l4_nops + 6, l4_nops + 10, l4_nops + 15,
	l4_nops + 21, l4_nops + 28,
};
static_assert(ARRAY_SIZE(x86_nops) == ASM_NOP_MAX + 1 && sizeof(l4_nops) == 36);

struct patch {
	void *place;
	const void *bytes;
	size_t size;
};

/* Called on each processor by stop_machine(), with interrupts off. */
static int l4_write_patch(void *argument)
{
	const struct patch *patch = argument;

	memcpy(patch->place, patch->bytes, patch->size);
	sync_core();
	return 0;
}

void text_poke_bp(void *place, const void *bytes, size_t size, const void *emulate)
{
	struct patch patch = { .place = place, .bytes = bytes, .size = size };

	stop_machine(l4_write_patch, &patch, cpu_online_mask);
}

/* These two write text that is not executed yet. */
void *text_poke_copy(void *place, const void *bytes, size_t size)
{
	return memcpy(place, bytes, size);
}

void *text_poke_set(void *place, int byte, size_t size)
{
	return memset(place, byte, size);
}

/* Compiled BPF programs call it on processors with that bug; Linux finds none of them here. */
void clear_bhb_loop(void)
{
}

/* The assembler chose the length of the jump. A no-operation of two bytes replaced a short one. */
int arch_jump_entry_size(struct jump_entry *entry)
{
	const u8 *code = (const u8 *)jump_entry_code(entry);

	return *code == JMP8_INSN_OPCODE ||
	       !memcmp(code, x86_nops[JMP8_INSN_SIZE], JMP8_INSN_SIZE) ?
	       JMP8_INSN_SIZE : JMP32_INSN_SIZE;
}

/* Writes a jump label as a jump or as a no-operation of its length. cpus_read_lock() is held. */
void arch_jump_label_transform(struct jump_entry *entry, enum jump_label_type type)
{
	void *place = (void *)jump_entry_code(entry);
	int size = arch_jump_entry_size(entry);
	u8 jump = size == JMP8_INSN_SIZE ? JMP8_INSN_OPCODE : JMP32_INSN_OPCODE;
	struct patch patch = { .place = place, .bytes = x86_nops[size], .size = size };

	if (type == JUMP_LABEL_JMP)
		patch.bytes = text_gen_insn(jump, place, (void *)jump_entry_target(entry));
	stop_machine_cpuslocked(l4_write_patch, &patch, cpu_online_mask);
}
