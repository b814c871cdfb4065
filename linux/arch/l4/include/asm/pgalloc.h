/* SPDX-License-Identifier: GPL-2.0-only */
/* Guest page tables are ordinary pages, in x86's four levels. */
#ifndef _ASM_L4_PGALLOC_H
#define _ASM_L4_PGALLOC_H

#include <linux/mm.h>
#include <asm-generic/pgalloc.h>

pgd_t *pgd_alloc(struct mm_struct *mm);

#define pmd_populate_kernel(mm, pmd, table) set_pmd(pmd, __pmd(_PAGE_TABLE | __pa(table)))
#define pmd_populate(mm, pmd, table) set_pmd(pmd, __pmd(_PAGE_TABLE | page_to_phys(table)))
#define pud_populate(mm, pud, table) set_pud(pud, __pud(_PAGE_TABLE | __pa(table)))
#define p4d_populate(mm, p4d, table) set_p4d(p4d, __p4d(_PAGE_TABLE | __pa(table)))

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
