// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU's translator that finds the µ-kernel's longest sections with interrupts off, in
 * instructions.
 *
 * User mode always has interrupts on, the kernel never but between `sti` and `cli`. So a section
 * begins with the first block in the kernel's part of the address space and ends with a block in
 * user mode, at `sti` or `cli`, or at `iretq` or `sysretq`: an interrupt that waits is taken there,
 * before any instruction of the user or of a window. For each section the plugin keeps how many
 * instructions each block contributed; of the sections with the same largest contributor it
 * remembers the longest. The kernel that runs is the one that is measured: nothing in it knows of
 * this.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "plugin.h"

enum {
	OPCODE_CLI = 0xfa,
	OPCODE_STI = 0xfb,
	/* Kinds of places that are reported, and the contributors of each. */
	PLACES = 256,
	CONTRIBUTORS = 8,
	/* Blocks of the kernel that can be distinguished: many times what it has. */
	BLOCKS = 1 << 16,
};

/* A block of the kernel's code. */
struct block {
	uint64_t address;
	uint64_t instructions;
	/* Its contribution in the section of this number, and another block of that section. */
	uint64_t stretch;
	uint64_t contributed;
	struct block *next;
};

/* The longest section whose largest contributor is the first one here. */
struct place {
	uint64_t length;
	uint64_t entry;
	struct {
		uint64_t address;
		uint64_t instructions;
	} contributors[CONTRIBUTORS];
};

static struct block blocks[BLOCKS];
static struct place places[PLACES];
static const char *output;

/* Whether the kernel's start is over: it has entered user mode. */
static bool started;
/* The current section. */
static uint64_t number;
static uint64_t length;
static uint64_t entry;
static struct block *contributors;

static void insert(struct place *place, const struct block *block)
{
	int at = CONTRIBUTORS;

	while (at > 0 && place->contributors[at - 1].instructions < block->contributed)
		at--;
	if (at == CONTRIBUTORS)
		return;
	memmove(&place->contributors[at + 1], &place->contributors[at],
		(CONTRIBUTORS - 1 - at) * sizeof(place->contributors[0]));
	place->contributors[at].address = block->address;
	place->contributors[at].instructions = block->contributed;
}

static void remember(void)
{
	struct place new = { .length = length, .entry = entry };
	struct place *shortest = places;

	for (struct block *block = contributors; block; block = block->next)
		insert(&new, block);
	for (struct place *place = places; place < places + PLACES; place++) {
		if (place->contributors[0].address == new.contributors[0].address) {
			if (place->length < length)
				*place = new;
			return;
		}
		if (place->length < shortest->length)
			shortest = place;
	}
	if (shortest->length < length)
		*shortest = new;
}

static void end_stretch(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (started && length)
		remember();
	length = 0;
	contributors = NULL;
	number++;
}

static void in_user(unsigned int vcpu, void *data)
{
	end_stretch(vcpu, data);
	/* The firmware, which runs before the kernel, looks like a user. */
	started = entry != 0;
}

static void in_kernel(unsigned int vcpu, void *data)
{
	struct block *block = data;

	(void)vcpu;
	if (!length)
		entry = block->address;
	if (block->stretch != number) {
		block->stretch = number;
		block->contributed = 0;
		block->next = contributors;
		contributors = block;
	}
	block->contributed += block->instructions;
	length += block->instructions;
}

static struct block *find_block(uint64_t address, uint64_t instructions)
{
	uint64_t at = (address * UINT64_C(0x9e3779b97f4a7c15) + instructions) % BLOCKS;

	while (blocks[at].instructions &&
	       (blocks[at].address != address || blocks[at].instructions != instructions))
		at = (at + 1) % BLOCKS;
	blocks[at].address = address;
	blocks[at].instructions = instructions;
	return &blocks[at];
}

static bool ends_stretch(const struct code *code)
{
	static const uint8_t iretq[] = { 0x48, 0xcf };
	static const uint8_t sysretq[] = { 0x48, 0x0f, 0x07 };

	return (code->size == 1 && (code->bytes[0] == OPCODE_STI || code->bytes[0] == OPCODE_CLI)) ||
	       (code->size == sizeof(iretq) && !memcmp(code->bytes, iretq, code->size)) ||
	       (code->size == sizeof(sysretq) && !memcmp(code->bytes, sysretq, code->size));
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (!is_kernels(address, true)) {
		qemu_plugin_register_vcpu_tb_exec_cb(tb, in_user, QEMU_PLUGIN_CB_NO_REGS, NULL);
		return;
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, in_kernel, QEMU_PLUGIN_CB_NO_REGS, find_block(address, count));
	for (size_t at = 0; at < count; at++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, at);
		const struct code code = code_of(insn);

		if (ends_stretch(&code))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, end_stretch, QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

static int longest_first(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	return (left->length < right->length) - (left->length > right->length);
}

/* A line for each place: length, entry, then contributors as address=instructions. */
static void report(qemu_plugin_id_t id, void *data)
{
	FILE *file = fopen(output, "w");

	(void)id;
	(void)data;
	if (!file) {
		perror(output);
		return;
	}
	qsort(places, PLACES, sizeof(places[0]), longest_first);
	for (struct place *place = places; place < places + PLACES && place->length; place++) {
		fprintf(file, "%" PRIu64 " %#" PRIx64, place->length, place->entry);
		for (int at = 0; at < CONTRIBUTORS && place->contributors[at].instructions; at++)
			fprintf(file, " %#" PRIx64 "=%" PRIu64, place->contributors[at].address,
				place->contributors[at].instructions);
		fputc('\n', file);
	}
	fclose(file);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	static const char key[] = "output=";

	(void)info;
	if (argc != 1 || strncmp(argv[0], key, strlen(key))) {
		fprintf(stderr, "latency: needs %sFILE\n", key);
		return -1;
	}
	output = strdup(argv[0] + strlen(key));
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, report, NULL);
	return 0;
}
