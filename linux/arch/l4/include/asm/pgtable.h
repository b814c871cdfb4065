/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest page tables: in x86-64's format, walked by software only. L4's mappings are a cache of
 * them. An entry marked KEEL_MAPPED may be mapped in its L4 task; code that takes rights from such
 * an entry adds the page to the mm's unmap queue. It is marked KEEL_MORE besides if it was given
 * rights since, which L4 lacks then. The accessed and dirty bits are emulated: an old entry is not
 * mapped, and a clean one is mapped without write permission. Entries that lockless walkers
 * (mm/tlb.c) may read change by one atomic instruction.
 */
#ifndef _ASM_L4_PGTABLE_H
#define _ASM_L4_PGTABLE_H

#include <asm/page.h>
#include <asm-generic/pgtable-nop4d.h>

#define _PAGE_PRESENT 0x001UL
#define _PAGE_RW 0x002UL
#define _PAGE_USER 0x004UL
#define _PAGE_PCD 0x010UL
#define _PAGE_ACCESSED 0x020UL
#define _PAGE_DIRTY 0x040UL
#define _PAGE_PSE 0x080UL		/* a page of 2 MB, one level up */
#define _PAGE_PROTNONE 0x100UL
#define _PAGE_SPECIAL 0x200UL
#define _PAGE_KEEL_MAPPED 0x400UL
#define _PAGE_UFFD_WP 0x800UL
#define _PAGE_KEEL_MORE (1UL << 58)	/* no page number and no swap offset is that large */
#define _PAGE_NX (1UL << 63)
/* What Linux does not see. */
#define _PAGE_KEEL (_PAGE_KEEL_MAPPED | _PAGE_KEEL_MORE)
/* In entries of swapped pages. */
#define _PAGE_SWP_UFFD_WP 0x040UL
#define _PAGE_SWP_EXCLUSIVE 0x080UL
#define PTE_PFN_MASK 0x000ffffffffff000UL

#define PGDIR_SHIFT 39
#define PUD_SHIFT 30
#define PMD_SHIFT 21
#define PTRS_PER_PGD 512
#define PTRS_PER_PUD 512
#define PTRS_PER_PMD 512
#define PTRS_PER_PTE 512
#define PGDIR_SIZE (1UL << PGDIR_SHIFT)
#define PGDIR_MASK (~(PGDIR_SIZE - 1))
#define USER_PTRS_PER_PGD 256
#define PUD_SIZE (1UL << PUD_SHIFT)
#define PUD_MASK (~(PUD_SIZE - 1))
#define PMD_SIZE (1UL << PMD_SHIFT)
#define PMD_MASK (~(PMD_SIZE - 1))

/*
 * An entry of a table has both bits, that of a page one at most: a walker that takes a table for a
 * page, in a race, sees the difference.
 */
#define _PAGE_TABLE (_PAGE_PRESENT | _PAGE_PROTNONE)
#define _PAGE_CHG_MASK (PTE_PFN_MASK | _PAGE_PCD | _PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_PSE | \
			_PAGE_SPECIAL | _PAGE_UFFD_WP)
#define _PAGE_READ (_PAGE_PRESENT | _PAGE_USER | _PAGE_ACCESSED)

#define PAGE_NONE __pgprot(_PAGE_PROTNONE | _PAGE_ACCESSED | _PAGE_NX)
#define PAGE_SHARED __pgprot(_PAGE_READ | _PAGE_RW | _PAGE_NX)
#define PAGE_SHARED_EXEC __pgprot(_PAGE_READ | _PAGE_RW)
#define PAGE_COPY __pgprot(_PAGE_READ | _PAGE_NX)
#define PAGE_READONLY PAGE_COPY
#define PAGE_COPY_EXEC __pgprot(_PAGE_READ)
#define PAGE_READONLY_EXEC PAGE_COPY_EXEC
#define PAGE_KERNEL __pgprot(_PAGE_PRESENT | _PAGE_RW | _PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_NX)
#define PAGE_KERNEL_EXEC __pgprot(_PAGE_PRESENT | _PAGE_RW | _PAGE_ACCESSED | _PAGE_DIRTY)
#define PAGE_KERNEL_RO __pgprot(_PAGE_PRESENT | _PAGE_ACCESSED | _PAGE_NX)

