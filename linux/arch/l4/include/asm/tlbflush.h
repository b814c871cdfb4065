/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * L4's mappings are the TLB of the guest page tables. A change of a mapped entry adds its page to
 * the mm's queue (asm/pgtable.h). Each flush, of whatever range, empties that queue and waits until
 * no other processor uses an entry that it read before the change (mm/tlb.c).
 */
#ifndef _ASM_L4_TLBFLUSH_H
#define _ASM_L4_TLBFLUSH_H

#include <linux/mm_types.h>
#include <asm/percpu.h>

void l4_unmap_queue_empty(struct mm_struct *mm);
void l4_tables_freed(struct mm_struct *mm);
bool l4_note_move(struct mm_struct *mm, unsigned long from, unsigned long to);
void l4_flush_moved(struct mm_struct *mm, unsigned long start, unsigned long end);

/* A flag in context.move_to, besides the address: a move was noted. */
#define L4_MOVE 1UL

/*
 * mremap() asks this before it moves a page table, and flushes the old addresses after that. L4's
 * mappings then move with the table. vma, old_addr and new_addr are names of move_normal_pmd().
 */
#define arch_supports_page_table_move() l4_note_move(vma->vm_mm, old_addr, new_addr)

/* Empties the queue of the mm. Never sleeps; takes context.lock if anything is queued. */
static inline void l4_unmap_queued(struct mm_struct *mm)
{
	if (unlikely(READ_ONCE(mm->context.last)))
		l4_unmap_queue_empty(mm);
}

/*
 * A lockless walk section: this processor reads page tables and uses what it finds until
 * l4_walk_end(). It must not sleep within. Sections nest, for interrupts: the variable is their
 * count. The locked instruction is a full barrier, so no entry is loaded before the count is seen
 * by a processor that flushes.
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

/*
 * A section that maps what it finds in the current mm's tables. It does not nest. Interrupt
 * handlers may run in it where l4_waiting is set (kernel/irq.c). If the reply that maps it also
 * waits for anybody, the mappings are made as soon as the server thread waits, and the section ends
 * with the next message.
 */
DECLARE_PER_CPU(const struct mm_struct *, l4_mapping);

static inline void l4_map_begin(void)
{
	this_cpu_write(l4_mapping, current->mm);
	smp_mb();	/* before entries are loaded, like the locked instruction above */
}

static inline void l4_map_end(void)
{
	barrier();
	this_cpu_write(l4_mapping, NULL);
}

/* These are for user memory. mm/vmalloc.c maps and unmaps the kernel's pages itself. */
void flush_tlb_mm(struct mm_struct *mm);

static inline void flush_tlb_page(struct vm_area_struct *vma, unsigned long address)
{
	flush_tlb_mm(vma->vm_mm);
}

static inline void flush_tlb_range(struct vm_area_struct *vma, unsigned long start,
				   unsigned long end)
{
	if (unlikely(READ_ONCE(vma->vm_mm->context.move_to)))
		l4_flush_moved(vma->vm_mm, start, end);
	else
		flush_tlb_mm(vma->vm_mm);
}

static inline void flush_tlb_all(void) { }
static inline void flush_tlb_kernel_range(unsigned long start, unsigned long end) { }

#endif
