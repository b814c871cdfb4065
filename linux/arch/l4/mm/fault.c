// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults of user threads. First the logical tables are walked as hardware
 * would walk them; only what they do not allow goes to Linux. The page, and young
 * neighbours of it, are mapped with the reply that resumes the thread.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/pgtable.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>
#include <asm/trap_pf.h>
#include <asm/trapnr.h>

/* Pages around the fault that are mapped with it. */
#define AROUND 16
/* Beside the right of a fault. */
#define RECLAIMED (KEEL_FPAGE_RWX + 1)

/*
 * The entry of an address, of a large page too, or NULL where there is no table. The
 * caller is within a walk, or knows that the table stays; each level is read once.
 */
pte_t *l4_find_pte(struct mm_struct *mm, unsigned long address)
{
	p4d_t p4d = READ_ONCE(*p4d_offset(pgd_offset(mm, address), address));
	pmd_t *pmdp, pmd;
	pud_t pud;

	if (!p4d_present(p4d))
		return NULL;
	pud = READ_ONCE(*pud_offset(&p4d, address));
	if (!pud_present(pud))
		return NULL;
	pmdp = pmd_offset(&pud, address);
	pmd = READ_ONCE(*pmdp);
	if (!pmd_present(pmd))
		return NULL;
	return pmd_leaf(pmd) ? (pte_t *)pmdp : pte_offset_kernel(&pmd, address);
}

/* Does what the processor would: notes the access if the entry allows it, and is zero if not. */
pte_t l4_pte_use(pte_t *ptep, unsigned long right)
{
	unsigned long value = READ_ONCE(ptep->pte), bits = _PAGE_ACCESSED;

	if (right & KEEL_FPAGE_WRITE)
		bits |= _PAGE_DIRTY;
	do {
		if ((value & (_PAGE_PRESENT | _PAGE_PROTNONE)) != _PAGE_PRESENT ||
		    (right & KEEL_FPAGE_EXEC && value & _PAGE_NX) ||
		    (right & KEEL_FPAGE_WRITE && !(value & _PAGE_RW)))
			return __pte(0);
	} while ((value & bits) != bits && !try_cmpxchg(&ptep->pte, &value, value | bits));
	return __pte(value | bits);
}

/*
 * The entry of a user's address, perhaps used with a right; zero: there is none, or it forbids that.
 * It is marked HOST_MAPPED only if nothing of it had to change.
 */
static pte_t entry_of(unsigned long address, unsigned long right)
{
	pte_t *ptep, pte = __pte(0), old;

	if (address >= TASK_SIZE_MAX)
		return pte;
	l4_walk_begin();
	ptep = l4_find_pte(current->mm, address);
	if (ptep) {
		old = READ_ONCE(*ptep);
		pte = right ? l4_pte_use(ptep, right) : old;
		if (pte_val(pte) != pte_val(old))
			pte = __pte(pte_val(pte) & ~_PAGE_HOST_MAPPED);
	}
	l4_walk_end();
	return pte;
}

/* What x86 would have pushed. */
static unsigned long error_code(unsigned long address, unsigned long right)
{
	unsigned long code = X86_PF_USER;

	if (address >= TASK_SIZE_MAX || pte_val(entry_of(address, 0)) & _PAGE_PRESENT)
		code |= X86_PF_PROT;
	if (right & KEEL_FPAGE_WRITE)
		code |= X86_PF_WRITE;
	if (right & KEEL_FPAGE_EXEC)
		code |= X86_PF_INSTR;
	return code;
}

static void trace_fault(unsigned long address)
{
	struct pt_regs *regs = current_pt_regs();

	pr_info("%s[%d]: segfault at %lx ip %lx sp %lx error %lx", current->comm, current->pid,
		address, regs->ip, regs->sp, current->thread.error_code);
	print_vma_addr(KERN_CONT " in ", regs->ip);
	pr_cont("\n");
}

/* The signal of a fault; no other fault is seen in a signal's frame. Always false. */
static bool fault_signal(int signal, int code, unsigned long address, unsigned long right)
{
	current->thread.trap_nr = X86_TRAP_PF;
	current->thread.cr2 = address;
	current->thread.error_code = error_code(address, right);
	if (signal == SIGSEGV && l4_is_traced(signal))
		trace_fault(address);
	force_sig_fault(signal, code, (void __user *)address);
	return false;
}

/* Whether a program may not access memory so. */
bool l4_vma_forbids(const struct vm_area_struct *vma, unsigned long right)
{
	if (right & KEEL_FPAGE_WRITE)
		return !(vma->vm_flags & VM_WRITE);
	if (right & KEEL_FPAGE_EXEC)
		return !(vma->vm_flags & VM_EXEC);
	return !(vma->vm_flags & (VM_READ | VM_EXEC | VM_WRITE));
}

static void fault_error(unsigned long address, unsigned long right, vm_fault_t fault)
{
	if (fault & VM_FAULT_OOM)
		pagefault_out_of_memory();
	else if (fault & (VM_FAULT_SIGBUS | VM_FAULT_HWPOISON | VM_FAULT_HWPOISON_LARGE))
		fault_signal(SIGBUS, BUS_ADRERR, address, right);
	else if (fault & VM_FAULT_SIGSEGV)
		fault_signal(SIGSEGV, SEGV_MAPERR, address, right);
}

