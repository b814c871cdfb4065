// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server loop: resumes the current task's lthread, waits for its next message (a system call,
 * page fault, exception or trigger), and serves that. Each Linux task runs this loop on its own
 * kernel stack, on the server thread of its processor; schedule() switches stacks, so at most one
 * user lthread runs on a processor. Interrupts are soft-masked from l4_exit_to_user() through the
 * IPC to the entry of the next message, as they are on hardware between exit and entry. The races
 * with the IRQ thread, which preempts this code between any two instructions, are closed as
 * kernel/irq.c describes.
 *
 * A resumption is one IPC: the reply to the lthread and an open wait. While a reply with map items
 * is made, other processors may change the page tables (mm/tlb.c).
 */
#include <linux/entry-common.h>
#include <linux/irqflags.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>
#include <linux/syscalls.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>
#include <asm/sighandling.h>
#include <asm/syscall.h>
#include <asm/tlbflush.h>
#include <asm/trapnr.h>
#include <asm/umip.h>

#define WAIT (KEEL_IPC_RECEIVE | KEEL_IPC_OPEN)
#define RESUME_AND_WAIT (WAIT | KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO)

/* Kills the current process, because the micro-kernel refuses a call for it, and logs why. */
void l4_kill_current(const char *why, unsigned long status)
{
	pr_err("keel: %s[%d]: %s: status %ld\n", current->comm, current->pid, why,
	       (long)status);
	force_fatal_sig(SIGKILL);
}

/* Builds the map items of the reply to a fault in the UTCB, and returns the reply's tag. */
static unsigned long l4_fault_tag(void)
{
	return (unsigned long)l4_fault_items(keel_utcb(keel_server())) << KEEL_TAG_MAPS_SHIFT;
}

/* Maps what a fault of a program in the server needs, in the server's own space: L4's status. */
static unsigned long l4_map_inside(void)
{
	struct keel_message m = { };

	l4_map_begin();
	m.tag = l4_fault_tag();
	if (m.tag)
		keel_ipc(KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO, keel_self(keel_server()), 0, &m);
	l4_map_end();
	return m.status;
}

/* Tests bits of a word that others change, in one instruction: READ_ONCE() takes two. */
static __always_inline bool l4_test_bits(const unsigned long *word, unsigned long bits)
{
	bool set;

	asm volatile("testl %[bits], %[word]"
		     CC_SET(nz)
		     : CC_OUT(nz) (set)
		     : [word] "m" (*(const unsigned int *)word), [bits] "i" (bits));
	return set;
}

/*
 * l4_exit_to_user() and l4_enter_syscall() are the common cases of irqentry_exit_to_user_mode() and
 * syscall_enter_from_user_mode(), inline. These handle the rest, and all cases if lockdep has to be
 * told of the interrupt state.
 */
#define GENERIC_ENTRY_ONLY IS_ENABLED(CONFIG_TRACE_IRQFLAGS)

/*
 * Does the exit work of a return to user mode. Called with interrupts on or off; returns with
 * interrupts off, as they stay until the next message is served.
 */
static __always_inline void l4_exit_to_user(struct task_struct *task, struct pt_regs *regs)
{
	local_irq_disable();
	if (GENERIC_ENTRY_ONLY || unlikely(l4_test_bits(&task_thread_info(task)->flags, EXIT_TO_USER_MODE_WORK)))
		irqentry_exit_to_user_mode(regs);
	else
		arch_exit_to_user_mode_prepare(regs, 0);
}

/*
 * Enables interrupts and does the entry work (tracing, seccomp). Returns the number of the call, or
 * -1 if it is to be skipped.
 */
static __always_inline long l4_enter_syscall(struct task_struct *task, struct pt_regs *regs)
{
	long nr = (int)regs->orig_ax;

	if (GENERIC_ENTRY_ONLY)
		return syscall_enter_from_user_mode(regs, nr);
	local_irq_enable();
	if (unlikely(l4_test_bits(&task_thread_info(task)->syscall_work, SYSCALL_WORK_ENTER)))
		nr = syscall_enter_from_user_mode_work(regs, nr);
	return nr;
}

