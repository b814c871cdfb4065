/* SPDX-License-Identifier: GPL-2.0-only */
/* The FPU state lives with the lthread; this is what the server keeps beside it. */
#ifndef _ASM_L4_FPU_TYPES_H
#define _ASM_L4_FPU_TYPES_H

#include <linux/types.h>

/* The formats are x86's, not what a thread has of them. */
#define fpu x86_fpu
#include <x86/include/asm/fpu/types.h>
#undef fpu

struct task_struct;

struct fpu {
	union fpregs_state *regs;	/* buffer for a state and FP_XSTATE_MAGIC2, or NULL */
	bool stale;			/* the buffer is newer than the lthread's state */
	void __user *frame;		/* what has the state while a signal frame is built, or NULL */
};

/* Fetch into or store from the task's buffer; or fetch it, to be stored when it has changed. */
union fpregs_state *l4_fpu_fetch(struct task_struct *task);
int l4_fpu_store(struct task_struct *task);
void l4_fpu_change(struct task_struct *task);
int l4_fpu_fork(struct task_struct *child);
void l4_fpu_free(struct task_struct *task);

#endif
