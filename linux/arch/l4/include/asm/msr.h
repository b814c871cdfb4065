/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_L4_MSR_H
#define _ASM_L4_MSR_H

#define rdtsc_ordered x86_rdtsc_ordered
#include <x86/include/asm/msr.h>
#undef rdtsc_ordered

#ifndef __ASSEMBLY__
/*
 * Reads the counter after all earlier loads: otherwise a time could be older than one that another
 * processor has published. x86 patches the fence in at boot; here and in the vDSOs nothing does.
 * Each x86-64 processor has LFENCE; on AMD's it orders only if the firmware has enabled that
 * (docs/caveats.md).
 */
static __always_inline u64 rdtsc_ordered(void)
{
	asm volatile("lfence" : : : "memory");
	return rdtsc();
}
#endif

#endif