/*
 * Serves a 64-bit system call. Interrupts are off, on entry and on return. regs->ax is -ENOSYS
 * before.
 */
static __always_inline void l4_syscall(struct task_struct *task, struct pt_regs *regs)
{
	long nr = l4_enter_syscall(task, regs);

	if (likely((unsigned long)nr < NR_syscalls)) {
		nr = array_index_nospec(nr, NR_syscalls);
		regs->ax = sys_call_table[nr](regs);
	} else if (nr != -1) {
		regs->ax = __x64_sys_ni_syscall(regs);
	}
	/* exec changes the contents of the registers, but regs still points to them. */
	if (unlikely(l4_test_bits(&task_thread_info(task)->syscall_work, SYSCALL_WORK_EXIT)))
		syscall_exit_to_user_mode(regs);
	else
		l4_exit_to_user(task, regs);
}

/* Not inlined, so that the 64-bit path has the registers that this one needs. */
static noinline void l4_syscall_32(struct pt_regs *regs)
{
	unsigned int nr;

	current_thread_info()->status |= TS_COMPAT;
	regs->orig_ax = (u32)regs->orig_ax;
	nr = syscall_enter_from_user_mode(regs, (int)regs->orig_ax);
	if (likely(nr < IA32_NR_syscalls))
		regs->ax = ia32_sys_call(regs, array_index_nospec(nr, IA32_NR_syscalls));
	else if (nr != -1)
		regs->ax = __ia32_sys_ni_syscall(regs);
	syscall_exit_to_user_mode(regs);
}

/*
 * Returns true if the lthread made a system call by an explicit message (KEEL_EX_DISPATCH): its
 * label is the number and its words are the arguments. They are put where SYSCALL would have left
 * them.
 */
static bool l4_message_syscall(struct pt_regs *regs, const struct keel_message *m)
{
	if (keel_kind(m) != KEEL_KIND_USER)
		return false;
	regs->orig_ax = keel_label(m);
	regs->di = m->words[0];
	regs->si = m->words[1];
	regs->dx = m->words[2];
	regs->r10 = m->words[3];
	regs->r8 = m->words[4];
	regs->r9 = m->words[5];
	return true;
}

/* The flags that a program may set. Single steps belong to Linux, which may have ended them. */
#define PROGRAMS_FLAGS (FIX_EFLAGS & ~X86_EFLAGS_TF)

/*
 * Returns true if the program's syscall trampoline (KEEL_EX_DISPATCH) forwards a call, by INT 0x80
 * from its own page. The call counts as made at the address in rcx and with the flags in r11, as
 * SYSCALL leaves them: the trampoline cannot rely on a stack, since the program may have none, or
 * another one when the call returns.
 */
static bool l4_forwarded_syscall(struct pt_regs *regs, const struct keel_message *m)
{
	if (!keel_is(m, KEEL_KIND_SYSCALL, KEEL_GATE_INT80) ||
	    current->thread.dispatch <= KEEL_DISPATCH_ON ||
	    (regs->ip ^ current->thread.dispatch) / PAGE_SIZE)
		return false;
	regs->ip = regs->cx;
	regs->flags = (regs->flags & ~PROGRAMS_FLAGS) | (regs->r11 & PROGRAMS_FLAGS);
	return true;
}

/*
 * Serves a message that is no system call: a fault, an exception, or a trigger, which only exits.
 */
