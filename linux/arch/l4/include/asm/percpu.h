/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86's per-processor operations, by gs. Each is one instruction, which the IRQ thread cannot
 * split. The exchange of a pair is written out: x86 patches its alternative in at boot, and until
 * then disables interrupts by cli, which a user task may not execute.
 */
#ifndef _ASM_L4_PERCPU_H
#define _ASM_L4_PERCPU_H

#include <x86/include/asm/percpu.h>

#ifndef __ASSEMBLY__

/* The value of gs: the distance from the image's variables to this processor's. */
DECLARE_PER_CPU_READ_MOSTLY(unsigned long, this_cpu_off);

#undef raw_cpu_cmpxchg_double_8
#undef this_cpu_cmpxchg_double_8

#define l4_percpu_cmpxchg_double(one, two, old1, old2, new1, new2)		\
({										\
	bool pcd_ok;								\
	typeof(one) pcd_old1 = (old1);						\
	typeof(two) pcd_old2 = (old2);						\
	asm volatile("cmpxchg16b " __percpu_arg(1) "\n\tsetz %0"		\
		     : "=q" (pcd_ok), "+m" (one), "+m" (two),			\
		       "+a" (pcd_old1), "+d" (pcd_old2)				\
		     : "b" ((typeof(one))(new1)), "c" ((typeof(two))(new2)));	\
	pcd_ok;									\
})
#define raw_cpu_cmpxchg_double_8 l4_percpu_cmpxchg_double
#define this_cpu_cmpxchg_double_8 l4_percpu_cmpxchg_double

#endif
#endif
