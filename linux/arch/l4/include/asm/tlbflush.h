/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * L4's mappings are the TLB. A change of a mapped entry queues its page with its mm
 * (asm/pgtable.h). Whatever Linux wants to be flushed, the mm's queue is emptied,
 * and nobody uses any more what he read in its tables (mm/tlb.c).
 */
#ifndef _ASM_L4_TLBFLUSH_H
#define _ASM_L4_TLBFLUSH_H

#include <linux/mm_types.h>
#include <asm/percpu.h>

void l4_unmap_queue_empty(struct mm_struct *mm);
void l4_unmap_flush(struct mm_struct *mm);
void l4_tables_freed(struct mm_struct *mm);
bool l4_note_move(struct mm_struct *mm, unsigned long from, unsigned long to);
void l4_flush_moved(struct mm_struct *mm, unsigned long start, unsigned long end);

/* In context.move_to beside the address: a move was noted. */
#define L4_MOVE 1UL

/*
 * mremap() asks this before it moves a page table, and flushes the old addresses after it. What
 * L4 has mapped moves with the table then; vma, old_addr and new_addr are names of move_normal_pmd().
 */
#define arch_supports_page_table_move() l4_note_move(vma->vm_mm, old_addr, new_addr)

static inline void l4_unmap_queued(struct mm_struct *mm)
{
	if (unlikely(READ_ONCE(mm->context.last)))
		l4_unmap_queue_empty(mm);
}

/*
 * This processor reads page tables and uses what it finds there until the end, and
 * does not sleep meanwhile. An interrupt may do the same within. What is read after the
 * beginning is not older than it.
 */
DECLARE_PER_CPU(unsigned int, l4_lockless_walk);

static __always_inline void l4_walk_begin(void)
{
	asm volatile("lock; incl " __percpu_arg(0) : "+m" (l4_lockless_walk) : : "memory");
}

static __always_inline void l4_walk_end(void)
{
	asm volatile("decl " __percpu_arg(0) : "+m" (l4_lockless_walk) : : "memory");
}

/* Likewise, with interrupts off: it maps what it finds. */
DECLARE_PER_CPU(unsigned int, l4_mapping);

static inline void l4_map_begin(void)
{
	this_cpu_write(l4_mapping, 1);
	smp_mb();
}

static inline void l4_map_end(void)
{
	barrier();
	this_cpu_write(l4_mapping, 0);
}

/* These functions are for user memory; mm/vmalloc.c sees to the kernel's. */
static inline void flush_tlb_mm(struct mm_struct *mm)
{
	l4_unmap_flush(mm);
}

static inline void flush_tlb_range(struct vm_area_struct *vma, unsigned long start,
				   unsigned long end)
{
	if (unlikely(READ_ONCE(vma->vm_mm->context.move_to)))
		l4_flush_moved(vma->vm_mm, start, end);
	else
		l4_unmap_flush(vma->vm_mm);
}

static inline void flush_tlb_page(struct vm_area_struct *vma, unsigned long address)
{
	l4_unmap_flush(vma->vm_mm);
}

static inline void flush_tlb_all(void) { }
static inline void flush_tlb_kernel_range(unsigned long start, unsigned long end) { }

#endif
