/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that a program uses ahead of what is measured, as in section 4.1 of "Performance of
 * address-space multiplexing on the Pentium". Inline, because a call would add to each figure.
 */
#ifndef WORKING_SET_H
#define WORKING_SET_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "measure.h"

/* What is accessed lies a page and a cache line from each other. */
#define STEP 4160

static char *working_set;
static size_t working_set_size;
static long working_set_pages;

/* Takes memory that code can be in, too; exits if there is none. */
static inline void take_memory(size_t size)
{
	working_set_size = size;
	working_set = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (working_set == MAP_FAILED)
		fail("mmap");
	/* Each page is one of its own, not the one of zeros. */
	memset(working_set, 0, size);
}

/* The same for this number of pages of data. */
static inline void take_pages(long count)
{
	working_set_pages = count;
	take_memory((count + 1) * STEP);
}

static inline void read_pages(void)
{
	for (long at = 0; at < working_set_pages; at++)
		*(volatile int32_t *)(working_set + at * STEP);
}

static inline void give_memory(void)
{
	munmap(working_set, working_set_size);
}

#endif
