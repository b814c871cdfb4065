/* SPDX-License-Identifier: GPL-2.0-only */
/* An mm is an L4 task, made when its first thread goes to user mode. */
#ifndef _ASM_L4_MMU_H
#define _ASM_L4_MMU_H

typedef struct {
	unsigned long host_task;	/* id, 0: none */
	void __user *vdso;
	const struct vdso_image *vdso_image;
} mm_context_t;

#endif
