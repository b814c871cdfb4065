/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest page tables: in x86-64's format, walked by software only. L4's mappings are a cache of
 * them. Code that takes rights from an entry marked KEEL_MAPPED adds the page to the mm's unmap
 * queue. The accessed and dirty bits are emulated: an old entry is not mapped, and a clean one is
 * mapped without write permission. Entries that lockless walkers (mm/tlb.c) may read change by one
 * atomic instruction.
 */
#ifndef _ASM_L4_PGTABLE_H
#define _ASM_L4_PGTABLE_H

#include <l4/adapted/include/asm/pgtable.h>

#ifndef __ASSEMBLY__

/* Queues the page, small or of 2 MB, of an old entry for unmapping, except for rights to keep. */
void l4_unmap_queue(struct mm_struct *mm, unsigned long address, pte_t old, unsigned long keep);

/* How many small pages an entry is for. */
static inline unsigned long l4_pte_pages(pte_t pte)
{
	return pte_val(pte) & _PAGE_PSE ? PTRS_PER_PTE : 1;
}

static_assert(KEEL_FPAGE_WRITE == _PAGE_RW);

/* The rights that L4 may give for an entry: to write only where it is dirty already. */
static inline unsigned long l4_pte_rights(pte_t pte)
{
	unsigned long value = pte_val(pte), dirty;

	if ((value & (_PAGE_PRESENT | _PAGE_ACCESSED)) != (_PAGE_PRESENT | _PAGE_ACCESSED))
		return 0;
	/* The dirty bit, moved to the place of the write bit. */
	dirty = value >> (_PAGE_BIT_DIRTY - _PAGE_BIT_RW);
	return KEEL_FPAGE_READ | (value & dirty & _PAGE_RW) |
	       (value & _PAGE_NX ? 0 : KEEL_FPAGE_EXEC);
}

/*
 * Changes an entry atomically: clears bits, then sets bits. Rights to the old page that L4 may have
 * beyond the new entry are queued for unmapping. Returns the old entry.
 */
static inline pte_t l4_pte_change(struct mm_struct *mm, unsigned long address, pte_t *ptep,
				  unsigned long clear, unsigned long set)
{
	unsigned long old = READ_ONCE(ptep->pte), keep, value;

	do {
		value = ((old & ~clear) | set) & ~_PAGE_KEEL;
		keep = 0;
		if (unlikely(old & _PAGE_KEEL_MAPPED)) {
			if (!((old ^ value) & PTE_PFN_MASK))
				keep = l4_pte_rights(__pte(value));
			if (keep)
				value |= old & _PAGE_KEEL;
			if (keep & ~l4_pte_rights(__pte(old)))
				value |= _PAGE_KEEL_MORE;
		}
	} while (!try_cmpxchg(&ptep->pte, &old, value));
	if (unlikely(old & _PAGE_KEEL_MAPPED) && l4_pte_rights(__pte(old)) & ~keep)
		l4_unmap_queue(mm, address, __pte(old), keep);
	return __pte(old & ~_PAGE_KEEL);
}

static inline pte_t l4_pte_exchange(struct mm_struct *mm, unsigned long address,
				    pte_t *ptep, pte_t pte)
{
	return l4_pte_change(mm, address, ptep, ~0UL, pte_val(pte));
}

/* Lockless walkers do not write to an empty entry: the table's lock is enough to change it. */
static inline void set_pte_at(struct mm_struct *mm, unsigned long address,
			      pte_t *ptep, pte_t pte)
{
	if (likely(pte_none(READ_ONCE(*ptep))))
		set_pte(ptep, __pte(pte_val(pte) & ~_PAGE_KEEL));
	else
		l4_pte_exchange(mm, address, ptep, pte);
}

/* An entry is marked only if it has rights, so an empty one never is. */
static inline pte_t ptep_get_and_clear(struct mm_struct *mm, unsigned long address,
				       pte_t *ptep)
{
	pte_t old = __pte(xchg(&ptep->pte, 0));

	if (unlikely(pte_val(old) & _PAGE_KEEL_MAPPED))
		l4_unmap_queue(mm, address, old, 0);
	return __pte(pte_val(old) & ~_PAGE_KEEL);
}
#define __HAVE_ARCH_PTEP_GET_AND_CLEAR

