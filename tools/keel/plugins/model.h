/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of a processor's time: what its caches, its TLBs, and changes of mode and
 * of address space cost.
 *
 * Its caller reports every block of code that is fetched, every datum that is read or written, and
 * every change; the model sums up cycles. It keeps the time twice: with a TLB that a change of
 * address space flushes, and with a tagged one (PCID) that it does not. Nothing here knows of the
 * emulator; the machines are in ../machines.toml.
 */
#ifndef KEEL_MODEL_H
#define KEEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
	/* With a TLB that is flushed, and with a tagged one. */
	UNTAGGED = 0,
	TAGGED,
	VARIANTS,
};

/* What a TLB translates for. */
enum { CODE_PAGES = 0, DATA_PAGES, PAGE_KINDS };

/* What machines.toml says of a machine; times are thousandths of a cycle, memory is in bytes. */
struct parameters {
	uint64_t instruction;		/* one that waits for nothing */
	uint64_t line;			/* of all caches */
	uint64_t code_cache, code_cache_ways;
	uint64_t data_cache, data_cache_ways;
	uint64_t second_cache, second_cache_ways;
	uint64_t store_allocates;	/* a store that misses brings the line */
	uint64_t code_from_second, data_from_second, from_memory;
	uint64_t code_pages, code_pages_ways;
	uint64_t data_pages, data_pages_ways;
	uint64_t second_pages, second_pages_ways;	/* both kinds; none if 0 */
	uint64_t page_from_second, code_page_walk, data_page_walk;
	uint64_t kernel_pages_stay;	/* the kernel's are global */
	uint64_t shared_half;		/* user programs have a part of the upper half (half.h) */
	uint64_t syscall, sysret, exception, interrupt, iret;	/* SYSENTER and SYSEXIT as the first two */
	uint64_t segment_load;		/* of one register; IRET's are in `iret` */
	uint64_t space_change, space_change_tagged;
	uint64_t space_change_drops_code;	/* without tags, the code cache too */
	uint64_t page_invalidation;
};

/* A TLB or cache: the most recently used entry of a set first. */
struct store {
	uint64_t sets, ways;
	struct entry {
		uint64_t page, frame;
	} *entries;
};

struct machine {
	struct parameters costs;
	struct store data_cache, second_cache;
	/* What a change of address space may drop. */
	struct {
		struct store code_cache, code, data, second;
	} pages[VARIANTS];
	/* Walks of page tables since model_forget_misses. */
	uint64_t misses[VARIANTS][PAGE_KINDS];
};

/* What an event takes, in thousandths of a cycle. */
struct time {
	uint64_t of[VARIANTS];
};

enum change {
	NO_CHANGE,
	SYSCALL,
	SYSRET,
	EXCEPTION,
	IRET,
	PAGE_INVALIDATION,
	SPACE_CHANGE,
	INTERRUPT,	/* INT with a vector */
	SEGMENT_LOAD,
};

/* Sets one parameter; false where there is none of this name. */
bool model_set(struct machine *machine, const char *name, uint64_t value);
/* Takes the memory that the parameters ask for; false where they make no sense. */
bool model_start(struct machine *machine);
/* Code is fetched; it is within one page. */
void model_fetch(struct machine *machine, uint64_t address, uint64_t physical, uint64_t bytes, struct time *time);
/* A datum is read or written. */
void model_access(struct machine *machine, uint64_t address, uint64_t physical, bool store, struct time *time);
/* Instructions are executed. */
void model_execute(const struct machine *machine, uint64_t instructions, struct time *time);
/* The mode changes, a TLB entry is invalidated, or CR3 or a segment register is written. */
void model_change(struct machine *machine, enum change change, struct time *time);
/* How often no TLB of a variant had a page of this kind, so that the page tables were walked. */
uint64_t model_misses(const struct machine *machine, int variant, int kind);
/* They count from zero again. */
void model_forget_misses(struct machine *machine);

#endif
