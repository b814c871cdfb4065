// SPDX-License-Identifier: GPL-2.0-only
/*
 * L4's mappings as a TLB that several processors share. An mm has a queue of pages
 * that lost rights in its tables and may still have them in L4; neighbouring pages
 * share a range. It is emptied when it is full, where Linux flushes a TLB, and before
 * a thread of the mm runs on. Its latest range is extended without a lock.
 *
 * Others may be about to use an entry that they read before it changed: who reads
 * user memory through it (l4_lockless_walk), and who maps its page (l4_mapping). Both say
 * so before they read, entries change by one atomic instruction, and who flushes
 * looks for them behind it; so either they see the new entry, or they are waited for.
 * A page that is being mapped carries the mark KEEL_MAPPED before, so that it is queued.
 * In the same way page tables stay while somebody walks them.
 */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/pgtable.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>

DEFINE_PER_CPU(unsigned int, l4_lockless_walk);
DEFINE_PER_CPU(unsigned int, l4_mapping);

static void l4_wait_while(const unsigned int __percpu *busy)
{
	unsigned int cpu;

	/* Like its bit, a processor's count is there before its first walk. */
	if (num_online_cpus() == 1)
		return;
	for_each_online_cpu(cpu)
		while (cpu != raw_smp_processor_id() && READ_ONCE(*per_cpu_ptr(busy, cpu)))
			cpu_relax();
}

/*
 * Nothing is mapped in the task any more. Linux frees the pages next: it may not go on where
 * they stay mapped.
 */
void l4_unmap_all(unsigned long task)
{
	unsigned long status = keel_unmap_all(task);

	if (status)
		panic("keel: task %lx keeps its pages: status %ld", task, (long)status);
}

/*
 * The latest range of a queue is one word, so that the next page is added by one atomic instruction:
 * from bit 0 on the rights to keep, then the number of the page after its last, then how many pages.
 */
#define LAST_END_SHIFT 3
#define LAST_PAGES_SHIFT 38
static_assert(KEEL_FPAGE_RWX >> LAST_END_SHIFT == 0);
static_assert(KEEL_USER_END >> PAGE_SHIFT < 1UL << (LAST_PAGES_SHIFT - LAST_END_SHIFT));

static struct keel_unmap_range l4_range_of(unsigned long last)
{
	unsigned long pages = last >> LAST_PAGES_SHIFT;
	unsigned long end = (last & ((1UL << LAST_PAGES_SHIFT) - 1)) >> LAST_END_SHIFT;

	return (struct keel_unmap_range) {
		.address = (end - pages) << PAGE_SHIFT | (last & KEEL_FPAGE_RWX),
		.pages = pages,
	};
}

/*
 * Called with the lock held, and something is queued. Where the micro-kernel refuses a range, it
 * has done neither that nor those after it: then the whole space goes. Mappings are only a cache.
 * The queue is empty for others only once nothing in it is mapped.
 */
static void l4_unmap_empty(struct mm_struct *mm)
{
	mm_context_t *context = &mm->context;
	unsigned long last = READ_ONCE(context->last);

	do {
		context->ranges[context->queued] = l4_range_of(last);
		l4_wait_while(&l4_mapping);
		if (keel_unmap(context->keel_task, context->ranges, context->queued + 1))
			l4_unmap_all(context->keel_task);
	} while (!try_cmpxchg(&context->last, &last, 0));
	context->queued = 0;
}

void l4_unmap_queue_empty(struct mm_struct *mm)
{
	spin_lock(&mm->context.lock);
	if (mm->context.last)
		l4_unmap_empty(mm);
	spin_unlock(&mm->context.lock);
}

/* Callers may not be within a walk of their own, nor hold what an interrupt needs. */
void l4_unmap_flush(struct mm_struct *mm)
{
	/* A new number of the tables is a plain store: seen by whoever begins to walk after this. */
	smp_mb();
	l4_wait_while(&l4_lockless_walk);
	l4_unmap_queued(mm);
}

/* Makes void what mm/uaccess.c remembers of the mm's tables. */
void l4_tables_freed(struct mm_struct *mm)
{
	static atomic_long_t last;

	WRITE_ONCE(mm->context.generation, atomic_long_inc_return(&last));
}

/* Its caller has the mm for itself as a writer has. Always true. */
bool l4_note_move(struct mm_struct *mm, unsigned long from, unsigned long to)
{
	mm->context.move_from = from;
	WRITE_ONCE(mm->context.move_to, to | L4_MOVE);
	return true;
}

