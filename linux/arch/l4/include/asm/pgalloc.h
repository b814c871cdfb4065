/* SPDX-License-Identifier: GPL-2.0-only */
/* Guest page tables are ordinary pages, in x86's four levels. */
#ifndef _ASM_L4_PGALLOC_H
#define _ASM_L4_PGALLOC_H

#include <linux/mm.h>
#include <asm-generic/pgalloc.h>

pgd_t *pgd_alloc(struct mm_struct *mm);

static inline void pmd_populate_kernel(struct mm_struct *mm, pmd_t *pmd, pte_t *table)
{
	set_pmd(pmd, __pmd(_PAGE_TABLE | __pa(table)));
}

static inline void pmd_populate(struct mm_struct *mm, pmd_t *pmd, pgtable_t table)
{
	set_pmd(pmd, __pmd(_PAGE_TABLE | page_to_phys(table)));
}

static inline void pud_populate(struct mm_struct *mm, pud_t *pud, pmd_t *table)
{
	set_pud(pud, __pud(_PAGE_TABLE | __pa(table)));
}

static inline void p4d_populate(struct mm_struct *mm, p4d_t *p4d, pud_t *table)
{
	set_p4d(p4d, __p4d(_PAGE_TABLE | __pa(table)));
}

#define __pte_free_tlb(tlb, table, address)		\
do {							\
	pgtable_pte_page_dtor(table);			\
	tlb_remove_page(tlb, table);			\
} while (0)

#define __pmd_free_tlb(tlb, table, address)		\
do {							\
	pgtable_pmd_page_dtor(virt_to_page(table));	\
	tlb_remove_page(tlb, virt_to_page(table));	\
} while (0)

#define __pud_free_tlb(tlb, table, address) tlb_remove_page(tlb, virt_to_page(table))

#endif
