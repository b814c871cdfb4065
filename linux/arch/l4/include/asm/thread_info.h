/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flags of each task that entry code reads: x86's header, except its struct thread_info, which
 * lacks the generic preempt_count, and flags by which Linux asks for what x86 alone has.
 */
#ifndef _ASM_L4_THREAD_INFO_H
#define _ASM_L4_THREAD_INFO_H

#define thread_info x86_thread_info
#include <x86/include/asm/thread_info.h>
#undef thread_info
#undef INIT_THREAD_INFO
#undef TIF_POLLING_NRFLAG
#undef arch_setup_new_exec
#define arch_setup_new_exec() do { } while (0)

#ifndef __ASSEMBLY__
struct thread_info {
	unsigned long flags;
	unsigned long syscall_work;
	u32 status;
	int preempt_count;
	u32 cpu;
};
#endif

#define INIT_THREAD_INFO(tsk) { .preempt_count = INIT_PREEMPT_COUNT }

#endif
