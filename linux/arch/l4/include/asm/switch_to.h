/* SPDX-License-Identifier: GPL-2.0-only */
/* Kernel stacks share the server thread: a switch is a change of stacks. */
#ifndef _ASM_L4_SWITCH_TO_H
#define _ASM_L4_SWITCH_TO_H

struct task_struct;
asmlinkage struct task_struct *__switch_to(struct task_struct *prev,
					    struct task_struct *next);

#define switch_to(prev, next, last) ((last) = __switch_to(prev, next))

#endif
