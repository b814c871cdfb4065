// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's own mappings outside the direct map: the vmalloc area, modules and device memory.
 * After Linux changes kernel page tables it passes the range to arch_sync_kernel_mappings(), which
 * updates L4's mappings at once, so that kernel code does not fault there. RAM is mapped by
 * messages of the server thread to itself, whose items are pages of the direct map; device pages
 * come from sigma0. A page for which kmem was not enough is mapped when it is used: l4_map_again().
 *
 * The pager thread is an lthread on the first processor, the pager, handler and partner of the
 * native lthreads of processes (kernel/native.c). l4_pager_lock protects the items, and the request
 * to it; the lock is taken in process context, and nothing sleeps with it held.
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
/* The status of a message with map items if kmem is used up for the mappings. */
#define L4_NO_ROOM_FOR_MAPPINGS KEEL_STATUS(KEEL_SIDE_SEND, KEEL_ERROR_NO_MEMORY)

static char l4_pager_stack[PAGE_SIZE] __aligned(PAGE_SIZE);

/*
 * What the server thread maps next, or the request to the pager thread. Written under l4_pager_lock
 * before the IPC.
 */
static DEFINE_SPINLOCK(l4_pager_lock);
static struct {
	unsigned int count;
	unsigned long maps[2 * ITEMS_MAX];
	unsigned long answered;		/* the native lthread that gets the reply */
	struct keel_message *answer;	/* to that lthread; has the status afterwards */
	unsigned long how;		/* KEEL_IPC_ANSWER: the reply to a fault only */
} l4_pager_request;

/*
 * The pager thread. It runs none of Linux's code except l4_native_message(). A message of the
 * server's task is a request; any other is of a native lthread.
 */
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
		memcpy(utcb->maps, l4_pager_request.maps,
		       l4_pager_request.count * 2 * sizeof(long));
		m.tag = (unsigned long)l4_pager_request.count << KEEL_TAG_MAPS_SHIFT;
		l4_pager_request.answer->tag |= m.tag;
		keel_ipc(l4_pager_request.how | KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO,
			 l4_pager_request.answered, 0, l4_pager_request.answer);
		m.tag = 0;
		flags |= KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO;
	}
}

/* Starts the pager thread, on the first processor and with a priority above the server's. */
void __init l4_pager_init(void)
{
	if (keel_create(KEEL_PAGER, l4_pager_loop, l4_pager_stack + sizeof(l4_pager_stack),
			keel_start->priority + 1, 0))
		panic("keel: no pager thread");
}

/*
 * Maps what the request has into the server's space. Called with l4_pager_lock held. If kmem is
 * used up for the mappings, it is reclaimed as long as that helps, and the last try comes after a
 * reclaim that did not. What has no room even then is mapped when it is used.
 */
static void l4_map_kernel_pages(void)
{
	unsigned int count = l4_pager_request.count;
	struct keel_message m = { };
	bool helped = true, again = count;

	while (again) {
		memcpy(keel_utcb(keel_server())->maps, l4_pager_request.maps, count * 2 * sizeof(long));
		m.tag = (unsigned long)count << KEEL_TAG_MAPS_SHIFT;
		keel_ipc(KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO, keel_self(keel_server()), 0, &m);
		again = m.status == L4_NO_ROOM_FOR_MAPPINGS && helped;
		helped = again && l4_mm_reclaim();
	}
	WARN_ONCE(m.status && m.status != L4_NO_ROOM_FOR_MAPPINGS,
		  "keel: kernel mapping: status %ld\n", (long)m.status);
	l4_pager_request.count = 0;
}

/*
 * On a trap reflector, by its UTCB: maps a page of the vmalloc area that Linux's tables have and L4
 * lacks. Returns false if Linux's tables do not have it, or if there is no room again.
 */
bool l4_map_again(unsigned long address, unsigned long right, struct keel_utcb *utcb)
{
	struct keel_message m = { .tag = 1UL << KEEL_TAG_MAPS_SHIFT };
	unsigned long rights;
	pte_t *ptep, pte;

	if (address < VMALLOC_START || address >= MODULES_END)
		return false;
	ptep = l4_find_pte(&init_mm, address);
	if (!ptep)
		return false;
	pte = READ_ONCE(*ptep);
	rights = l4_pte_rights(pte_mkdirty(pte_mkyoung(pte)));
	if (!pte_present(pte) || l4_is_device(pte) || !(rights & right))
		return false;
	utcb->maps[0] = address & PAGE_MASK;
	utcb->maps[1] = keel_page((unsigned long)pfn_to_virt(pte_pfn(pte)), rights);
	keel_ipc(KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO, utcb->id, 0, &m);
	return !m.status;
}

/*
 * Has the pager thread reply to a native lthread: with the words of `answer`, or with mappings for
 * the current task's fault (l4_fault_items()). answer->status is the status of the reply. Returns
 * after the reply was sent.
 */
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
		memcpy(l4_pager_request.maps, utcb->maps,
		       l4_pager_request.count * 2 * sizeof(long));
	}
	l4_pager_request.answered = thread;
	l4_pager_request.answer = answer;
	l4_pager_request.how = maps ? KEEL_IPC_ANSWER : 0;
	keel_call(keel_self(KEEL_PAGER), &m);
	l4_pager_request.count = 0;
	if (maps)
		l4_map_end();
	local_irq_restore(flags);
	spin_unlock(&l4_pager_lock);
}

/*
 * Maps one page of the kernel: a device page at once, RAM with the next request, which is made when
 * it is full. Called with l4_pager_lock held.
 */
static void l4_map_kernel_page(unsigned long address, pte_t pte)
{
	unsigned long rights = l4_pte_rights(pte_mkdirty(pte_mkyoung(pte)));
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
							 rights);
	if (++l4_pager_request.count == ITEMS_MAX)
		l4_map_kernel_pages();
}

/*
 * Linux has changed kernel page tables in this range: unmaps it in the server's space and maps what
 * is present now.
 */
void arch_sync_kernel_mappings(unsigned long start, unsigned long end)
{
	unsigned long address;
	struct keel_unmap_range range;
	pte_t *ptep;

	start &= PAGE_MASK;
	end = PAGE_ALIGN(end);
	spin_lock(&l4_pager_lock);
	range.address = keel_number(start);
	range.pages = (end - start) >> PAGE_SHIFT;
	if (keel_unmap(keel_own_task(), &range, 1))
		panic("keel: kernel pages from %lx cannot be unmapped", start);
	for (address = start; address < end; address += PAGE_SIZE) {
		ptep = l4_find_pte(&init_mm, address);
		if (ptep && pte_present(*ptep))
			l4_map_kernel_page(address, *ptep);
	}
	l4_map_kernel_pages();
	spin_unlock(&l4_pager_lock);
}
