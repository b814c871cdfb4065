/* SPDX-License-Identifier: GPL-2.0-only */
/* The generic gathering of freed pages: they are freed after the flush. */
#ifndef _ASM_L4_TLB_H
#define _ASM_L4_TLB_H

#define tlb_flush tlb_flush
struct mmu_gather;
static inline void tlb_flush(struct mmu_gather *tlb);

#include <asm/tlbflush.h>
#include <asm-generic/tlb.h>

static inline void tlb_flush(struct mmu_gather *tlb)
{
	if (tlb->freed_tables)
		l4_tables_freed(tlb->mm);
	l4_unmap_flush(tlb->mm);
}

#endif
