/* SPDX-License-Identifier: GPL-2.0-only */
/* The micro-kernel keeps the FPU state with the lthread; this is what the server has besides. */
#ifndef _ASM_L4_FPU_TYPES_H
#define _ASM_L4_FPU_TYPES_H

#include <linux/types.h>

/* x86's formats are used, but not its struct fpu. */
#define fpu x86_fpu
#include <x86/include/asm/fpu/types.h>
#undef fpu

struct task_struct;

struct fpu {
	union fpregs_state *regs;	/* buffer for a state and FP_XSTATE_MAGIC2, or NULL */
	bool stale;			/* the buffer is newer than the lthread's state */
};

/* Fetch into the task's buffer, store from it, or fetch to change it (kernel/fpu.c). */
union fpregs_state *l4_fpu_fetch(struct task_struct *task);
int l4_fpu_store(struct task_struct *task);
void l4_fpu_change(struct task_struct *task);
int l4_fpu_fork(struct task_struct *child);
void l4_fpu_free(struct task_struct *task);

#endif
