// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU's translator that reports to models of processors (model.h) what the guest does
 * between two marks (guest/mark.h), and writes the cycles that they make of it, by part and by
 * block of code.
 *
 * A change of mode is seen by its instruction, or, for exceptions and devices' interrupts, by a
 * block of the kernel after one of a program that ended neither with SYSCALL nor with a jump there,
 * by which programs in ring 0 enter the kernel without a change: one by r11, as ukl/libc/call.s has
 * it, or by a word in memory to where SYSCALL enters. A block that an exception leaves in its
 * middle counts as a whole. One processor only. Not seen: the page tables' own place in the
 * caches, which page INVLPG names, the number in CR3, and loads of segment registers by LDS and
 * LES, whose first byte is a prefix in 64-bit code, and of CS by far jumps.
 *
 *   output=FILE   where the report goes: lines `part INSTRUCTIONS CYCLES...`,
 *                 `misses CODE DATA...` and `space_changes WRITES-OF-CR3` for each part, and
 *                 `block ADDRESS INSTRUCTIONS CYCLES...` for each block of the last one; two
 *                 numbers of cycles, and two times two of misses, for each machine (model.h,
 *                 VARIANTS)
 *   model=FILE    lines `machine NAME`, each followed by lines `PARAMETER NUMBER`
 *   part=on       the marks of a program that measures itself
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "marks.h"
#include "model.h"
#include "plugin.h"

enum {
	MACHINES = 4,
	PAGE_SIZE = 4096,
	MILLI = 1000,
	WORD_SIZE = 64,
};

/* A translated block of code, forever: code that is translated again is another one. */
struct block {
	struct block *next;
	uint64_t address;
	uint64_t instructions;
	uint64_t executed;
	struct time time[MACHINES];
	/* Its pieces in one or two pages. */
	struct {
		uint64_t address, physical, bytes;
	} pieces[2];
	/* What its last instruction does to the mode. */
	enum change last;
	/* It is a jump by r11, or by a word in memory. */
	bool jumps_by_r11, jumps_by_memory;
};

static struct machine machines[MACHINES];
static int machine_count;
static uint32_t begins = MARK_COMMAND_BEGINS, ends = MARK_COMMAND_ENDS;
static FILE *report;
static struct block *blocks;

/* The current part, and the block that runs: none before the first one. */
static bool running;
static struct block *current;
static uint64_t instructions;
static uint64_t space_changes;
/* Where SYSCALL entered the kernel last. */
static uint64_t entry;
static struct time times[MACHINES];

static void charge(int number, struct time time)
{
	for (int variant = 0; variant < VARIANTS; variant++) {
		times[number].of[variant] += time.of[variant];
		current->time[number].of[variant] += time.of[variant];
	}
}

static void begin(unsigned int vcpu, void *data)
{
	(void)vcpu;
	for (struct block *block = blocks; block; block = block->next) {
		block->executed = 0;
		memset(block->time, 0, sizeof(block->time));
	}
	memset(times, 0, sizeof(times));
	for (int number = 0; number < machine_count; number++)
		model_forget_misses(&machines[number]);
	instructions = 0;
	space_changes = 0;
	current = data;
	running = true;
}

static void print_times(const struct time *time)
{
	for (int number = 0; number < machine_count; number++)
		for (int variant = 0; variant < VARIANTS; variant++)
			fprintf(report, " %" PRIu64, time[number].of[variant] / MILLI);
	fputc('\n', report);
}

static void end(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (!running)
		return;
	running = false;
	fprintf(report, "part %" PRIu64, instructions);
	print_times(times);
	fputs("misses", report);
	for (int number = 0; number < machine_count; number++)
		for (int variant = 0; variant < VARIANTS; variant++)
			for (int kind = 0; kind < PAGE_KINDS; kind++)
				fprintf(report, " %" PRIu64, model_misses(&machines[number], variant, kind));
	fprintf(report, "\nspace_changes %" PRIu64 "\n", space_changes);
}

static void write_blocks(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	for (struct block *block = blocks; block; block = block->next)
		if (block->executed) {
			fprintf(report, "block %#" PRIx64 " %" PRIu64, block->address, block->instructions * block->executed);
			print_times(block->time);
		}
	fclose(report);
}

static bool in_kernel(const struct block *block)
{
	return is_kernels(block->address, machines->costs.shared_half);
}

/* How the mode changed between two blocks. */
static enum change change_between(const struct block *from, const struct block *to)
{
	if (from->last == SYSCALL)
		entry = to->address;
	if (from->last != NO_CHANGE)
		return from->last;
	if (from->jumps_by_r11 || (from->jumps_by_memory && entry == to->address))
		return NO_CHANGE;
	return !in_kernel(from) && in_kernel(to) ? EXCEPTION : NO_CHANGE;
}