#define VMALLOC_START 0xffffe00000000000UL
#define VMALLOC_END 0xfffff00000000000UL
/* In the last GB, as the image: both use the code model of kernels. The last pages stay empty. */
#define MODULES_VADDR 0xffffffffe0000000UL
#define MODULES_LEN 0x1f000000UL
#define MODULES_END (MODULES_VADDR + MODULES_LEN)

#ifndef __ASSEMBLY__

#include <linux/atomic.h>

struct mm_struct;
struct vm_area_struct;

/* Queues the page, small or of 2 MB, of an old entry for unmapping, except for rights to keep. */
void l4_unmap_queue(struct mm_struct *mm, unsigned long address, pte_t old, unsigned long keep);

extern pgd_t swapper_pg_dir[PTRS_PER_PGD];
extern unsigned long empty_zero_page[];
#define ZERO_PAGE(address) virt_to_page(empty_zero_page)

#define pte_none(p) (!pte_val(p))
#define pte_present(p) (pte_val(p) & (_PAGE_PRESENT | _PAGE_PROTNONE))
#define pte_huge(p) (!!(pte_val(p) & _PAGE_PSE))
#define pte_exec(p) (!(pte_val(p) & _PAGE_NX))
#define pte_pfn(p) ((pte_val(p) & PTE_PFN_MASK) >> PAGE_SHIFT)
#define pte_page(p) pfn_to_page(pte_pfn(p))

/* Entries of large pages have the format of small ones, so each operation is for both. */
#define L4_ENTRY_TEST(name, bit)						\
static inline int pte_##name(pte_t pte) { return !!(pte_val(pte) & (bit)); }	\
static inline int pmd_##name(pmd_t pmd) { return !!(pmd_val(pmd) & (bit)); }
L4_ENTRY_TEST(write, _PAGE_RW)
L4_ENTRY_TEST(dirty, _PAGE_DIRTY)
L4_ENTRY_TEST(young, _PAGE_ACCESSED)
L4_ENTRY_TEST(special, _PAGE_SPECIAL)
L4_ENTRY_TEST(uffd_wp, _PAGE_UFFD_WP)
L4_ENTRY_TEST(swp_uffd_wp, _PAGE_SWP_UFFD_WP)
L4_ENTRY_TEST(swp_exclusive, _PAGE_SWP_EXCLUSIVE)
#undef L4_ENTRY_TEST
#define pmd_write pmd_write
#define pmd_young pmd_young
#define __HAVE_ARCH_PTE_SWP_EXCLUSIVE

#define L4_ENTRY_CHANGE(name, op)						\
static inline pte_t pte_##name(pte_t pte) { return __pte(pte_val(pte) op); }	\
static inline pmd_t pmd_##name(pmd_t pmd) { return __pmd(pmd_val(pmd) op); }
L4_ENTRY_CHANGE(mkwrite, | _PAGE_RW)
L4_ENTRY_CHANGE(wrprotect, & ~_PAGE_RW)
L4_ENTRY_CHANGE(mkdirty, | _PAGE_DIRTY)
L4_ENTRY_CHANGE(mkclean, & ~_PAGE_DIRTY)
L4_ENTRY_CHANGE(mkyoung, | _PAGE_ACCESSED)
L4_ENTRY_CHANGE(mkold, & ~_PAGE_ACCESSED)
L4_ENTRY_CHANGE(mkspecial, | _PAGE_SPECIAL)
L4_ENTRY_CHANGE(mkhuge, | _PAGE_PSE)
L4_ENTRY_CHANGE(mkinvalid, & ~(_PAGE_PRESENT | _PAGE_PROTNONE))
L4_ENTRY_CHANGE(mkuffd_wp, | _PAGE_UFFD_WP)
L4_ENTRY_CHANGE(clear_uffd_wp, & ~_PAGE_UFFD_WP)
L4_ENTRY_CHANGE(swp_mkuffd_wp, | _PAGE_SWP_UFFD_WP)
L4_ENTRY_CHANGE(swp_clear_uffd_wp, & ~_PAGE_SWP_UFFD_WP)
L4_ENTRY_CHANGE(swp_mkexclusive, | _PAGE_SWP_EXCLUSIVE)
L4_ENTRY_CHANGE(swp_clear_exclusive, & ~_PAGE_SWP_EXCLUSIVE)
#undef L4_ENTRY_CHANGE

