/* SPDX-License-Identifier: GPL-2.0-only */
/* The FPU state lives with the lthread; this is what the server keeps beside it. */
#ifndef _ASM_L4_FPU_TYPES_H
#define _ASM_L4_FPU_TYPES_H

#include <linux/types.h>

struct fxregs_state;
struct fpstate;
struct task_struct;

struct fpu {
	void *state;	/* buffer of keel_info.fpu_size bytes, or NULL */
	bool stale;	/* the buffer is newer than the lthread's state */
};

/* Fetch into or store from the task's buffer; allocate it when it is needed. */
void *l4_fpu_fetch(struct task_struct *task);
int l4_fpu_store(struct task_struct *task);
int l4_fpu_fork(struct task_struct *child);
void l4_fpu_free(struct task_struct *task);

#endif
