/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The leaf tables where a processor last found entries of user addresses: a software
 * TLB of tables. The entries themselves are read again each time. What is remembered
 * is void once the mm's tables have another number (mm/tlb.c: l4_tables_freed()).
 */
#ifndef _ASM_L4_WALK_H
#define _ASM_L4_WALK_H

#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <asm/percpu.h>

#define L4_LAST_WALKS 64

struct l4_last_walk {
	pte_t *table;
	unsigned long region;	/* of 2 MB */
	unsigned long tables;	/* the number, 0: nothing is remembered */
	unsigned long padding;	/* a power of two is found faster */
};
DECLARE_PER_CPU(struct l4_last_walk, l4_last_walks[L4_LAST_WALKS]);

/* Numbers are given one after the other, and a program uses regions beside each other. */
static __always_inline struct l4_last_walk *l4_last_walk(unsigned long region, unsigned long tables)
{
	return this_cpu_ptr(&l4_last_walks[(region ^ tables) % L4_LAST_WALKS]);
}

/* The entry of an address, if its table is remembered, or NULL. The caller is within a walk. */
static __always_inline pte_t *l4_last_pte(const struct mm_struct *mm, unsigned long address)
{
	unsigned long tables = READ_ONCE(mm->context.tables), region = address >> PMD_SHIFT;
	const struct l4_last_walk *last = l4_last_walk(region, tables);

	if (unlikely(last->region != region || last->tables != tables))
		return NULL;
	return last->table + pte_index(address);
}

pte_t *l4_walk(unsigned long address);

#endif
