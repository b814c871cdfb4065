/* SPDX-License-Identifier: GPL-2.0-only */
/* The generic gathering of freed pages and tables: they are freed after the flush. */
#ifndef _ASM_L4_TLB_H
#define _ASM_L4_TLB_H

#define tlb_flush(tlb)								\
do {										\
	if ((tlb)->freed_tables)						\
		l4_tables_freed((tlb)->mm);					\
	flush_tlb_mm((tlb)->mm);						\
} while (0)

#define __pud_free_tlb(tlb, table, address) tlb_remove_page(tlb, virt_to_page(table))

#include <linux/pagemap.h>
#include <asm/tlbflush.h>
#include <asm-generic/tlb.h>

static inline void __pte_free_tlb(struct mmu_gather *tlb, pgtable_t table, unsigned long address)
{
	pgtable_pte_page_dtor(table);
	tlb_remove_page(tlb, table);
}

static inline void __pmd_free_tlb(struct mmu_gather *tlb, pmd_t *table, unsigned long address)
{
	pgtable_pmd_page_dtor(virt_to_page(table));
	tlb_remove_page(tlb, virt_to_page(table));
}

#endif
