/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thread of an application that runs to completion: it gives up the processor
 * when it waits or yields, never on return from the kernel.
 */
#ifndef _UKL_RUN_TO_COMPLETION_H
#define _UKL_RUN_TO_COMPLETION_H

/* The option of arch_prctl, which ukl.h has for applications. */
#define ARCH_UKL_RUN_TO_COMPLETION	0x554c
/* In the thread's own word of status, below the calls that bypass. */
#define TS_UKL_RUN_TO_COMPLETION	0x80

#ifdef CONFIG_UKL_RUN_TO_COMPLETION

#include <asm/ukl.h>

/* The exit work before user mode. Exec clears TIF_UKL. */
static __always_inline unsigned long ukl_work(unsigned long work)
{
	if (work & BIT(TIF_UKL) && current_thread_info()->status & TS_UKL_RUN_TO_COMPLETION)
		work &= ~_TIF_NEED_RESCHED;
	return work;
}

static inline long ukl_run_to_completion(struct task_struct *task, unsigned long on)
{
	if (task != current || on > 1 || !test_thread_flag(TIF_UKL))
		return -EINVAL;
	if (on)
		task_thread_info(task)->status |= TS_UKL_RUN_TO_COMPLETION;
	else
		task_thread_info(task)->status &= ~TS_UKL_RUN_TO_COMPLETION;
	return 0;
}

#endif
#endif /* _UKL_RUN_TO_COMPLETION_H */
