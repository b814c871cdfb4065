/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86's, for the vDSOs too. There it patches the fence into rdtsc_ordered() at boot; here
 * no alternatives are applied.
 */
#ifndef _ASM_L4_MSR_H
#define _ASM_L4_MSR_H

#include <x86/include/asm/msr.h>
#include <asm/timex.h>
#define rdtsc_ordered l4_cycles_ordered

#endif
