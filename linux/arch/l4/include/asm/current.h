/* SPDX-License-Identifier: GPL-2.0-only */
/* The current task. One processor, so a plain variable that __switch_to sets. */
#ifndef _ASM_L4_CURRENT_H
#define _ASM_L4_CURRENT_H

#ifndef __ASSEMBLY__
#include <linux/compiler.h>

struct task_struct;
extern struct task_struct *l4_current_task;

static __always_inline struct task_struct *get_current(void)
{
	return l4_current_task;
}
#define current get_current()

#endif
#endif
