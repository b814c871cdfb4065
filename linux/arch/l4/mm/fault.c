// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults of user threads. The guest page tables are first walked as hardware would walk them;
 * only accesses that they do not allow are passed to Linux. The reply that resumes the thread maps
 * the page, and young neighbours of it. All of this runs in the server loop of the faulting task
 * (kernel/dispatch.c), or of the task that serves a native lthread: with interrupts on up to
 * l4_user_fault(), and with interrupts off in l4_fault_items(), which builds the map items.
 * Tables are read in walk sections (asm/tlbflush.h) and entries changed by CMPXCHG only.
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

/* The aligned block of pages around a fault from which neighbours are mapped. */
#define AROUND 16
/*
 * Flags besides the right of a fault: map neighbours with the same flags although they are marked
 * KEEL_MAPPED alone; map no neighbours.
 */
#define ALIKE (KEEL_FPAGE_RWX + 1)
#define ALONE (2 * ALIKE)

/*
 * Returns the entry of an address, which may be that of a large page, or NULL if there is no table.
 * The caller is in a walk section, or knows that the table stays. Each level is loaded once.
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

/*
 * Does what hardware does on an access: sets the accessed bit, and for writing the dirty bit, if
 * the entry allows the access. Returns the new entry, or zero if it does not. The caller is in a
 * walk section.
 */
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

/* Like l4_find_pte() for the current mm, but asks the software TLB first. */
static __always_inline pte_t *l4_find_entry(unsigned long address)
{
	return l4_soft_tlb_pte(current->mm, address) ?: l4_walk(address);
}

/*
 * Returns the entry of a user address, or zero. If `right` is not 0, *used is the entry after such
 * an access (l4_pte_use()), or zero if the entry forbids it.
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

/* The error code that x86 would have pushed. */
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

/* Logs a fault as x86 does (show_unhandled_signals). */
static void l4_trace_fault(unsigned long address)
{
	struct pt_regs *regs = current_pt_regs();

	pr_info("%s[%d]: segfault at %lx ip %lx sp %lx error %lx", current->comm, current->pid,
		address, regs->ip, regs->sp, current->thread.error_code);
	print_vma_addr(KERN_CONT " in ", regs->ip);
	pr_cont("\n");
}

/*
 * Sends the signal of a fault, after storing what its frame shows of it. Faults that Linux handles
 * store nothing.
 */
static void l4_fault_signal(int signal, int code, unsigned long address, unsigned long right)
{
	current->thread.trap_nr = X86_TRAP_PF;
	current->thread.cr2 = address;
	current->thread.error_code = l4_error_code(address, right);
	if (signal == SIGSEGV && l4_is_traced(signal))
		l4_trace_fault(address);
	force_sig_fault(signal, code, (void __user *)address);
}

/* What handle_mm_fault() does not return: the area forbids the access. */
#define VM_FAULT_BADACCESS ((__force vm_fault_t)0x010000)
#define FAULT_FAILED (VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_BADACCESS)

/*
 * Linux's own fault handling, for user mode with these registers, or for Linux with NULL. Returns
 * bits of FAULT_FAILED if the access is still not possible; VM_FAULT_RETRY is a pending signal.
 * *asked is the right of the access; ALONE is added for anonymous memory. Reading is allowed with
 * any right of the area, and so is, as on x86, the fetch of an instruction from a page that is not
 * `present`: it brings the page, and faults again. May sleep.
 */
