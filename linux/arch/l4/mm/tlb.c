// SPDX-License-Identifier: GPL-2.0-only
/*
 * L4's mappings as a TLB that several processors share. An mm has a queue of pages
 * that lost rights in its tables and may still have them in L4; neighbouring pages
 * share a range. It is emptied when it is full, where Linux flushes a TLB, and before
 * a thread of the mm runs on.
 *
 * Others may be about to use an entry that they read before it changed: who reads
 * user memory through it (l4_walking), and who maps its page (l4_mapping). Both say
 * so before they read, entries change by one atomic instruction, and who flushes
 * looks for them behind it; so either they see the new entry, or they are waited for.
 * A page that is being mapped carries the mark HOST_MAPPED before, so that it is queued.
 * In the same way page tables stay while somebody walks them.
 */
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>

DEFINE_PER_CPU(unsigned int, l4_walking);
DEFINE_PER_CPU(unsigned int, l4_mapping);

static void wait_while(const unsigned int __percpu *busy)
{
	unsigned int cpu;

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
	unsigned long status = host_unmap_all(task);

	if (status)
		panic("keel: task %lx keeps its pages: status %ld", task, (long)status);
}

/*
 * Called with the lock held. Where the micro-kernel refuses a range, it has done neither that nor
 * those after it: then the whole space goes. Mappings are only a cache.
 */
static void empty(struct mm_struct *mm)
{
	wait_while(&l4_mapping);
	if (host_unmap(mm->context.host_task, mm->context.ranges, mm->context.queued))
		l4_unmap_all(mm->context.host_task);
	WRITE_ONCE(mm->context.queued, 0);
}

void l4_unmap_queue_empty(struct mm_struct *mm)
{
	spin_lock(&mm->context.lock);
	if (mm->context.queued)
		empty(mm);
	spin_unlock(&mm->context.lock);
}

/* Callers may not be within a walk of their own, nor hold what an interrupt needs. */
void l4_unmap_flush(struct mm_struct *mm)
{
	/* A new number of the tables is a plain store: seen by whoever begins to walk after this. */
	smp_mb();
	wait_while(&l4_walking);
	l4_unmap_queued(mm);
}

/* Makes void what mm/uaccess.c remembers of the mm's tables. */
void l4_tables_freed(struct mm_struct *mm)
{
	static atomic_long_t last;

	WRITE_ONCE(mm->context.tables, atomic_long_inc_return(&last));
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
	if (to && context->host_task && !l4_find_pte(mm, start)) {
		wait_while(&l4_mapping);
		if (host_move_table(context->host_task, start, to & ~L4_MOVE))
			l4_unmap_all(context->host_task);
	}
	spin_unlock(&context->lock);
}

static bool extend_last(struct mm_struct *mm, unsigned long address, unsigned long pages,
			unsigned long keep)
{
	struct keel_unmap_range *last = &mm->context.ranges[mm->context.queued - 1];

	if (!mm->context.queued)
		return false;
	if (last->address + (last->pages << PAGE_SHIFT) != (address | keep))
		return false;
	last->pages += pages;
	return true;
}

void l4_unmap_queue(struct mm_struct *mm, unsigned long address, unsigned long pages,
		    unsigned long keep)
{
	address &= ~((pages << PAGE_SHIFT) - 1);
	spin_lock(&mm->context.lock);
	if (mm->context.host_task && !extend_last(mm, address, pages, keep)) {
		if (mm->context.queued == L4_QUEUED_RANGES)
			empty(mm);
		mm->context.ranges[mm->context.queued].address = address | keep;
		mm->context.ranges[mm->context.queued].pages = pages;
		WRITE_ONCE(mm->context.queued, mm->context.queued + 1);
	}
	spin_unlock(&mm->context.lock);
}
EXPORT_SYMBOL(l4_unmap_queue);

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
	l4_unmap_queue(vma->vm_mm, address, PTRS_PER_PTE, 0);
	l4_unmap_flush(vma->vm_mm);
	return old;
}
#endif
