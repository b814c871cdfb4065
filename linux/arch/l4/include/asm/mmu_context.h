/* SPDX-License-Identifier: GPL-2.0-only */
/* The micro-kernel switches spaces with lthreads, so switch_mm() does nothing. */
#ifndef _ASM_L4_MMU_CONTEXT_H
#define _ASM_L4_MMU_CONTEXT_H

#include <linux/mm_types.h>

int init_new_context(struct task_struct *task, struct mm_struct *mm);
#define init_new_context init_new_context

void destroy_context(struct mm_struct *mm);
#define destroy_context destroy_context

/* The whole space goes at once, before its pages are freed one by one. */
#define arch_exit_mmap generic_exit_mmap
#include <asm-generic/mm_hooks.h>
#undef arch_exit_mmap
#define arch_exit_mmap destroy_context

#include <asm-generic/nommu_context.h>

/* Makes the mm's L4 task; frees kmem that mappings use (mm/context.c). */
int l4_mm_prepare(struct mm_struct *mm);
bool l4_mm_reclaim(void);

#endif
