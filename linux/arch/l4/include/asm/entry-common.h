/* SPDX-License-Identifier: GPL-2.0-only */
/* The generic entry code needs nothing of this architecture but the frame. */
#ifndef _ASM_L4_ENTRY_COMMON_H
#define _ASM_L4_ENTRY_COMMON_H

#include <linux/sched.h>

/* Asked only where an exception ended, and those come to tasks' stacks. */
#define on_thread_stack() true

#endif
