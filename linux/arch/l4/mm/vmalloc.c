// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's own mappings outside the direct map: the vmalloc area, modules and
 * device memory. Linux changes its page tables and tells the range; here L4 is
 * made to agree at once, so that kernel code never faults for it. RAM is mapped
 * by the mapper, an lthread whose replies carry map items from the direct map into
 * the same space; device pages come from sigma0. The mapper also is who processes'
 * native lthreads see of Linux (kernel/native.c).
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#define ITEMS_MAX 32

static char l4_pager_stack[PAGE_SIZE] __aligned(PAGE_SIZE);

/* The order to the mapper: what its next reply shall carry. One range is mapped at a time. */
static DEFINE_SPINLOCK(l4_pager_lock);
static struct {
	unsigned int count;
	unsigned long maps[2 * ITEMS_MAX];
	unsigned long answered;		/* not 0: it is an answer to this thread instead */
	struct keel_message *answer;
	unsigned long how;		/* KEEL_IPC_ANSWER: nowhere but where it faulted */
} l4_pager_request;

static void l4_pager_loop(void)
{
	struct keel_utcb *utcb = keel_utcb(KEEL_PAGER);
	unsigned long flags = KEEL_IPC_RECEIVE | KEEL_IPC_OPEN;
	struct keel_message m = { };

	for (;;) {
		keel_ipc(flags, m.partner, 0, &m);
		flags = KEEL_IPC_RECEIVE | KEEL_IPC_OPEN;
		if (m.status)
			continue;
		if (!keel_is_own(m.partner)) {
			l4_native_message(&m);
			continue;
		}
		memcpy(utcb->maps, l4_pager_request.maps, l4_pager_request.count * 2 * sizeof(long));
		m.tag = (unsigned long)l4_pager_request.count << KEEL_TAG_MAPS_SHIFT;
		if (l4_pager_request.answered) {
			l4_pager_request.answer->tag |= m.tag;
			keel_ipc(l4_pager_request.how | KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO, l4_pager_request.answered, 0,
				 l4_pager_request.answer);
			m.tag = 0;
		}
		flags |= KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO;
	}
}

void __init l4_pager_init(void)
{
	if (keel_create(KEEL_PAGER, l4_pager_loop, l4_pager_stack + sizeof(l4_pager_stack),
			keel_start->priority + 1, 0))
		panic("keel: no mapper");
}

static void l4_pager_call(void)
{
	struct keel_utcb *utcb = keel_utcb(keel_server());
	struct keel_message m;
	bool again = true;

	if (!l4_pager_request.count)
		return;
	utcb->receive_fpage = KEEL_FPAGE_WHOLE;
	for (;;) {
		m = (struct keel_message){ };
		keel_call(keel_self(KEEL_PAGER), &m);
		if (!again || m.status != KEEL_STATUS(KEEL_SIDE_RECEIVE, KEEL_ERROR_NO_MEMORY))
			break;
		again = l4_mm_reclaim();
	}
	utcb->receive_fpage = KEEL_FPAGE_NIL;
	WARN_ONCE(m.status, "keel: kernel mapping: status %ld\n", (long)m.status);
	l4_pager_request.count = 0;
}

/* Answers a native lthread: with words, or with mappings for the current task's fault. */
void l4_pager_answer(unsigned long thread, struct keel_message *answer, bool maps)
{
	struct keel_utcb *utcb = keel_utcb(keel_server());
	struct keel_message m = { };
	unsigned long flags;

	spin_lock(&l4_pager_lock);
	local_irq_save(flags);
	if (maps) {
		l4_map_begin();
		l4_pager_request.count = l4_fault_items(utcb);
		memcpy(l4_pager_request.maps, utcb->maps, l4_pager_request.count * 2 * sizeof(long));
	}
	l4_pager_request.answered = thread;
	l4_pager_request.answer = answer;
	l4_pager_request.how = maps ? KEEL_IPC_ANSWER : 0;
	keel_call(keel_self(KEEL_PAGER), &m);
	l4_pager_request.answered = 0;
	l4_pager_request.count = 0;
	if (maps)
		l4_map_end();
	local_irq_restore(flags);
	spin_unlock(&l4_pager_lock);
}

static unsigned long l4_kernel_rights(pte_t pte)
{
	unsigned long rights = KEEL_FPAGE_READ;

	if (pte_write(pte))
		rights |= KEEL_FPAGE_WRITE;
	if (pte_exec(pte))
		rights |= KEEL_FPAGE_EXEC;
	return rights;
}

static void l4_map_kernel_page(unsigned long address, pte_t pte)
{
	unsigned int index = l4_pager_request.count;
	phys_addr_t phys = PFN_PHYS(pte_pfn(pte));

	if (l4_is_device(pte)) {
		if (keel_map_device(phys, address))
			return;
		l4_mm_reclaim();
		if (!keel_map_device(phys, address))
			pr_err("keel: no device memory at page %lx\n", pte_pfn(pte));
		return;
	}
	l4_pager_request.maps[2 * index] = address;
	l4_pager_request.maps[2 * index + 1] = keel_page((unsigned long)pfn_to_virt(pte_pfn(pte)),
							 l4_kernel_rights(pte));
	if (++l4_pager_request.count == ITEMS_MAX)
		l4_pager_call();
}

/* Linux changed kernel page tables in this range. */
void arch_sync_kernel_mappings(unsigned long start, unsigned long end)
{
	unsigned long task = keel_self(KEEL_SERVER) |
			     (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
	unsigned long address;
	struct keel_unmap_range range;
	pte_t *ptep;

	start &= PAGE_MASK;
	end = PAGE_ALIGN(end);
	spin_lock(&l4_pager_lock);
	range.address = start;
	range.pages = (end - start) >> PAGE_SHIFT;
	if (keel_unmap(task, &range, 1))
		panic("keel: kernel pages from %lx cannot be unmapped", start);
	for (address = start; address < end; address += PAGE_SIZE) {
		ptep = l4_find_pte(&init_mm, address);
		if (ptep && pte_present(*ptep))
			l4_map_kernel_page(address, *ptep);
	}
	l4_pager_call();
	spin_unlock(&l4_pager_lock);
}
