/* SPDX-License-Identifier: GPL-2.0-only */
/* All tasks of a processor run on its server thread: a switch is a change of kernel stacks. */
#ifndef _ASM_L4_SWITCH_TO_H
#define _ASM_L4_SWITCH_TO_H

#include <asm-generic/switch_to.h>

void l4_hand_on_debug(struct task_struct *next);
void l4_inside_unload(void);
#define prepare_arch_switch(next)						\
do {										\
	if (unlikely(current->thread.debug[L4_DR7] | (next)->thread.debug[L4_DR7] | \
		     current->thread.loaded)) {					\
		if (current->thread.loaded)					\
			l4_inside_unload();					\
		l4_hand_on_debug(next);						\
	}									\
} while (0)

#endif