/* full: the mm ends. Its L4 task is deleted (arch_exit_mmap()), and no thread walks its tables. */
static inline pte_t ptep_get_and_clear_full(struct mm_struct *mm, unsigned long address,
					    pte_t *ptep, int full)
{
	pte_t old = READ_ONCE(*ptep);

	if (!full)
		return ptep_get_and_clear(mm, address, ptep);
	set_pte(ptep, __pte(0));
	return __pte(pte_val(old) & ~_PAGE_KEEL);
}
#define __HAVE_ARCH_PTEP_GET_AND_CLEAR_FULL

static inline void pte_clear(struct mm_struct *mm, unsigned long address, pte_t *ptep)
{
	ptep_get_and_clear(mm, address, ptep);
}

/* The mark is read after the right was removed: a page that was mapped before is then seen. */
static inline void ptep_set_wrprotect(struct mm_struct *mm, unsigned long address,
				      pte_t *ptep)
{
	unsigned long mapped = _PAGE_KEEL_MAPPED | _PAGE_DIRTY;
	pte_t pte;

	if (!pte_write(READ_ONCE(*ptep)))
		return;
	asm volatile("lock; andq %1, %0" : "+m" (ptep->pte) : "er" (~_PAGE_RW) : "memory");
	pte = READ_ONCE(*ptep);
	if ((pte_val(pte) & mapped) == mapped)
		l4_unmap_queue(mm, address, pte, l4_pte_rights(pte));
}
#define __HAVE_ARCH_PTEP_SET_WRPROTECT

/* The entry stays until the commit, which keeps the bits that walkers set in between. */
static inline pte_t ptep_modify_prot_start(struct vm_area_struct *vma, unsigned long address,
					   pte_t *ptep)
{
	return __pte(READ_ONCE(ptep->pte) & ~_PAGE_KEEL);
}

static inline void ptep_modify_prot_commit(struct vm_area_struct *vma, unsigned long address,
					   pte_t *ptep, pte_t old, pte_t pte)
{
	unsigned long noted = (_PAGE_ACCESSED | _PAGE_DIRTY) & ~pte_val(old);

	l4_pte_change(vma->vm_mm, address, ptep, ~noted, pte_val(pte));
}
#define __HAVE_ARCH_PTEP_MODIFY_PROT_TRANSACTION

/* Does not flush, as on x86: until the queue is emptied, accesses are merely not noticed. */
#define ptep_clear_flush_young ptep_test_and_clear_young
#define pmdp_clear_flush_young pmdp_test_and_clear_young

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
#define pmd_pte(pmd) __pte(pmd_val(pmd))
#define pte_pmd(pte) __pmd(pte_val(pte))
#define set_pmd_at(mm, address, p, e) set_pte_at(mm, address, (pte_t *)(p), pmd_pte(e))

#define pmdp_establish(vma, address, p, e)					\
	pte_pmd(l4_pte_exchange((vma)->vm_mm, address, (pte_t *)(p), pmd_pte(e)))
#define pmdp_huge_get_and_clear(mm, address, p)				\
	pte_pmd(ptep_get_and_clear(mm, address, (pte_t *)(p)))
#define pmdp_set_wrprotect(mm, address, p) ptep_set_wrprotect(mm, address, (pte_t *)(p))
#define pmdp_test_and_clear_young(vma, address, p)				\
	ptep_test_and_clear_young(vma, address, (pte_t *)(p))
#define pmdp_set_access_flags(vma, address, p, e, dirty)			\
	ptep_set_access_flags(vma, address, (pte_t *)(p), pmd_pte(e), dirty)
#define pmd_same(a, b) pte_same(pmd_pte(a), pmd_pte(b))
#define __HAVE_ARCH_PMDP_HUGE_GET_AND_CLEAR
#define __HAVE_ARCH_PMDP_SET_WRPROTECT
#define __HAVE_ARCH_PMD_SAME
pmd_t pmdp_collapse_flush(struct vm_area_struct *vma, unsigned long address, pmd_t *pmdp);
#define pmdp_collapse_flush pmdp_collapse_flush
#endif

#endif /* __ASSEMBLY__ */
#endif
