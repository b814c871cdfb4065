/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock of the measured programs, with marks around each repetition for plugins of the
 * emulator.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include "../../guest/mark.h"

static inline uint64_t now(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a" (low), "=d" (high));
	return (uint64_t)high << 32 | low;
}

static inline uint64_t begun(void)
{
	MARK(MARK_PART_BEGINS);
	return now();
}

static inline uint64_t ended(void)
{
	uint64_t time = now();

	MARK(MARK_PART_ENDS);
	return time;
}

#endif
