// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults of user threads. First the logical tables are walked as hardware
 * would walk them; only what they do not allow goes to Linux. The page, and young
 * neighbours of it, are mapped with the reply that resumes the thread.
 */
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/pgtable.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>
#include <asm/trap_pf.h>
#include <asm/trapnr.h>
#include <asm/walk.h>

/* Pages around the fault that are mapped with it. */
#define AROUND 16
/* Beside the right of a fault: neighbours with the same flags come along though they are marked; none does. */
#define ALIKE (KEEL_FPAGE_RWX + 1)
#define ALONE (2 * ALIKE)

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

/* The entry of an address of the current program, as l4_find_pte(). */
static __always_inline pte_t *l4_find_entry(unsigned long address)
{
	return l4_soft_tlb_pte(current->mm, address) ?: l4_walk(address);
}

/*
 * The entry of a user's address, or zero; *used is what an access with a right, if there is one, makes
 * of it, zero where it forbids that.
 */
static pte_t l4_entry_of(unsigned long address, unsigned long right, pte_t *used)
{
	pte_t *ptep, pte = __pte(0);

	*used = pte;
	if (address >= TASK_SIZE_MAX)
		return pte;
	l4_walk_begin();
	ptep = l4_find_entry(address);
	if (ptep) {
		pte = READ_ONCE(*ptep);
		if (right && pte_val(pte) & _PAGE_PRESENT)
			*used = l4_pte_use(ptep, right);
	}
	l4_walk_end();
	return pte;
}

/* What x86 would have pushed. */
static unsigned long l4_error_code(unsigned long address, unsigned long right)
{
	unsigned long code = X86_PF_USER;
	pte_t none;

	if (address >= TASK_SIZE_MAX || pte_val(l4_entry_of(address, 0, &none)) & _PAGE_PRESENT)
		code |= X86_PF_PROT;
	if (right & KEEL_FPAGE_WRITE)
		code |= X86_PF_WRITE;
	if (right & KEEL_FPAGE_EXEC)
		code |= X86_PF_INSTR;
	return code;
}

static void l4_trace_fault(unsigned long address)
{
	struct pt_regs *regs = current_pt_regs();

	pr_info("%s[%d]: segfault at %lx ip %lx sp %lx error %lx", current->comm, current->pid,
		address, regs->ip, regs->sp, current->thread.error_code);
	print_vma_addr(KERN_CONT " in ", regs->ip);
	pr_cont("\n");
}

/* The signal of a fault; no other fault is seen in a signal's frame. Always false. */
static bool l4_fault_signal(int signal, int code, unsigned long address, unsigned long right)
{
	current->thread.trap_nr = X86_TRAP_PF;
	current->thread.cr2 = address;
	current->thread.error_code = l4_error_code(address, right);
	if (signal == SIGSEGV && l4_is_traced(signal))
		l4_trace_fault(address);
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

static void l4_fault_error(unsigned long address, unsigned long right, vm_fault_t fault)
{
	if (fault & VM_FAULT_OOM)
		pagefault_out_of_memory();
	else if (fault & (VM_FAULT_SIGBUS | VM_FAULT_HWPOISON | VM_FAULT_HWPOISON_LARGE))
		l4_fault_signal(SIGBUS, BUS_ADRERR, address, right);
	else if (fault & VM_FAULT_SIGSEGV)
		l4_fault_signal(SIGSEGV, SEGV_MAPERR, address, right);
}

/* Linux's own handling; false if it ended in a signal. Else *asked has ALONE if memory is anonymous. */
static bool l4_slow_fault(struct pt_regs *regs, unsigned long address, unsigned long *asked)
{
	unsigned long right = *asked;
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
		return l4_fault_signal(SIGSEGV, SEGV_MAPERR, address, right);
	if (l4_vma_forbids(vma, right)) {
		mmap_read_unlock(mm);
		return l4_fault_signal(SIGSEGV, SEGV_ACCERR, address, right);
	}
	if (vma_is_anonymous(vma))
		*asked = right | ALONE;
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
		l4_fault_error(address, right, fault);
		return false;
	}
	return true;
}

/*
 * What is to be mapped. New anonymous memory has no neighbours that wait for that. Where the page was
 * mapped and this access is the first of its kind they came along then. Where it is not, L4 has less
 * than the mark says, of those like it too: mprotect() gave rights, or a reclaim took the pages.
 */
