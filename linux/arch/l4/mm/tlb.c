// SPDX-License-Identifier: GPL-2.0-only
/*
 * The TLB flush. L4's mappings are a TLB of the guest page tables that all processors share. Each
 * mm has a queue of pages that lost rights in its tables and may still have them in L4. The queue
 * is emptied when it is full, when Linux flushes a TLB, and before a thread of the mm is resumed.
 * context.lock protects the queue, except for its latest range, which is extended without a lock.
 * Nothing here sleeps. Flushes may run with interrupts soft-masked or not, but not within a section
 * of their own processor, nor with a lock that an interrupt handler or softirq takes: they spin
 * until other processors have left their sections, in which those run. That is so for each change
 * of a mapped entry, too, because it flushes when the queue is full; handlers make none.
 *
 * Lockless walks. Another processor may use an entry that it read before it changed: to access user
 * memory (l4_lockless_walk) or to map the page (l4_mapping). Readers set their variable before they
 * load the entry; the flusher changes the entry by one atomic instruction and then tests the
 * variables. A reader either sees the new entry, or is waited for: until its section ends, or it
 * has mapped the page and waits for a message. A reader marks an entry KEEL_MAPPED before it maps
 * the page, so that a change afterwards queues the page. Page tables are freed after the same wait.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/pgtable.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>

DEFINE_PER_CPU(unsigned int, l4_lockless_walk);
DEFINE_PER_CPU(const struct mm_struct *, l4_mapping);

/*
 * Returns true if a processor maps pages of the mm, or with NULL, if it is in a walk section. When
 * its server thread waits already, the pages are mapped. The question stops other processors, so
 * there is a pause between two of them.
 */
static bool l4_in_section(unsigned int cpu, const struct mm_struct *mm)
{
	return mm ? READ_ONCE(per_cpu(l4_mapping, cpu)) == mm && !keel_waits(KEEL_SERVER + cpu) :
		    READ_ONCE(per_cpu(l4_lockless_walk, cpu));
}

/*
 * Waits until no other processor is in such a section. The caller has changed the tables before,
 * with a full barrier in between, so a processor whose section begins later sees the change. Does
 * not wait for this processor, whose own sections have ended.
 */
static void l4_wait_for_sections(const struct mm_struct *mm)
{
	unsigned int cpu;

	/* A processor is counted, and has its bit, before its first walk. */
	if (num_online_cpus() == 1)
		return;
	for_each_online_cpu(cpu) {
		while (cpu != raw_smp_processor_id() && l4_in_section(cpu, mm)) {
			if (mm)
				udelay(1);
			else
				cpu_relax();
		}
	}
}

/*
 * Unmaps everything in a task. Linux may free the pages after that, so it must not continue if they
 * stay mapped.
 */
void l4_unmap_all(unsigned long task)
{
	unsigned long status = keel_unmap_all(task);

	if (status)
		panic("keel: task %lx keeps its pages: status %ld", task, (long)status);
}

/*
 * The latest range of a queue is one word, so that one atomic instruction adds the next page. Its
 * fields from bit 0 on: the rights to keep, the number of the page after the last one, and the
 * count of pages.
 */
#define LAST_END_SHIFT 3
#define LAST_PAGES_SHIFT 38
static_assert(KEEL_FPAGE_RWX >> LAST_END_SHIFT == 0);
static_assert(KEEL_USER_END >> PAGE_SHIFT < 1UL << (LAST_PAGES_SHIFT - LAST_END_SHIFT));

/* Unpacks a latest range. */
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
 * Unmaps all ranges of a queue that is not empty. Called with context.lock held. If the
 * micro-kernel refuses a range it has unmapped neither that nor those after it: then the whole
 * space is unmapped, since mappings are only a cache. context.last becomes 0 after the pages were
 * unmapped, so others see an empty queue only when nothing of it is mapped. If the latest range was
 * extended meanwhile, all is done again.
 */
static void l4_unmap_empty(struct mm_struct *mm)
{
	mm_context_t *context = &mm->context;
	unsigned long last = READ_ONCE(context->last);

	context->unmaps++;
	do {
		context->ranges[context->queued] = l4_range_of(last);
		l4_wait_for_sections(mm);
		if (keel_unmap(context->keel_task, context->ranges, context->queued + 1))
			l4_unmap_all(context->keel_task);
	} while (!try_cmpxchg(&context->last, &last, 0));
	context->queued = 0;
}

/* Empties the queue if anything is in it. Takes context.lock. */
void l4_unmap_queue_empty(struct mm_struct *mm)
{
	spin_lock(&mm->context.lock);
	if (mm->context.last)
		l4_unmap_empty(mm);
	spin_unlock(&mm->context.lock);
}