static __always_inline vm_fault_t l4_handle_fault(struct pt_regs *regs, unsigned long address,
						  unsigned long *asked, unsigned int flags,
						  bool present)
{
	unsigned long right = *asked, needed = VM_READ | VM_WRITE | VM_EXEC;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	vm_fault_t fault;

	if (right & KEEL_FPAGE_WRITE) {
		flags |= FAULT_FLAG_WRITE;
		needed = VM_WRITE;
	} else if (right & KEEL_FPAGE_EXEC) {
		flags |= FAULT_FLAG_INSTRUCTION;
		if (present)
			needed = VM_EXEC;
	}
retry:
	vma = lock_mm_and_find_vma(mm, address, regs);
	if (!vma)
		return VM_FAULT_SIGSEGV;
	if (unlikely(!(vma->vm_flags & needed))) {
		mmap_read_unlock(mm);
		return VM_FAULT_BADACCESS;
	}
	if (vma_is_anonymous(vma))
		*asked = right | ALONE;
	fault = handle_mm_fault(vma, address, flags, regs);
	if (unlikely(fault & VM_FAULT_COMPLETED))
		return 0;
	if (unlikely(fault & VM_FAULT_RETRY)) {
		if (fatal_signal_pending(current) || (regs && signal_pending(current)))
			return fault;
		flags |= FAULT_FLAG_TRIED;
		goto retry;
	}
	mmap_read_unlock(mm);
	return fault;
}

/*
 * Handles the fault that an access by Linux would have caused. Returns true if the walk is to be
 * repeated, false for an error (-EFAULT): also if page faults are disabled, or a fatal signal is
 * pending. May sleep: the caller is not in a walk section. fixup_user_fault() cannot be used,
 * because it asks for VM_READ: as on x86 the kernel may read whatever the program may, and that
 * includes pages that are mapped for writing or execution only.
 */
bool l4_fault_in(unsigned long address, unsigned long right)
{
	unsigned int flags = FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;

	return !faulthandler_disabled() &&
	       !(l4_handle_fault(NULL, address, &right, flags, true) & FAULT_FAILED);
}

/* Sends the signal, or starts the OOM killer, for a fault that was not handled. */
static void l4_fault_error(struct pt_regs *regs, unsigned long address, unsigned long right,
			   vm_fault_t fault)
{
	if (fault & VM_FAULT_OOM)
		pagefault_out_of_memory();
	else if (fault & (VM_FAULT_SIGBUS | VM_FAULT_HWPOISON | VM_FAULT_HWPOISON_LARGE))
		l4_fault_signal(SIGBUS, BUS_ADRERR, address, right);
	else if (fault & VM_FAULT_BADACCESS)
		l4_fault_signal(SIGSEGV, SEGV_ACCERR, address, right);
	else if (fault & VM_FAULT_SIGSEGV && !l4_left_gate(regs))
		l4_fault_signal(SIGSEGV, SEGV_MAPERR, address, right);
}

/*
 * Handles a fault of user mode at an address that has the entry `old`. Returns false if a signal
 * was sent or is pending. May sleep.
 */
static bool l4_slow_fault(struct pt_regs *regs, unsigned long address, unsigned long *asked,
			  pte_t old)
{
	unsigned int flags = FAULT_FLAG_DEFAULT | FAULT_FLAG_USER;
	vm_fault_t fault = VM_FAULT_SIGSEGV;
	unsigned long right = *asked;

	perf_sw_event(PERF_COUNT_SW_PAGE_FAULTS, 1, regs, address);
	if (address < TASK_SIZE_MAX)
		fault = l4_handle_fault(regs, address, asked, flags,
					pte_val(old) & _PAGE_PRESENT);
	if (likely(!(fault & FAULT_FAILED)))
		return true;
	l4_fault_error(regs, address, right, fault);
	return false;
}

/*
 * Returns true, and sends a signal, if a program in supervisor mode has gone to a 32-bit code
 * segment, which is user mode: it can use none of its pages there.
 */
static bool l4_left_supervisor(struct pt_regs *regs, unsigned long address, unsigned long right)
{
	if (likely(!current->mm->context.supervisor || regs->cs != __USER32_CS))
		return false;
	pr_notice_ratelimited("keel: %s[%d]: a program in supervisor mode cannot run 32-bit code\n",
			      current->comm, task_pid_nr(current));
	l4_fault_signal(SIGSEGV, SEGV_ACCERR, address, right);
	return true;
}

