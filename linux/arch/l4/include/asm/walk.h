/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The software TLB: for each processor, the leaf tables in which it last found entries of user
 * addresses. It caches tables, not entries: an entry is read again for each access. A line is valid
 * while its generation equals that of the mm (mm/tlb.c: l4_tables_freed()); a generation is never
 * 0, and never the same for two mms. Lines are filled by task context only (mm/uaccess.c:
 * l4_soft_tlb_fill()); all contexts may look them up, within a walk section.
 */
#ifndef _ASM_L4_WALK_H
#define _ASM_L4_WALK_H

#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <asm/percpu.h>

/*
 * More than 64, the regions in 128 MB: that is how far below the stack the libraries begin if
 * addresses are not random, and both are used together.
 */
#define L4_SOFT_TLB_ENTRIES 128

struct l4_soft_tlb_entry {
	pte_t *table;
	unsigned long region;		/* the address of what it maps, in units of PMD_SIZE */
	unsigned long generation;	/* 0: the line is empty */
	unsigned long padding;		/* makes the size a power of two: a faster index */
};
DECLARE_PER_CPU(struct l4_soft_tlb_entry, l4_soft_tlb[L4_SOFT_TLB_ENTRIES]);

/*
 * The only line that may have a region. Generations are consecutive numbers and a program's regions
 * are adjacent, so the XOR spreads both over the lines.
 */
static __always_inline struct l4_soft_tlb_entry *l4_soft_tlb_entry(unsigned long region,
								   unsigned long generation)
{
	return this_cpu_ptr(&l4_soft_tlb[(region ^ generation) % L4_SOFT_TLB_ENTRIES]);
}

/*
 * Returns the entry of an address if its table is cached, else NULL. The caller is in a walk
 * section.
 */
static __always_inline pte_t *l4_soft_tlb_pte(const struct mm_struct *mm, unsigned long address)
{
	unsigned long generation = READ_ONCE(mm->context.generation), region = address >> PMD_SHIFT;
	const struct l4_soft_tlb_entry *line = l4_soft_tlb_entry(region, generation);

	if (unlikely(line->region != region || line->generation != generation))
		return NULL;
	return line->table + pte_index(address);
}

pte_t *l4_walk(unsigned long address);

#endif