/*
 * The flush: after it no processor uses an entry or table that was changed before. The caller is
 * not in a walk section and holds no lock that an interrupt handler takes.
 */
void flush_tlb_mm(struct mm_struct *mm)
{
	/* A new generation is a plain store: walks that begin after this barrier see it. */
	smp_mb();
	l4_wait_for_sections(NULL);
	l4_unmap_queued(mm);
}

/* Invalidates the lines of the software TLB (asm/walk.h) that have tables of the mm. */
void l4_tables_freed(struct mm_struct *mm)
{
	static atomic_long_t last;

	WRITE_ONCE(mm->context.generation, atomic_long_inc_return(&last));
}

/*
 * Notes that mremap() is about to move a page table. Called with mmap_lock held for writing. Always
 * returns true: the move is allowed.
 */
bool l4_note_move(struct mm_struct *mm, unsigned long from, unsigned long to)
{
	mm->context.move_from = from;
	WRITE_ONCE(mm->context.move_to, to | L4_MOVE);
	return true;
}

/*
 * The flush after a page table may have moved: moves L4's mappings along. If the noted move was not
 * made, or belongs to another flush, this is harmless: then Linux still has a table at the old
 * addresses, or L4 has nothing mapped there.
 */
void l4_flush_moved(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	mm_context_t *context = &mm->context;
	unsigned long to;

	if (start != context->move_from || end - start != PMD_SIZE) {
		flush_tlb_mm(mm);
		return;
	}
	l4_tables_freed(mm);
	flush_tlb_mm(mm);
	spin_lock(&context->lock);
	to = context->move_to;
	WRITE_ONCE(context->move_to, 0);
	if (to && context->keel_task && !l4_find_pte(mm, start)) {
		context->unmaps++;
		l4_wait_for_sections(mm);
		if (keel_move_table(context->keel_task, start, to & ~L4_MOVE))
			l4_unmap_all(context->keel_task);
	}
	spin_unlock(&context->lock);
}

/*
 * Makes a new latest range, and moves the one before it into the array; empties the queue if that
 * is full. Other processors may still extend the old range until it is replaced.
 */
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
	if (last)
		context->queued++;
out:
	spin_unlock(&context->lock);
}

/*
 * Adds pages to the queue. Pages that follow the latest range and keep the same rights extend it.
 * Callers have changed the entry already.
 */
static __always_inline void l4_queue_pages(struct mm_struct *mm, unsigned long page,
					   unsigned long pages, unsigned long keep)
{
	unsigned long more = pages << LAST_PAGES_SHIFT | pages << LAST_END_SHIFT, last, sum;
	unsigned long first = page << LAST_END_SHIFT | keep;

	/*
	 * Without a task nothing is mapped. While destroy_context() deletes the task, the lock or
	 * the flush waits for it.
	 */
	if (!READ_ONCE(mm->context.keel_task))
		return;
	last = READ_ONCE(mm->context.last);
	if ((last ^ first) << (64 - LAST_PAGES_SHIFT) || check_add_overflow(last, more, &sum) ||
	    !try_cmpxchg(&mm->context.last, &last, sum))
		l4_begin_range(mm, more + first);
}

void l4_unmap_queue(struct mm_struct *mm, unsigned long address, pte_t old, unsigned long keep)
{
	if (unlikely(pte_val(old) & _PAGE_PSE))
		l4_queue_pages(mm, (address & PMD_MASK) >> PAGE_SHIFT, PTRS_PER_PTE, keep);
	else
		l4_queue_pages(mm, address >> PAGE_SHIFT, 1, keep);
}
EXPORT_SYMBOL(l4_unmap_queue);

/* Makes an entry old. A mapped page is queued for unmapping, so that the next access faults. */
int ptep_test_and_clear_young(struct vm_area_struct *vma, unsigned long address,
			      pte_t *ptep)
{
	pte_t old;

	if (!pte_young(*ptep))
		return 0;
	old = l4_pte_change(vma->vm_mm, address, ptep, _PAGE_ACCESSED, 0);
	return !!pte_young(old);
}

/* Only adds rights. Bits that a walker set meanwhile stay. */
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
/* Removes a table whose pages may be mapped, and unmaps them before the caller copies them. */
pmd_t pmdp_collapse_flush(struct vm_area_struct *vma, unsigned long address, pmd_t *pmdp)
{
	pmd_t old = pmdp_huge_get_and_clear(vma->vm_mm, address, pmdp);

	l4_tables_freed(vma->vm_mm);
	l4_unmap_queue(vma->vm_mm, address, __pte(_PAGE_PSE), 0);
	flush_tlb_mm(vma->vm_mm);
	return old;
}
#endif
