/* SPDX-License-Identifier: GPL-2.0-only */
/* An mm is an L4 task, which is made when its first thread goes to user mode. */
#ifndef _ASM_L4_MMU_H
#define _ASM_L4_MMU_H

#include <linux/spinlock_types.h>
#include <keel/abi.h>

#define L4_QUEUED_RANGES 32

typedef struct {
	unsigned long keel_task;	/* id, 0: none */
	unsigned long area;		/* the task's kernel-shared region, 0: none */
	unsigned long window;		/* for a 32-bit program, as thread_schedule names it, or 0 */
	unsigned char layout;		/* log2 of its size, also when another has it, or 0 */
	bool resident;			/* its space shows the server's (mm/small.c) */
	bool supervisor;		/* its threads run in supervisor mode (kernel/place.c) */
	bool inside;			/* keel_task is the server's own (kernel/inside.c) */
	unsigned long gate;		/* of a program in the server, and its forks: address, or 0 */
	unsigned long unmaps;		/* of its pages in L4; changes with each */
	unsigned long generation;	/* of its page tables: new when tables were freed, unique */
	unsigned long last;		/* latest range to unmap (mm/tlb.c), 0: nothing queued */
	spinlock_t lock;		/* protects what follows: the ranges before the latest */
	unsigned int queued;
	struct keel_unmap_range ranges[L4_QUEUED_RANGES];
	unsigned long move_from, move_to;	/* of a page table (mm/tlb.c), see L4_MOVE */
	void __user *vdso;
	const struct vdso_image *vdso_image;
} mm_context_t;

#endif