static __always_inline void l4_other_message(struct task_struct *task, struct pt_regs *regs,
					     const struct keel_message *m)
{
	if (GENERIC_ENTRY_ONLY)
		irqentry_enter_from_user_mode(regs);
	local_irq_enable();
	switch (keel_kind(m)) {
	case KEEL_KIND_PAGE_FAULT:
		task->thread.reclaimed = false;
		l4_user_fault(regs, m->words[0], keel_label(m));
		break;
	case KEEL_KIND_SYSCALL:
		regs->ax = regs->orig_ax;	/* all other gates fault */
		regs->orig_ax = -1;
		l4_user_exception(regs, X86_TRAP_GP, 0, 0);
		break;
	case KEEL_KIND_EXCEPTION:
		l4_left_gate(regs);
		if (keel_label(m) == X86_TRAP_UD && static_branch_unlikely(&l4_inside_used) &&
		    l4_stub_undefined(regs))
			break;
		if (keel_label(m) == X86_TRAP_GP && boot_cpu_has(X86_FEATURE_UMIP) &&
		    fixup_umip_exception(regs))
			break;
		l4_user_exception(regs, keel_label(m), m->words[0], m->words[3]);
		break;
	default:
		l4_left_gate(regs);
		break;
	}
	l4_exit_to_user(task, regs);
}

/* Serves a message of the lthread. Interrupts are off, on entry and on return. */
static __always_inline void l4_route(struct task_struct *task, struct pt_regs *regs,
				     const struct keel_message *m)
{
	if (likely(keel_is(m, KEEL_KIND_SYSCALL, KEEL_GATE_SYSCALL)) ||
	    l4_message_syscall(regs, m) || l4_forwarded_syscall(regs, m)) {
		regs->ax = -ENOSYS;
		l4_syscall(task, regs);
	} else if (keel_is(m, KEEL_KIND_SYSCALL, KEEL_GATE_INT80)) {
		regs->ax = -ENOSYS;
		l4_syscall_32(regs);
	} else {
		l4_other_message(task, regs, m);
	}
}

/*
 * Handles a resumption that failed. If the micro-kernel has no memory for the mappings, the same
 * reply is sent again: as long as a reclaim frees memory, which other processors may take first,
 * and once if it does not. Else the process is killed. Interrupts are off, on entry and on return.
 */
static void l4_not_resumed(struct task_struct *task, struct pt_regs *regs, unsigned long status,
			   enum l4_resume_action resume_action)
{
	local_irq_enable();
	if (status == KEEL_STATUS(KEEL_SIDE_SEND, KEEL_ERROR_NO_MEMORY) &&
	    (l4_mm_reclaim() || !task->thread.reclaimed)) {
		task->thread.reclaimed = true;
		task->thread.resume_action = resume_action;
	} else {
		l4_kill_current("cannot be resumed", status);
	}
	l4_exit_to_user(task, regs);
}

/*
 * The slow path of l4_serve(): the IPC failed, or returned a late notification or a message of
 * another thread. Waits until the lthread sends a message, and serves it. If it was the reply that
 * failed, there is nothing to wait for.
 */
static noinline void l4_serve_later(struct task_struct *task, struct pt_regs *regs,
				    unsigned long status, enum l4_resume_action resume_action)
{
	unsigned long thread = task->thread.keel_thread;
	struct keel_message m = { .status = status };

	this_cpu_write(l4_served, 0);
	do {
		if (-m.status >> 8 == KEEL_SIDE_SEND) {
			this_cpu_write(l4_waiting, 0);
			l4_not_resumed(task, regs, m.status, resume_action);
			return;
		}
		m.tag = 0;
		keel_resume(WAIT, thread, &m, false);
	} while (m.status || m.partner != thread);
	this_cpu_write(l4_served, thread);
	this_cpu_write(l4_waiting, 0);
	l4_route(task, regs, &m);
}

/*
 * Resumes the lthread as resume_action says and waits for its next message, or only waits (flags),
 * and serves the message. Interrupts are off, on entry and on return. `shared`: other processors
 * may change what is mapped.
 */
