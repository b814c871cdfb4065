/* SPDX-License-Identifier: GPL-2.0-only */
/* Cycles are those of the time stamp counter. */
#ifndef _ASM_L4_TIMEX_H
#define _ASM_L4_TIMEX_H

#include <linux/types.h>
#include <linux/compiler.h>

typedef unsigned long cycles_t;

static __always_inline u64 l4_cycles(void)
{
	u32 low, high;

	asm volatile("rdtsc" : "=a" (low), "=d" (high));
	return (u64)high << 32 | low;
}

/*
 * Reads the counter after all earlier loads (x86's rdtsc_ordered()): otherwise a time could be
 * older than one that another processor has published. Each x86-64 processor has LFENCE; on AMD's
 * it orders only if the firmware has enabled that (docs/caveats.md).
 */
static __always_inline u64 l4_cycles_ordered(void)
{
	asm volatile("lfence" : : : "memory");
	return l4_cycles();
}

#define get_cycles() ((cycles_t)l4_cycles())

#endif
