/* SPDX-License-Identifier: GPL-2.0-only */
/* The flags of each task that entry code reads; they have x86's numbers. */
#ifndef _ASM_L4_THREAD_INFO_H
#define _ASM_L4_THREAD_INFO_H

#include <asm/page.h>

#define TOP_OF_KERNEL_STACK_PADDING 0

#ifndef __ASSEMBLY__

struct task_struct;
#include <linux/atomic.h>
#include <asm/cpufeature.h>

struct thread_info {
	unsigned long flags;
	unsigned long syscall_work;
	u32 status;
	int preempt_count;
	u32 cpu;
};

#define INIT_THREAD_INFO(tsk) { .preempt_count = INIT_PREEMPT_COUNT }

int arch_dup_task_struct(struct task_struct *dst, struct task_struct *src);
void arch_release_task_struct(struct task_struct *tsk);

#define in_ia32_syscall() (current_thread_info()->status & TS_COMPAT)
#define arch_set_restart_data(restart) \
	do { (restart)->arch_data = current_thread_info()->status; } while (0)

#endif

#define TIF_NOTIFY_RESUME 1
#define TIF_SIGPENDING 2
#define TIF_NEED_RESCHED 3
#define TIF_SINGLESTEP 4
#define TIF_UPROBE 12
#define TIF_NOTIFY_SIGNAL 17
#define TIF_MEMDIE 20
#define TIF_FORCED_TF 24
#define TIF_ADDR32 29

#define _TIF_NOTIFY_RESUME (1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING (1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED (1 << TIF_NEED_RESCHED)
#define _TIF_SINGLESTEP (1 << TIF_SINGLESTEP)
#define _TIF_UPROBE (1 << TIF_UPROBE)
#define _TIF_NOTIFY_SIGNAL (1 << TIF_NOTIFY_SIGNAL)
#define _TIF_FORCED_TF (1 << TIF_FORCED_TF)

/* In status: a 32-bit system call; its registers were changed by a 32-bit tracer. */
#define TS_COMPAT 0x0002
#define TS_I386_REGS_POKED 0x0004

#endif