void l4_user_fault(struct pt_regs *regs, unsigned long address, unsigned long right)
{
	unsigned long asked = right;
	pte_t used, old = l4_entry_of(address, right, &used);

	if (pte_none(used)) {
		if (!l4_slow_fault(regs, address, &asked))
			return;
		if (!pte_none(old))
			asked = right;
	} else if (l4_is_device(used)) {
		/* A driver put it into the tables, at a fault before: there is nothing to map. */
		l4_fault_signal(SIGBUS, BUS_ADRERR, address, right);
		return;
	}
	if (pte_val(old) & _PAGE_KEEL_MAPPED)
		asked |= pte_val(used) == pte_val(old) ? ALIKE : ALONE;
	current->thread.fault_address = address;
	current->thread.fault_rights = asked;
	current->thread.resume_action = L4_RESUME_MAPPINGS;
}

/* Whether L4 may have a page by an entry, which is present and young, and that without a mark. */
static bool l4_may_map(pte_t pte, unsigned long mark)
{
	unsigned long needed = _PAGE_PRESENT | _PAGE_ACCESSED;

	return (pte_val(pte) & (needed | mark)) == needed && !l4_is_device(pte);
}

/* No entry's flags. */
#define NO_FLAGS PTE_PFN_MASK

/*
 * Items for AROUND entries, of which that at `asked` may be marked; none for one that changes
 * meanwhile. Neighbours come along if that costs no decision of Linux's. They are mostly alike:
 * flags are not looked at again for the next one, nor at first the good ones, unless they do not tell.
 */
static noinline unsigned int l4_put_row(unsigned long *maps, unsigned long address, pte_t *ptep,
					const pte_t *asked, unsigned long good)
{
	unsigned long untold = _PAGE_SPECIAL | _PAGE_PCD | _PAGE_KEEL_MAPPED;
	unsigned long fpage = keel_page(PAGE_OFFSET, l4_pte_rights(__pte(good)));
	unsigned long *map = maps, value, flags;
	const pte_t *end = ptep + AROUND;

	for (; ptep < end; ptep++, address += PAGE_SIZE) {
		value = READ_ONCE(ptep->pte);
		flags = value & ~PTE_PFN_MASK;
		if (flags != good) {
			if (!l4_may_map(__pte(value), _PAGE_KEEL_MAPPED) &&
			    (ptep != asked || !l4_may_map(__pte(value), 0)))
				continue;
			fpage = keel_page(PAGE_OFFSET, l4_pte_rights(__pte(flags)));
			good = flags & untold ? NO_FLAGS : flags;
		}
		if (!try_cmpxchg(&ptep->pte, &value, value | _PAGE_KEEL_MAPPED))
			continue;
		map[0] = address;
		map[1] = fpage + (value & PTE_PFN_MASK);
		map += 2;
	}
	return (map - maps) / 2;
}

/* The item of a page, unless its entry changes meanwhile. */
static __always_inline unsigned int l4_put_single(unsigned long *maps, unsigned long address,
						  pte_t *ptep, pte_t pte, unsigned long log2)
{
	unsigned long value = pte_val(pte), phys = value & PTE_PFN_MASK;

	if (!try_cmpxchg(&ptep->pte, &value, value | _PAGE_KEEL_MAPPED))
		return 0;
	maps[0] = address & -(1UL << log2);
	maps[1] = keel_fpage((unsigned long)__va(phys), log2, l4_pte_rights(pte));
	return 1;
}

/* l4_pte_use(), where mostly nothing is left to do. */
static __always_inline pte_t l4_use(pte_t *ptep, unsigned long right)
{
	unsigned long bits = _PAGE_PRESENT | _PAGE_ACCESSED;
	pte_t pte = READ_ONCE(*ptep);

	if (right & KEEL_FPAGE_WRITE)
		bits |= _PAGE_RW | _PAGE_DIRTY;
	if (unlikely((pte_val(pte) & bits) != bits || right & KEEL_FPAGE_EXEC))
		return l4_pte_use(ptep, right);
	return pte;
}

static unsigned int l4_put_items(unsigned long *maps, unsigned long address, unsigned long right)
{
	unsigned long before = pte_index(address) % AROUND, good = NO_FLAGS;
	pte_t *ptep = l4_find_entry(address), pte;

	pte = ptep ? l4_use(ptep, right) : __pte(0);
	if (pte_none(pte) || l4_is_device(pte))
		return 0;
	if (unlikely(pte_huge(pte)))
		return l4_put_single(maps, address, ptep, pte, PMD_SHIFT);
	if (right & ALONE)
		return l4_put_single(maps, address, ptep, pte, PAGE_SHIFT);
	if (right & ALIKE && !(pte_val(pte) & (_PAGE_SPECIAL | _PAGE_PCD)))
		good = pte_val(pte) & ~PTE_PFN_MASK;
	return l4_put_row(maps, address - before * PAGE_SIZE, ptep - before, ptep, good);
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

	thread->resume_action = L4_RESUME_REPLY;
	l4_walk_begin();
	count = l4_put_items(utcb->maps, thread->fault_address & PAGE_MASK, thread->fault_rights);
	l4_walk_end();
	return count;
}
