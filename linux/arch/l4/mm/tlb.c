// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queue of pages that lost rights in the logical tables and may still have
 * them in L4. It is for one mm at a time; neighbouring pages share a range. It is
 * emptied when it is full, when another mm needs it, and before a user thread
 * runs. Only the server thread touches it.
 */
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>

static struct {
	struct mm_struct *mm;
	unsigned int count;
	struct keel_unmap_range ranges[KEEL_MAX_RANGES];
} queue;

void l4_unmap_flush(void)
{
	unsigned long status;

	if (likely(!queue.count))
		return;
	status = host_unmap(queue.mm->context.host_task, queue.ranges, queue.count);
	WARN_ONCE(status, "keel: unmap: status %ld\n", (long)status);
	queue.count = 0;
}

/* The mm's space is deleted as a whole. */
void l4_unmap_forget(struct mm_struct *mm)
{
	if (queue.mm == mm)
		queue.count = 0;
}

static bool extend_last(unsigned long address, unsigned long keep)
{
	struct keel_unmap_range *last = &queue.ranges[queue.count - 1];

	if (!queue.count)
		return false;
	if (last->address + (last->pages << PAGE_SHIFT) != (address | keep))
		return false;
	last->pages++;
	return true;
}

void l4_unmap_queue(struct mm_struct *mm, unsigned long address, unsigned long keep)
{
	if (!mm->context.host_task)
		return;
	address &= PAGE_MASK;
	if (queue.mm != mm || queue.count == KEEL_MAX_RANGES)
		l4_unmap_flush();
	queue.mm = mm;
	if (extend_last(address, keep))
		return;
	queue.ranges[queue.count].address = address | keep;
	queue.ranges[queue.count].pages = 1;
	queue.count++;
}
EXPORT_SYMBOL(l4_unmap_queue);

int ptep_test_and_clear_young(struct vm_area_struct *vma, unsigned long address,
			      pte_t *ptep)
{
	int young = !!pte_young(*ptep);

	if (young)
		l4_pte_exchange(vma->vm_mm, address, ptep, pte_mkold(*ptep));
	return young;
}

int ptep_clear_flush_young(struct vm_area_struct *vma, unsigned long address,
			   pte_t *ptep)
{
	return ptep_test_and_clear_young(vma, address, ptep);
}

int ptep_set_access_flags(struct vm_area_struct *vma, unsigned long address,
			  pte_t *ptep, pte_t entry, int dirty)
{
	int changed = !pte_same(*ptep, entry);

	if (changed)
		l4_pte_exchange(vma->vm_mm, address, ptep, entry);
	return changed;
}