static void executed(unsigned int vcpu, void *data)
{
	struct block *block = data;
	const struct block *before = current ? current : block;
	enum change change;

	(void)vcpu;
	/* Also between the parts: a program with a gate may make no SYSCALL in any part. */
	change = change_between(before, block);
	current = block;
	if (!running)
		return;
	block->executed++;
	instructions += block->instructions;
	for (int number = 0; number < machine_count; number++) {
		struct machine *machine = &machines[number];
		struct time time = { 0 };

		model_change(machine, change, &time);
		/*
		 * IRET inside the kernel is the end of an exception inside the kernel, whose begin
		 * nothing showed.
		 */
		if (change == IRET && in_kernel(block))
			model_change(machine, EXCEPTION, &time);
		for (int at = 0; at < 2 && block->pieces[at].bytes; at++)
			model_fetch(machine, block->pieces[at].address, block->pieces[at].physical, block->pieces[at].bytes,
				    &time);
		model_execute(machine, block->instructions, &time);
		charge(number, time);
	}
}

static void accessed(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	const struct qemu_plugin_hwaddr *place;
	uint64_t physical;

	(void)vcpu;
	(void)data;
	if (!running)
		return;
	place = qemu_plugin_get_hwaddr(info, address);
	/* A device's register is in no cache. */
	if (!place || qemu_plugin_hwaddr_is_io(place))
		return;
	physical = qemu_plugin_hwaddr_phys_addr(place);
	for (int number = 0; number < machine_count; number++) {
		struct time time = { 0 };

		model_access(&machines[number], address, physical, qemu_plugin_mem_is_store(info), &time);
		charge(number, time);
	}
}

/* An instruction that changes what is translated is executed. */
static void changes(enum change change)
{
	for (int number = 0; running && number < machine_count; number++) {
		struct time time = { 0 };

		model_change(&machines[number], change, &time);
		charge(number, time);
	}
}

static void writes_cr3(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	space_changes++;
	changes(SPACE_CHANGE);
}

static void loads_segment(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	changes(SEGMENT_LOAD);
}

static void invalidates_page(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	changes(PAGE_INVALIDATION);
}

static bool is(const struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size)
{
	const struct code code = code_of(insn);

	return code.size >= size && !memcmp(code.bytes, bytes, size);
}

#define IS(insn, ...) is(insn, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/*
 * Intel SDM volume 2: the opcodes of SYSCALL, SYSENTER, SYSRETQ, SYSRETL, SYSEXITQ, SYSEXIT, INT n,
 * IRETQ.
 */
static enum change change_of(const struct qemu_plugin_insn *insn)
{
	if (IS(insn, 0x0f, 0x05) || IS(insn, 0x0f, 0x34))
		return SYSCALL;
	if (IS(insn, 0x48, 0x0f, 0x07) || IS(insn, 0x0f, 0x07) || IS(insn, 0x48, 0x0f, 0x35) || IS(insn, 0x0f, 0x35))
		return SYSRET;
	if (IS(insn, 0xcd))
		return INTERRUPT;
	if (IS(insn, 0x48, 0xcf))
		return IRET;
	return NO_CHANGE;
}

/* JMP by a word in memory whose address is relative to ip. */
static bool jumps_by_memory(const struct qemu_plugin_insn *insn)
{
	return IS(insn, 0xff, 0x25);
}

/* MOV to CR3: 0F 22 with 3 as the register field of the last byte. */
static bool is_write_of_cr3(const struct qemu_plugin_insn *insn)
{
	const struct code code = code_of(insn);
	const uint8_t *end = code.bytes + code.size;

	return code.size >= 3 && end[-3] == 0x0f && end[-2] == 0x22 && (end[-1] >> 3 & 7) == 3;
}

/* An instruction's opcode and what follows, after its prefixes; 0 beyond its end. */
static struct code without_prefixes(const struct qemu_plugin_insn *insn)
{
	/* Operand size, repetitions, segments ES, CS, SS, DS, FS, GS, address size. */
	static const uint8_t legacy[] = { 0x66, 0xf2, 0xf3, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67 };
	const struct code code = code_of(insn);
	struct code rest = { 0 };
	size_t at = 0;

	while (at + 1 < code.size && memchr(legacy, code.bytes[at], sizeof(legacy)))
		at++;
	/* REX; in 32-bit code these are instructions of one byte. */
	if (at + 1 < code.size && (code.bytes[at] & 0xf0) == 0x40)
		at++;
	rest.size = code.size - at;
	memcpy(rest.bytes, code.bytes + at, rest.size);
	return rest;
}

/*
 * A load of a segment register: MOV 8E; POP 07, 17, 1F, 0F A1, 0F A9; LSS, LFS, LGS 0F B2, B4, B5.
 * 64-bit code has none of the first three of POP.
 */
static bool is_segment_load(const struct qemu_plugin_insn *insn)
{
	static const uint8_t first[] = { 0x8e, 0x07, 0x17, 0x1f }, second[] = { 0xa1, 0xa9, 0xb2, 0xb4, 0xb5 };
	const struct code code = without_prefixes(insn);

	if (code.bytes[0] == 0x0f)
		return memchr(second, code.bytes[1], sizeof(second));
	return memchr(first, code.bytes[0], sizeof(first));
}