static inline pte_t pfn_pte(unsigned long pfn, pgprot_t prot)
{
	return __pte((pfn << PAGE_SHIFT) | pgprot_val(prot));
}
#define mk_pte(page, prot) pfn_pte(page_to_pfn(page), prot)

static inline pte_t pte_modify(pte_t pte, pgprot_t prot)
{
	return __pte((pte_val(pte) & _PAGE_CHG_MASK) |
		     (pgprot_val(prot) & ~_PAGE_CHG_MASK));
}

#define pte_same(a, b) (!((pte_val(a) ^ pte_val(b)) & ~_PAGE_KEEL))
#define __HAVE_ARCH_PTE_SAME

#define set_pte(ptep, pte) WRITE_ONCE(*(ptep), pte)

/* How many small pages an entry is for. */
static inline unsigned long l4_pte_pages(pte_t pte)
{
	return pte_val(pte) & _PAGE_PSE ? PTRS_PER_PTE : 1;
}

static_assert(KEEL_FPAGE_WRITE == _PAGE_RW);

/* The rights that L4 may give for an entry: to write only where it is dirty already. */
static inline unsigned long l4_pte_rights(pte_t pte)
{
	unsigned long value = pte_val(pte);

	if ((value & (_PAGE_PRESENT | _PAGE_ACCESSED)) != (_PAGE_PRESENT | _PAGE_ACCESSED))
		return 0;
	return KEEL_FPAGE_READ | (value & value / (_PAGE_DIRTY / _PAGE_RW) & _PAGE_RW) |
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

#define pte_clear(mm, address, ptep) ((void)ptep_get_and_clear(mm, address, ptep))

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
#define ptep_modify_prot_start(vma, address, ptep) __pte(READ_ONCE((ptep)->pte) & ~_PAGE_KEEL)

static inline void l4_modify_prot_commit(struct mm_struct *mm, unsigned long address, pte_t *ptep,
					 pte_t old, pte_t pte)
{
	unsigned long noted = (_PAGE_ACCESSED | _PAGE_DIRTY) & ~pte_val(old);

	l4_pte_change(mm, address, ptep, ~noted, pte_val(pte));
}
#define ptep_modify_prot_commit(vma, address, ptep, old, pte) \
	l4_modify_prot_commit((vma)->vm_mm, address, ptep, old, pte)
#define __HAVE_ARCH_PTEP_MODIFY_PROT_TRANSACTION

int ptep_test_and_clear_young(struct vm_area_struct *vma, unsigned long address,
			      pte_t *ptep);
#define __HAVE_ARCH_PTEP_TEST_AND_CLEAR_YOUNG
/* Does not flush, as on x86: until the queue is emptied, accesses are merely not noticed. */
#define ptep_clear_flush_young ptep_test_and_clear_young
#define __HAVE_ARCH_PTEP_CLEAR_YOUNG_FLUSH
int ptep_set_access_flags(struct vm_area_struct *vma, unsigned long address,
			  pte_t *ptep, pte_t entry, int dirty);
#define __HAVE_ARCH_PTEP_SET_ACCESS_FLAGS

#define L4_TABLE_LEVEL(x, present)						\
static inline void set_##x(x##_t *p, x##_t v) { WRITE_ONCE(*p, v); }		\
static inline int x##_none(x##_t e) { return !x##_val(e); }			\
static inline int x##_present(x##_t e) { return x##_val(e) & (present); }	\
static inline int x##_bad(x##_t e)						\
{										\
	return (x##_val(e) & ~PTE_PFN_MASK) != _PAGE_TABLE;			\
}										\
static inline void x##_clear(x##_t *p) { set_##x(p, __##x(0)); }
L4_TABLE_LEVEL(pmd, _PAGE_PRESENT | _PAGE_PROTNONE | _PAGE_PSE)
L4_TABLE_LEVEL(pud, _PAGE_PRESENT)
L4_TABLE_LEVEL(p4d, _PAGE_PRESENT)
#undef L4_TABLE_LEVEL

#define pmd_ERROR(e) pr_err("bad pmd %lx\n", pmd_val(e))
#define pud_ERROR(e) pr_err("bad pud %lx\n", pud_val(e))
#define pgd_ERROR(e) pr_err("bad pgd %lx\n", pgd_val(e))

#define pmd_leaf(e) (!!(pmd_val(e) & _PAGE_PSE))
#define pmd_pfn(e) ((pmd_val(e) & PTE_PFN_MASK) >> PAGE_SHIFT)
#define pmd_page(e) pfn_to_page(pmd_pfn(e))
#define pud_pfn(e) ((pud_val(e) & PTE_PFN_MASK) >> PAGE_SHIFT)
#define pud_page(e) pfn_to_page(pud_pfn(e))
#define p4d_page(e) pfn_to_page((p4d_val(e) & PTE_PFN_MASK) >> PAGE_SHIFT)
#define pmd_page_vaddr(e) ((unsigned long)pfn_to_virt(pmd_pfn(e)))
#define pud_pgtable(e) ((pmd_t *)pfn_to_virt(pud_pfn(e)))
#define p4d_pgtable(e) ((pud_t *)__va(p4d_val(e) & PTE_PFN_MASK))

#define update_mmu_cache(vma, address, ptep) do { } while (0)

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
#define pmd_pte(pmd) __pte(pmd_val(pmd))
#define pte_pmd(pte) __pmd(pte_val(pte))
#define pmd_trans_huge(e) pmd_leaf(e)
#define pfn_pmd(pfn, prot) pte_pmd(pfn_pte(pfn, prot))
#define mk_pmd(page, prot) pfn_pmd(page_to_pfn(page), prot)
#define pmd_modify(e, prot) pte_pmd(pte_modify(pmd_pte(e), prot))
#define set_pmd_at(mm, address, p, e) set_pte_at(mm, address, (pte_t *)(p), pmd_pte(e))
#define update_mmu_cache_pmd(vma, address, p) update_mmu_cache(vma, address, (pte_t *)(p))

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
#define __HAVE_ARCH_PMDP_TEST_AND_CLEAR_YOUNG
#define __HAVE_ARCH_PMDP_SET_ACCESS_FLAGS
#define __HAVE_ARCH_PMD_SAME
pmd_t pmdp_collapse_flush(struct vm_area_struct *vma, unsigned long address, pmd_t *pmdp);
#define pmdp_collapse_flush pmdp_collapse_flush
#endif

/* The entry of a swapped page: the type in bits 5:1, the offset from bit 12 on. */
#define __swp_type(x) (((x).val >> 1) & 0x1f)
#define __swp_offset(x) ((x).val >> 12)
#define __swp_entry(type, offset) \
	((swp_entry_t){ ((type) << 1) | ((unsigned long)(offset) << 12) })
#define __pte_to_swp_entry(p) \
	((swp_entry_t){ pte_val(p) & ~(_PAGE_SWP_EXCLUSIVE | _PAGE_SWP_UFFD_WP) })
#define __swp_entry_to_pte(x) ((pte_t){ (x).val })
#define __pmd_to_swp_entry(p) __pte_to_swp_entry(pmd_pte(p))
#define __swp_entry_to_pmd(x) ((pmd_t){ (x).val })

#define pgprot_noncached(p) __pgprot(pgprot_val(p) | _PAGE_PCD)
#define kern_addr_valid(address) virt_addr_valid(address)

/* The first checks what a driver maps (mm/init.c); the second is against a processor bug. */
#define __HAVE_ARCH_PFN_MODIFY_ALLOWED
bool pfn_modify_allowed(unsigned long pfn, pgprot_t prot);
#define arch_has_pfn_modify_check() false
#define __pte_needs_invert(value) false
#define l1tf_pfn_limit() ~0UL

/* vmalloc and ioremap pass the range that changed to mm/vmalloc.c, which maps it at once. */
#define ARCH_PAGE_TABLE_SYNC_MASK PGTBL_PTE_MODIFIED

#endif /* __ASSEMBLY__ */
#endif
