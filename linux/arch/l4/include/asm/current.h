/* SPDX-License-Identifier: GPL-2.0-only */
/* The current task: the processor's variable that __switch_to sets. */
#ifndef _ASM_L4_CURRENT_H
#define _ASM_L4_CURRENT_H

#ifndef __ASSEMBLY__
#include <linux/compiler.h>
#include <asm/percpu.h>

struct task_struct;
DECLARE_PER_CPU(struct task_struct *, l4_current_task);

static __always_inline struct task_struct *get_current(void)
{
	return this_cpu_read_stable(l4_current_task);
}
#define current get_current()

#endif
#endif
