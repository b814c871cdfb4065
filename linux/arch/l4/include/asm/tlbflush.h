/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * L4's mappings are the TLB. A change of a mapped entry queues its page
 * (asm/pgtable.h), and the queue is emptied before a user thread runs again. On
 * one processor no user thread runs while Linux does, so the flush functions
 * have nothing left to do.
 */
#ifndef _ASM_L4_TLBFLUSH_H
#define _ASM_L4_TLBFLUSH_H

struct mm_struct;
struct vm_area_struct;

static inline void flush_tlb_all(void) { }
static inline void flush_tlb_mm(struct mm_struct *mm) { }
static inline void flush_tlb_range(struct vm_area_struct *vma, unsigned long start,
				   unsigned long end) { }
static inline void flush_tlb_page(struct vm_area_struct *vma, unsigned long address) { }
static inline void flush_tlb_kernel_range(unsigned long start, unsigned long end) { }

/* Takes the page from the mm's space except for the rights to keep. */
void l4_unmap_queue(struct mm_struct *mm, unsigned long address, unsigned long keep);
void l4_unmap_forget(struct mm_struct *mm);
void l4_unmap_flush(void);

#endif