/* As often a fault may come in a row although L4 has what the access needs. */
#define SERVED_FAULTS 8

/*
 * Returns true, and sends a signal, if the same access has faulted again and again after L4 was
 * given the page with the right, and no page of the mm was unmapped in between: a processor that is
 * wrong about its own faults would otherwise repeat that without end. (Before QEMU 9.1 an IRET in
 * user mode reads its stack as the kernel would, and SMAP forbids that.) Native lthreads may unmap
 * pages of their process unseen.
 */
static noinline bool l4_served_in_vain(struct pt_regs *regs, unsigned long address,
				       unsigned long right)
{
	struct l4_served_fault *last = &current->thread.served_fault;
	unsigned long unmaps = READ_ONCE(current->mm->context.unmaps);
	bool same = last->ip == regs->ip && last->address == address && last->right == right &&
		    last->unmaps == unmaps && !current->mm->context.area;

	*last = (struct l4_served_fault){ regs->ip, address, right, unmaps,
					  same ? last->count + 1 : 0 };
	if (likely(last->count < SERVED_FAULTS))
		return false;
	last->count = 0;
	l4_fault_signal(SIGSEGV, SEGV_ACCERR, address, right);
	return true;
}

/*
 * Handles a page fault of the current task's lthread, and notes what the reply has to map. Called
 * with interrupts on; may sleep. The neighbours depend on the old entry:
 *   - New anonymous memory has no neighbours that are ready to be mapped: ALONE.
 *   - If the entry was marked and this access changed it (the first write, for instance), the
 *     neighbours were mapped with it before: ALONE.
 *   - If it was marked and is unchanged, L4 has fewer rights than the mark says. If mprotect() gave
 *     rights, that is marked too, and the neighbours for which that holds can be told. Else a
 *     reclaim unmapped the pages, and so it did those of neighbours with the same flags: ALIKE.
 *     Or the page is mapped, and user mode cannot use it: l4_left_supervisor(),
 *     l4_served_in_vain().
 */
void l4_user_fault(struct pt_regs *regs, unsigned long address, unsigned long right)
{
	unsigned long asked = right;
	pte_t used, old = l4_entry_of(address, right, &used);

	if (pte_none(used)) {
		if (!l4_slow_fault(regs, address, &asked, old))
			return;
		if (!pte_none(old))
			asked = right;
	} else if (l4_is_device(used)) {
		/* A driver's fault handler inserted it earlier: the direct map has no such page. */
		l4_fault_signal(SIGBUS, BUS_ADRERR, address, right);
		return;
	}
	if (pte_val(old) & _PAGE_KEEL_MAPPED && pte_val(used) != pte_val(old)) {
		asked |= ALONE;
	} else if ((pte_val(old) & _PAGE_KEEL) == _PAGE_KEEL_MAPPED) {
		if (l4_left_supervisor(regs, address, right) ||
		    l4_served_in_vain(regs, address, right))
			return;
		asked |= ALIKE;
	}
	current->thread.fault_address = address;
	current->thread.fault_rights = asked;
	current->thread.resume_action = L4_RESUME_MAPPINGS;
}

/* What an entry has that may be mapped: it is present and young. */
#define MAPPABLE (_PAGE_PRESENT | _PAGE_ACCESSED)

static bool l4_may_map(pte_t pte)
{
	return (pte_val(pte) & MAPPABLE) == MAPPABLE && !l4_is_device(pte);
}

/* Returns true if a page may be mapped and L4 lacks it, or some of its rights. */
static bool l4_lacks(pte_t pte)
{
	unsigned long marks = (pte_val(pte) & (MAPPABLE | _PAGE_KEEL)) ^ MAPPABLE;

	return (!marks || marks == _PAGE_KEEL) && !l4_is_device(pte);
}

/* A value that no entry's flags have. */
#define NO_FLAGS PTE_PFN_MASK

