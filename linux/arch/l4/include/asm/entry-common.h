/* SPDX-License-Identifier: GPL-2.0-only */
/* What the generic entry code asks of an architecture. */
#ifndef _ASM_L4_ENTRY_COMMON_H
#define _ASM_L4_ENTRY_COMMON_H

#include <linux/sched.h>

/* A 32-bit system call has ended. */
static inline void arch_exit_to_user_mode_prepare(struct pt_regs *regs, unsigned long work)
{
	current_thread_info()->status &= ~(TS_COMPAT | TS_I386_REGS_POKED);
}
#define arch_exit_to_user_mode_prepare arch_exit_to_user_mode_prepare

#endif
