// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU's translator that counts how often each block of the guest's code is executed
 * between two marks (guest/mark.h), user mode and every kernel alike. A block that an exception
 * leaves in its middle counts as a whole.
 *
 *   output=FILE   a line for each block of the last part: its address, its instructions, its
 *                 executions
 *   sums=on       instead a line `part INSTRUCTIONS` for each part
 *   part=on       the marks of a program that measures itself
 *   program=A-B   only what this program executes, by the addresses of its code, and what kernels
 *                 do until another program runs: on one processor
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marks.h"
#include "plugin.h"

enum {
	/* Blocks that can be distinguished: many times what a guest translates. */
	BLOCKS = 1 << 21,
	HEXADECIMAL = 16,
};

/*
 * From where on code is of no program: of the vDSO, which Linux puts above a stack that begins
 * within 16 GB below the end of the lower half (arch/x86/entry/vdso/vma.c), or of kernels.
 */
#define VDSO ((UINT64_C(1) << 47) - (UINT64_C(1) << 34))

/* A block of code; code at the same address in several spaces is one. */
struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t executed;
};

static struct block blocks[BLOCKS];
static const char *output;
/* With sums=on: where they go, and that of the current part. */
static FILE *sums;
static uint64_t sum;
static uint32_t begins = MARK_COMMAND_BEGINS, ends = MARK_COMMAND_ENDS;
/* With program=: the addresses of its code, and whether it was the last one that ran. */
static uint64_t program_start, program_end;
static int program_runs;

static struct block *find_block(uint64_t address, uint64_t instructions)
{
	static unsigned int used;
	uint64_t at = (address * UINT64_C(0x9e3779b97f4a7c15) + instructions) % BLOCKS;

	while (blocks[at].instructions &&
	       (blocks[at].address != address || blocks[at].instructions != instructions))
		at = (at + 1) % BLOCKS;
	if (!blocks[at].instructions && ++used == BLOCKS) {
		fprintf(stderr, "profile: the guest has more than %u blocks of code\n", BLOCKS);
		exit(EXIT_FAILURE);
	}
	blocks[at].address = address;
	blocks[at].instructions = instructions;
	return &blocks[at];
}

static void begin(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	for (struct block *block = blocks; block < blocks + BLOCKS; block++)
		block->executed = 0;
}

static void end(unsigned int vcpu, void *data)
{
	FILE *file = fopen(output, "w");

	(void)vcpu;
	(void)data;
	if (!file) {
		perror(output);
		return;
	}
	for (struct block *block = blocks; block < blocks + BLOCKS; block++)
		if (block->executed)
			fprintf(file, "%#" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address, block->instructions,
				block->executed);
	fclose(file);
}

static void begin_sum(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	sum = 0;
}

static void add(unsigned int vcpu, void *instructions)
{
	(void)vcpu;
	sum += (size_t)instructions;
}

static void end_sum(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	fprintf(sums, "part %" PRIu64 "\n", sum);
	fflush(sums);
}

static void program_enters(unsigned int vcpu, void *is_it)
{
	(void)vcpu;
	program_runs = is_it != NULL;
}

static void count_for_program(unsigned int vcpu, void *block)
{
	(void)vcpu;
	((struct block *)block)->executed += program_runs;
}

/* Has a block counted where the program runs, or ran last: kernels, and the vDSO, work for it. */
static void watch_program(struct qemu_plugin_tb *tb, struct block *block)
{
	int is_it = block->address >= program_start && block->address < program_end;

	if (block->address < VDSO)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, program_enters, QEMU_PLUGIN_CB_NO_REGS, is_it ? block : NULL);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, count_for_program, QEMU_PLUGIN_CB_NO_REGS, block);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (sums)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, add, QEMU_PLUGIN_CB_NO_REGS, (void *)count);
	else if (program_end)
		watch_program(tb, find_block(qemu_plugin_tb_vaddr(tb), count));
	else
		count_executions(tb, &find_block(qemu_plugin_tb_vaddr(tb), count)->executed);
	for (size_t at = 0; at < count; at++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, at);
		uint32_t mark = mark_of(insn);

		if (mark == begins)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, sums ? begin_sum : begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
		else if (mark == ends)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, sums ? end_sum : end, QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	static const char key[] = "output=", program[] = "program=";
	int only_sums = 0;

	(void)info;
	for (int at = 0; at < argc; at++) {
		if (!strncmp(argv[at], key, strlen(key))) {
			output = strdup(argv[at] + strlen(key));
		} else if (!strcmp(argv[at], "sums=on")) {
			only_sums = 1;
		} else if (!strcmp(argv[at], "part=on")) {
			begins = MARK_PART_BEGINS;
			ends = MARK_PART_ENDS;
		} else if (!strncmp(argv[at], program, strlen(program))) {
			char *rest;

			program_start = strtoull(argv[at] + strlen(program), &rest, HEXADECIMAL);
			program_end = strtoull(rest + strlen("-"), NULL, HEXADECIMAL);
		} else {
			fprintf(stderr, "profile: unknown argument %s\n", argv[at]);
			return -1;
		}
	}
	if (!output) {
		fprintf(stderr, "profile: needs %sFILE\n", key);
		return -1;
	}
	if (only_sums) {
		sums = fopen(output, "w");
		if (!sums) {
			perror(output);
			return -1;
		}
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