/*
 * Builds map items for up to AROUND entries, and returns their number. An entry that changes
 * meanwhile is left out. Entries whose pages are mapped are left out too, except for that at
 * `asked` and those with the flags `good`. Only neighbours that need no decision of Linux's are
 * mapped. Neighbours mostly have equal flags, so flags that were checked once, and those in `good`,
 * are not checked again, unless they are `untold`: then the answer depends on more than the flags.
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
			if (!l4_lacks(__pte(value)) &&
			    (ptep != asked || !l4_may_map(__pte(value))))
				continue;
			fpage = keel_page(PAGE_OFFSET, l4_pte_rights(__pte(flags)));
			good = flags & untold ? NO_FLAGS : flags;
		}
		if (!try_cmpxchg(&ptep->pte, &value,
				 (value & ~_PAGE_KEEL_MORE) | _PAGE_KEEL_MAPPED))
			continue;
		map[0] = address;
		map[1] = fpage + (value & PTE_PFN_MASK);
		map += 2;
	}
	return (map - maps) / 2;
}

/* Builds the item of one page. Returns 0 if its entry has changed meanwhile, else 1. */
static __always_inline unsigned int l4_put_single(unsigned long *maps, unsigned long address,
						  pte_t *ptep, pte_t pte, unsigned long log2)
{
	unsigned long value = pte_val(pte), phys = value & PTE_PFN_MASK;

	if (!try_cmpxchg(&ptep->pte, &value, (value & ~_PAGE_KEEL_MORE) | _PAGE_KEEL_MAPPED))
		return 0;
	maps[0] = address & -(1UL << log2);
	maps[1] = keel_fpage((unsigned long)__va(phys), log2, l4_pte_rights(pte));
	return 1;
}

/* l4_pte_use() with an inline fast path: mostly the bits are set already. */
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

/*
 * The fast path for a page without neighbours: builds its item, and returns true if its entry is
 * simple and its table cached. The caller is in a walk section.
 */
static __always_inline bool l4_put_alone(unsigned long *maps, unsigned long address,
					 unsigned long right)
{
	unsigned long bits = _PAGE_PRESENT | _PAGE_ACCESSED, value;
	pte_t *ptep;

	if (!(right & ALONE) || right & KEEL_FPAGE_EXEC)
		return false;
	ptep = l4_soft_tlb_pte(current->mm, address);
	if (unlikely(!ptep))
		return false;
	value = pte_val(READ_ONCE(*ptep));
	if (right & KEEL_FPAGE_WRITE)
		bits |= _PAGE_RW | _PAGE_DIRTY;
	if (unlikely((value & (bits | _PAGE_PSE | _PAGE_PCD)) != bits) ||
	    (value & _PAGE_SPECIAL && !is_zero_pfn(pte_pfn(__pte(value)))))
		return false;
	return l4_put_single(maps, address, ptep, __pte(value), PAGE_SHIFT);
}

/* Builds the items of a fault and returns their number. The caller is in a walk section. */
static noinline unsigned int l4_put_items(unsigned long *maps, unsigned long address,
					  unsigned long right)
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
 * Builds the map items of the reply to a fault in a UTCB, and returns their number. Called with
 * interrupts off just before the reply, so that no other task of this processor changes the tables
 * in between; where other processors may, within l4_map_begin(). If the page has gone meanwhile,
 * the thread faults once more.
 */
unsigned int l4_fault_items(struct keel_utcb *utcb)
{
	struct thread_struct *thread = &current->thread;
	unsigned long address = thread->fault_address & PAGE_MASK, rights = thread->fault_rights;
	unsigned int count = 1;

	thread->resume_action = L4_RESUME_REPLY;
	l4_walk_begin();
	if (!l4_put_alone(utcb->maps, address, rights))
		count = l4_put_items(utcb->maps, address, rights);
	l4_walk_end();
	return count;
}
