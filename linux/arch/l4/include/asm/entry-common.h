/* SPDX-License-Identifier: GPL-2.0-only */
/* The generic entry code needs the frame, and that a 32-bit system call ends. */
#ifndef _ASM_L4_ENTRY_COMMON_H
#define _ASM_L4_ENTRY_COMMON_H

#include <linux/sched.h>

/* Asked only where an exception ended, and those come to tasks' stacks. */
#define on_thread_stack() true

static inline void arch_exit_to_user_mode_prepare(struct pt_regs *regs, unsigned long work)
{
	current_thread_info()->status &= ~(TS_COMPAT | TS_I386_REGS_POKED);
}
#define arch_exit_to_user_mode_prepare arch_exit_to_user_mode_prepare

#endif