/* Linux's own handling; false if it ended in a signal. */
static bool slow_fault(struct pt_regs *regs, unsigned long address, unsigned long right)
{
	unsigned int flags = FAULT_FLAG_DEFAULT | FAULT_FLAG_USER;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	vm_fault_t fault;

	perf_sw_event(PERF_COUNT_SW_PAGE_FAULTS, 1, regs, address);
	if (right & KEEL_FPAGE_WRITE)
		flags |= FAULT_FLAG_WRITE;
	if (right & KEEL_FPAGE_EXEC)
		flags |= FAULT_FLAG_INSTRUCTION;
retry:
	vma = address < TASK_SIZE_MAX ? lock_mm_and_find_vma(mm, address, regs) : NULL;
	if (!vma)
		return fault_signal(SIGSEGV, SEGV_MAPERR, address, right);
	if (l4_vma_forbids(vma, right)) {
		mmap_read_unlock(mm);
		return fault_signal(SIGSEGV, SEGV_ACCERR, address, right);
	}
	fault = handle_mm_fault(vma, address, flags, regs);
	if (fault_signal_pending(fault, regs))
		return false;
	if (fault & VM_FAULT_COMPLETED)
		return true;
	if (fault & VM_FAULT_RETRY) {
		flags |= FAULT_FLAG_TRIED;
		goto retry;
	}
	mmap_read_unlock(mm);
	if (fault & VM_FAULT_ERROR) {
		fault_error(address, right, fault);
		return false;
	}
	return true;
}

void l4_user_fault(struct pt_regs *regs, unsigned long address, unsigned long right)
{
	pte_t pte = entry_of(address, right);

	if (pte_none(pte)) {
		if (!slow_fault(regs, address, right))
			return;
	} else if (l4_is_device(pte)) {
		/* A driver put it into the tables, at a fault before: there is nothing to map. */
		fault_signal(SIGBUS, BUS_ADRERR, address, right);
		return;
	}
	/* It was mapped, and a reclaim took it: its neighbours' marks tell nothing either. */
	if (pte_val(pte) & _PAGE_HOST_MAPPED)
		right |= RECLAIMED;
	current->thread.fault_address = address;
	current->thread.fault_rights = right;
	current->thread.owed = L4_OWED_MAPPINGS;
}

/* One item for an entry, unless that has changed meanwhile; how many it makes. */
static unsigned int put_item(struct keel_utcb *utcb, unsigned int index, unsigned long address,
			     pte_t *ptep, pte_t pte)
{
	unsigned long value = pte_val(pte), size = l4_pte_pages(pte) << PAGE_SHIFT;

	if (!try_cmpxchg(&ptep->pte, &value, value | _PAGE_HOST_MAPPED))
		return 0;
	utcb->maps[2 * index] = address & ~(size - 1);
	utcb->maps[2 * index + 1] = host_fpage((unsigned long)pfn_to_virt(pte_pfn(pte)),
					       ilog2(size), l4_pte_rights(pte));
	return 1;
}

/* A neighbour comes along if that costs no decision of Linux's, and if it has not this mark. */
static bool worth_mapping(pte_t pte, unsigned long mark)
{
	return (pte_val(pte) & (_PAGE_PRESENT | mark)) == _PAGE_PRESENT && l4_pte_rights(pte) &&
	       !l4_is_device(pte);
}

static unsigned int put_items(struct keel_utcb *utcb, unsigned long address, unsigned long right)
{
	pte_t *ptep = l4_find_pte(current->mm, address), *first, pte;
	unsigned long mark = right & RECLAIMED ? 0 : _PAGE_HOST_MAPPED;
	unsigned int count = 0, i;

	pte = ptep ? l4_pte_use(ptep, right) : __pte(0);
	if (pte_none(pte) || l4_is_device(pte))
		return 0;
	count += put_item(utcb, count, address, ptep, pte);
	if (l4_pte_pages(pte) > 1)
		return count;
	first = ptep - pte_index(address) % AROUND;
	address -= pte_index(address) % AROUND * PAGE_SIZE;
	for (i = 0; i < AROUND; i++) {
		pte = READ_ONCE(first[i]);
		if (first + i != ptep && worth_mapping(pte, mark))
			count += put_item(utcb, count, address + i * PAGE_SIZE, first + i, pte);
	}
	return count;
}

/*
 * Builds the map items of the reply to a fault: called just before it, when no other
 * thread of this processor can change the tables any more. The page may have gone
 * again; then it is faulted for once more.
 */
unsigned int l4_fault_items(struct keel_utcb *utcb)
{
	struct thread_struct *thread = &current->thread;
	unsigned int count;

	thread->owed = L4_OWED_REPLY;
	l4_walk_begin();
	count = put_items(utcb, thread->fault_address & PAGE_MASK, thread->fault_rights);
	l4_walk_end();
	return count;
}
