/* SPDX-License-Identifier: GPL-2.0-only */
/* The micro-kernel switches spaces with lthreads, so switch_mm() does nothing. */
#ifndef _ASM_L4_MMU_CONTEXT_H
#define _ASM_L4_MMU_CONTEXT_H

#include <linux/mm_types.h>

int init_new_context(struct task_struct *task, struct mm_struct *mm);
#define init_new_context init_new_context

void destroy_context(struct mm_struct *mm);
#define destroy_context destroy_context

static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next,
			     struct task_struct *task)
{
}

static inline int arch_dup_mmap(struct mm_struct *oldmm, struct mm_struct *mm)
{
	return 0;
}

/* The whole space goes at once, before its pages are freed one by one. */
static inline void arch_exit_mmap(struct mm_struct *mm)
{
	destroy_context(mm);
}

static inline void arch_unmap(struct mm_struct *mm, unsigned long start, unsigned long end)
{
}

static inline bool arch_vma_access_permitted(struct vm_area_struct *vma, bool write,
					     bool execute, bool foreign)
{
	return true;
}

#include <asm-generic/mmu_context.h>

/* Makes the mm's L4 task; frees kmem that mappings use (mm/context.c). */
int l4_mm_prepare(struct mm_struct *mm);
bool l4_mm_reclaim(void);

#endif