/* INVLPG: 0F 01 with 7 as the register field and an operand in memory. */
static bool is_page_invalidation(const struct qemu_plugin_insn *insn)
{
	const struct code code = without_prefixes(insn);
	const uint8_t *bytes = code.bytes;

	return code.size >= 3 && bytes[0] == 0x0f && bytes[1] == 0x01 && (bytes[2] >> 3 & 7) == 7 &&
	       bytes[2] >> 6 != 3;
}

/* Where a block's code is: the part in the first page, and the rest. */
static void find_pieces(struct block *block, const struct qemu_plugin_tb *tb)
{
	const size_t count = qemu_plugin_tb_n_insns(tb);

	for (size_t at = 0; at < count; at++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, at);
		const uint64_t address = qemu_plugin_insn_vaddr(insn);
		const int piece = address / PAGE_SIZE != block->address / PAGE_SIZE;

		if (!block->pieces[piece].bytes) {
			block->pieces[piece].address = address;
			block->pieces[piece].physical = (uintptr_t)qemu_plugin_insn_haddr(insn);
		}
		block->pieces[piece].bytes += qemu_plugin_insn_size(insn);
	}
}

static void watch(struct qemu_plugin_insn *insn, struct block *block)
{
	const uint32_t mark = mark_of(insn);
	qemu_plugin_vcpu_cb told = NULL;

	if (mark == begins)
		told = begin;
	else if (mark == ends)
		told = end;
	else if (is_write_of_cr3(insn))
		told = writes_cr3;
	else if (is_page_invalidation(insn))
		told = invalidates_page;
	else if (is_segment_load(insn))
		told = loads_segment;
	if (told)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, told, QEMU_PLUGIN_CB_NO_REGS, block);
	qemu_plugin_register_vcpu_mem_cb(insn, accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const size_t count = qemu_plugin_tb_n_insns(tb);
	struct block *block = calloc(1, sizeof(*block));

	(void)id;
	if (!block) {
		perror("timing");
		exit(1);
	}
	block->address = qemu_plugin_tb_vaddr(tb);
	block->instructions = count;
	block->last = change_of(qemu_plugin_tb_get_insn(tb, count - 1));
	block->jumps_by_r11 = IS(qemu_plugin_tb_get_insn(tb, count - 1), 0x41, 0xff, 0xe3);
	block->jumps_by_memory = jumps_by_memory(qemu_plugin_tb_get_insn(tb, count - 1));
	find_pieces(block, tb);
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, QEMU_PLUGIN_CB_NO_REGS, block);
	for (size_t at = 0; at < count; at++)
		watch(qemu_plugin_tb_get_insn(tb, at), block);
}

static bool read_line(FILE *file, char *name, char *value)
{
	char format[WORD_SIZE];

	snprintf(format, sizeof(format), "%%%ds %%%ds", WORD_SIZE - 1, WORD_SIZE - 1);
	return fscanf(file, format, name, value) == 2;
}

static bool read_machines(const char *path)
{
	char name[WORD_SIZE], value[WORD_SIZE];
	FILE *file = fopen(path, "r");
	bool good = true;

	if (!file) {
		perror(path);
		return false;
	}
	while (good && read_line(file, name, value)) {
		if (!strcmp(name, "machine"))
			good = machine_count++ < MACHINES;
		else
			good = machine_count && model_set(&machines[machine_count - 1], name, strtoull(value, NULL, 10));
		if (!good)
			fprintf(stderr, "timing: %s: cannot take %s %s\n", path, name, value);
	}
	fclose(file);
	for (int number = 0; good && number < machine_count; number++) {
		good = model_start(&machines[number]);
		if (!good)
			fprintf(stderr, "timing: %s: machine %d makes no sense\n", path, number);
	}
	return good && machine_count;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	static const char output_key[] = "output=", model_key[] = "model=";
	bool good = true;

	(void)info;
	for (int at = 0; good && at < argc; at++) {
		if (!strncmp(argv[at], output_key, strlen(output_key))) {
			report = fopen(argv[at] + strlen(output_key), "w");
			if (!report)
				perror(argv[at]);
			good = report;
		} else if (!strncmp(argv[at], model_key, strlen(model_key))) {
			good = read_machines(argv[at] + strlen(model_key));
		} else if (!strcmp(argv[at], "part=on")) {
			begins = MARK_PART_BEGINS;
			ends = MARK_PART_ENDS;
		} else {
			fprintf(stderr, "timing: unknown argument %s\n", argv[at]);
			good = false;
		}
	}
	if (!good || !report || !machine_count) {
		fprintf(stderr, "timing: needs %sFILE and %sFILE\n", output_key, model_key);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, write_blocks, NULL);
	return 0;
}