static __always_inline void l4_serve(struct task_struct *task, struct pt_regs *regs,
				     unsigned long flags, enum l4_resume_action resume_action,
				     bool supervisor, bool shared)
{
	unsigned long thread = task->thread.keel_thread;
	struct keel_message m;

	/*
	 * Store, then test: an interrupt before the store is pending, and one after it is
	 * delivered at once (kernel/irq.c).
	 */
	this_cpu_write(l4_waiting, thread);
	barrier();
	if (unlikely(this_cpu_read(l4_irq_pending))) {
		if (!(flags & KEEL_IPC_SEND)) {	/* resumed already: stop it by a trigger */
			keel_trigger(thread);
		} else {
			this_cpu_write(l4_waiting, 0);
			local_irq_enable();
			l4_exit_to_user(task, regs);
			return;
		}
	}
	m.tag = 0;
	if (unlikely(resume_action != L4_RESUME_REPLY)) {
		if (shared)
			l4_map_begin();
		m.tag = l4_fault_tag();
	}
	keel_resume(flags, thread, &m, supervisor);
	if (shared)
		l4_map_end();
	if (unlikely(m.status | (m.partner ^ thread))) {
		l4_serve_later(task, regs, m.status, resume_action);
		return;
	}
	barrier();
	this_cpu_write(l4_served, thread);
	this_cpu_write(l4_waiting, 0);
	l4_route(task, regs, &m);
}

/*
 * Resumes an lthread otherwise than l4_loop(): by a start, so that only the wait is left to
 * l4_serve(), or with mappings where there are other processors.
 */
static noinline void l4_serve_slowly(struct task_struct *task, struct pt_regs *regs,
				     enum l4_resume_action resume_action)
{
	unsigned long thread = task->thread.keel_thread, flags = RESUME_AND_WAIT, status;

	if (resume_action == L4_RESUME_START) {
		status = keel_ex_regs(&thread, KEEL_EX_START);
		if (status) {
			l4_not_resumed(task, regs, KEEL_STATUS(KEEL_SIDE_SEND, -status),
				       resume_action);
			return;
		}
		task->thread.resume_action = L4_RESUME_REPLY;
		resume_action = L4_RESUME_REPLY;
		flags = WAIT;
	}
	l4_serve(task, regs, flags, resume_action, false, true);
}

/* A jump leads there: to 64-bit code in the lower half. */
static __always_inline bool l4_inside_can_run(const struct pt_regs *regs)
{
	return (regs->ip < TASK_SIZE_MAX) & (regs->cs == __USER_CS);
}

/*
 * Prepares a thread that the server thread itself runs (kernel/inside.c). Returns its registers, or
 * NULL if it is not in the server. Interrupts are off, on entry and on return.
 */
static noinline struct pt_regs *l4_inside_prepare(struct task_struct *task, struct pt_regs *regs)
{
	unsigned long status;

	while (task->mm->context.inside) {
		l4_unmap_queued(task->mm);
		status = 0;
		if (task->thread.resume_action == L4_RESUME_MAPPINGS)
			status = l4_map_inside();
		if (status) {
			l4_not_resumed(task, regs, status, L4_RESUME_MAPPINGS);
			continue;
		}
		if (l4_inside_can_run(regs) && l4_inside_load())
			return regs;
		local_irq_enable();
		if (!l4_inside_can_run(regs))
			l4_user_exception(regs, X86_TRAP_GP, 0, 0);
		l4_exit_to_user(task, regs);
	}
	return NULL;
}

/* The end of serving such a thread: how it goes on. */
static __always_inline struct pt_regs *l4_inside_next(struct task_struct *task,
						      struct pt_regs *regs)
{
	l4_unmap_queued(task->mm);
	if (likely(task->thread.loaded & !task->thread.fpu.stale &
		   (task->thread.resume_action != L4_RESUME_MAPPINGS) & l4_inside_can_run(regs)))
		return regs;
	return l4_inside_prepare(task, regs);
}