/*
 * A flush where a page table may have moved. A move that was noted and not made, or is another
 * one's, does no harm: Linux has a table at the old addresses then, or L4 has nothing mapped there.
 */
void l4_flush_moved(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	mm_context_t *context = &mm->context;
	unsigned long to;

	if (start != context->move_from || end - start != PMD_SIZE) {
		l4_unmap_flush(mm);
		return;
	}
	l4_tables_freed(mm);
	l4_unmap_flush(mm);
	spin_lock(&context->lock);
	to = context->move_to;
	WRITE_ONCE(context->move_to, 0);
	if (to && context->keel_task && !l4_find_pte(mm, start)) {
		l4_wait_while(&l4_mapping);
		if (keel_move_table(context->keel_task, start, to & ~L4_MOVE))
			l4_unmap_all(context->keel_task);
	}
	spin_unlock(&context->lock);
}

/* Begins a range. The one before it may still be extended until there is the new one. */
static noinline void l4_begin_range(struct mm_struct *mm, unsigned long range)
{
	mm_context_t *context = &mm->context;
	unsigned long last;

	spin_lock(&context->lock);
	if (!context->keel_task)
		goto out;
	if (context->queued == L4_QUEUED_RANGES - 1)
		l4_unmap_empty(mm);
	last = READ_ONCE(context->last);
	do
		context->ranges[context->queued] = l4_range_of(last);
	while (!try_cmpxchg(&context->last, &last, range));
	context->queued += !!last;
out:
	spin_unlock(&context->lock);
}

/* Pages that follow the latest range and keep the same rights are added to it. */
static __always_inline void l4_queue_pages(struct mm_struct *mm, unsigned long page,
					   unsigned long pages, unsigned long keep)
{
	unsigned long more = pages << LAST_PAGES_SHIFT | pages << LAST_END_SHIFT, last, sum;
	unsigned long first = page << LAST_END_SHIFT | keep;

	/* Without a task nothing is mapped. Until an ending one has gone, the lock or the flush waits for it. */
	if (!READ_ONCE(mm->context.keel_task))
		return;
	last = READ_ONCE(mm->context.last);
	if ((last ^ first) << (64 - LAST_PAGES_SHIFT) || check_add_overflow(last, more, &sum) ||
	    !try_cmpxchg(&mm->context.last, &last, sum))
		l4_begin_range(mm, more + first);
}

void l4_unmap_queue_page(struct mm_struct *mm, unsigned long address, unsigned long keep)
{
	l4_queue_pages(mm, address >> PAGE_SHIFT, 1, keep);
}
EXPORT_SYMBOL(l4_unmap_queue_page);

void l4_unmap_queue_large(struct mm_struct *mm, unsigned long address, unsigned long keep)
{
	l4_queue_pages(mm, (address & PMD_MASK) >> PAGE_SHIFT, PTRS_PER_PTE, keep);
}
EXPORT_SYMBOL(l4_unmap_queue_large);

int ptep_test_and_clear_young(struct vm_area_struct *vma, unsigned long address,
			      pte_t *ptep)
{
	pte_t old;

	if (!pte_young(*ptep))
		return 0;
	old = l4_pte_change(vma->vm_mm, address, ptep, _PAGE_ACCESSED, 0);
	return !!pte_young(old);
}

int ptep_clear_flush_young(struct vm_area_struct *vma, unsigned long address,
			   pte_t *ptep)
{
	return ptep_test_and_clear_young(vma, address, ptep);
}

/* Only adds rights, and what a walker noted meanwhile stays. */
int ptep_set_access_flags(struct vm_area_struct *vma, unsigned long address,
			  pte_t *ptep, pte_t entry, int dirty)
{
	int changed = !pte_same(*ptep, entry);

	if (changed)
		l4_pte_change(vma->vm_mm, address, ptep, 0,
			      pte_val(entry) & (_PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_RW));
	return changed;
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/* A table goes whose pages may be mapped: they are unmapped before they are copied. */
pmd_t pmdp_collapse_flush(struct vm_area_struct *vma, unsigned long address, pmd_t *pmdp)
{
	pmd_t old = pmdp_huge_get_and_clear(vma->vm_mm, address, pmdp);

	l4_tables_freed(vma->vm_mm);
	l4_unmap_queue_large(vma->vm_mm, address, 0);
	l4_unmap_flush(vma->vm_mm);
	return old;
}
#endif