/* Serves a call of such a thread, by a jump. */
asmlinkage struct pt_regs *l4_inside_call(void)
{
	struct task_struct *task = current;
	struct pt_regs *regs = task_pt_regs(task);

	regs->ax = -ENOSYS;
	l4_syscall(task, regs);
	return l4_inside_next(task, regs);
}

/* Serves a message about such a thread, which is on its stack. */
static struct pt_regs *l4_inside_serve(const struct keel_message *m)
{
	struct task_struct *task = current;
	struct pt_regs *regs = task_pt_regs(task);

	l4_inside_store_base();
	if (keel_is(m, KEEL_KIND_SYSCALL, KEEL_GATE_SYSCALL)) {
		local_irq_enable();
		l4_stub_replace(regs);
		local_irq_disable();
	}
	l4_route(task, regs, m);
	return l4_inside_next(task, regs);
}

/* Serves a processor's message about such a thread, or for NULL Linux's own work. */
asmlinkage struct pt_regs *l4_inside_event(const struct keel_message *m)
{
	struct task_struct *task = current;
	struct pt_regs *regs = task_pt_regs(task);
	struct keel_message copy;

	if (m) {
		copy = *m;
		return l4_inside_serve(&copy);
	}
	local_irq_enable();
	l4_exit_to_user(task, regs);
	return l4_inside_next(task, regs);
}

/* Serves an upcall about such a thread: a message with its registers, in the UTCB. */
asmlinkage struct pt_regs *l4_inside_upcalled(unsigned long self, unsigned long tag,
					      unsigned long unused1, unsigned long unused2,
					      unsigned long first)
{
	struct keel_frame *frame = (void *)&keel_utcb(keel_server())->words[KEEL_REGISTER_WORDS];
	struct keel_message m = { .tag = tag, .words = { first, [3] = frame->dr6 } };

	memcpy(task_pt_regs(current), &frame->r15, sizeof(struct pt_regs));
	return l4_inside_serve(&m);
}

/*
 * The lthread does not exist yet, is on another processor, or lacks state that Linux changed; or
 * the thread has none.
 */
static noinline void l4_prepare(struct task_struct *task, struct pt_regs *regs)
{
	int error;

	if (task->mm->context.inside) {
		regs = l4_inside_prepare(task, regs);
		if (regs)
			l4_inside_run(regs);
		return;
	}
	local_irq_enable();
	if (unlikely(task->thread.place & L4_SELECTORS_SET)) {
		task->thread.place &= ~L4_SELECTORS_SET;
		l4_check_selectors(regs);
	}
	error = l4_thread_prepare(task);
	if (error)
		l4_kill_current("cannot run", error);
	l4_exit_to_user(task, regs);
}

/* The loop; `supervisor` is a constant, so that neither of its two forms tests it. */
static __always_inline void __noreturn l4_loop(struct task_struct *task, struct pt_regs *regs,
					       bool supervisor)
{
	enum l4_resume_action resume_action;

	for (;;) {
		if (unlikely(task->thread.ready_cpu != raw_smp_processor_id())) {
			l4_prepare(task, regs);
			continue;
		}
		l4_unmap_queued(task->mm);
		resume_action = task->thread.resume_action;
		if (unlikely(resume_action != L4_RESUME_REPLY &&
			     (resume_action == L4_RESUME_START || nr_cpu_ids > 1)))
			l4_serve_slowly(task, regs, resume_action);
		else
			l4_serve(task, regs, RESUME_AND_WAIT, resume_action, supervisor,
				 false);
	}
}

/* Called once by each task, with interrupts on, when it first goes to user mode. */
void __noreturn l4_user_loop(void)
{
	struct pt_regs *regs = task_pt_regs(current);

	syscall_exit_to_user_mode(regs);
	if (keel_entry)
		l4_loop(current, regs, true);
	else
		l4_loop(current, regs, false);
}
