// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server loop: resume the current task's lthread, wait for the next message,
 * do what it asks. Each Linux task runs this loop on its own kernel stack, and
 * schedule() changes stacks, so at most one user lthread runs on a processor.
 *
 * A resumption is one ipc: the reply to the lthread and an open wait. Where other
 * processors may take a page away while it is being mapped (mm/tlb.c), a reply
 * with mappings is sent by itself; the lthread, less important than we are, does not
 * run before we wait. The races with the top half, which may run between any two
 * instructions here, are closed as kernel/irq.c describes.
 */
#include <linux/entry-common.h>
#include <linux/irqflags.h>
#include <linux/nospec.h>
#include <linux/sched/debug.h>
#include <linux/sched/signal.h>
#include <linux/syscalls.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>
#include <asm/sighandling.h>
#include <asm/syscall.h>
#include <asm/tlbflush.h>
#include <asm/trap_pf.h>
#include <asm/trapnr.h>

#define WAIT (KEEL_IPC_RECEIVE | KEEL_IPC_OPEN)
#define RESUME_AND_WAIT (WAIT | KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO)

/* Ends the current process, because the micro-kernel refuses something, and says so. */
void l4_kill_current(const char *why, unsigned long status)
{
	pr_err("keel: %s[%d]: %s: status %ld\n", current->comm, current->pid, why,
	       (long)status);
	force_fatal_sig(SIGKILL);
}

/*
 * The micro-kernel refused the reply. If it has no memory, the reply is tried again, with its
 * mappings: while there is memory that others took first, else once.
 */
static void l4_reply_failed(unsigned long status, enum l4_resume_action resume_action)
{
	if (status == KEEL_STATUS(KEEL_SIDE_SEND, KEEL_ERROR_NO_MEMORY) &&
	    (l4_mm_reclaim() || !current->thread.reclaimed)) {
		current->thread.reclaimed = true;
		current->thread.resume_action = resume_action;
		return;
	}
	l4_kill_current("cannot be resumed", status);
}

/* The tag of the reply to a fault, whose mappings are then in the UTCB. */
static unsigned long l4_fault_tag(void)
{
	return (unsigned long)l4_fault_items(keel_utcb(keel_server())) << KEEL_TAG_MAPS_SHIFT;
}

/* Maps what the lthread faulted for, which resumes it; interrupts are really off. */
static unsigned long l4_map_and_resume(void)
{
	struct keel_message m = { };

	l4_map_begin();
	m.tag = l4_fault_tag();
	keel_ipc(KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO, current->thread.keel_thread, 0, &m);
	l4_map_end();
	return m.status;
}

/*
 * The common cases of irqentry_exit_to_user_mode() and syscall_enter_from_user_mode(), in line:
 * these do the rest, and tell lockdep of interrupts.
 */
#define GENERIC_ENTRY_ONLY IS_ENABLED(CONFIG_TRACE_IRQFLAGS)

static __always_inline void l4_exit_to_user(struct task_struct *task, struct pt_regs *regs)
{
	local_irq_disable();
	if (GENERIC_ENTRY_ONLY || unlikely(read_task_thread_flags(task) & EXIT_TO_USER_MODE_WORK))
		irqentry_exit_to_user_mode(regs);
	else
		arch_exit_to_user_mode_prepare(regs, 0);
}

static __always_inline long l4_enter_syscall(struct task_struct *task, struct pt_regs *regs)
{
	long nr = (int)regs->orig_ax;

	if (GENERIC_ENTRY_ONLY)
		return syscall_enter_from_user_mode(regs, nr);
	local_irq_enable();
	if (unlikely(READ_ONCE(task_thread_info(task)->syscall_work) & SYSCALL_WORK_ENTER))
		nr = syscall_enter_from_user_mode_work(regs, nr);
	return nr;
}

static __always_inline void l4_syscall(struct task_struct *task, struct pt_regs *regs)
{
	long nr = l4_enter_syscall(task, regs);

	if (likely((unsigned long)nr < NR_syscalls)) {
		nr = array_index_nospec(nr, NR_syscalls);
		regs->ax = sys_call_table[nr](regs);
	} else if (nr != -1) {
		regs->ax = __x64_sys_ni_syscall(regs);
	}
	/* exec replaces what the caller's registers meant, not where they lie. */
	if (unlikely(READ_ONCE(task_thread_info(task)->syscall_work) & SYSCALL_WORK_EXIT))
		syscall_exit_to_user_mode(regs);
	else
		l4_exit_to_user(task, regs);
}

/* Apart, so that the other path keeps its registers. */
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
 * Whether the lthread sent a message of its own (KEEL_EX_DISPATCH): the number as its
 * label and the arguments as words. From here on it is as if made by the gate.
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

/* The flags that are the program's own affair; single steps are Linux's, which may have ended them. */
#define PROGRAMS_FLAGS (FIX_EFLAGS & ~X86_EFLAGS_TF)

/*
 * Whether the entry that takes the program's calls (KEEL_EX_DISPATCH) hands one on: as
 * if made where rcx says and with the flags in r11, because the call may have no
 * stack, or return on another one.
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

/* What is no system call: faults, exceptions, and triggers, which mean nothing by themselves. */
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
		regs->ax = regs->orig_ax;	/* the other gates fault */
		regs->orig_ax = -1;
		l4_user_exception(regs, X86_TRAP_GP, 0, 0);
		break;
	case KEEL_KIND_EXCEPTION:
		l4_user_exception(regs, keel_label(m), m->words[0], m->words[3]);
		break;
	}
	l4_exit_to_user(task, regs);
}

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

/* The reply to the lthread, if it was one, failed. Interrupts are off as before it. */
static void l4_not_resumed(struct task_struct *task, struct pt_regs *regs, unsigned long status,
			   enum l4_resume_action resume_action)
{
	local_irq_enable();
	l4_reply_failed(status, resume_action);
	l4_exit_to_user(task, regs);
}

/*
 * The ipc failed, or brought a late notification or a message of another thread than our client.
 * Waits until the lthread says something.
 */
static noinline void l4_serve_later(struct task_struct *task, struct pt_regs *regs,
				    unsigned long status, enum l4_resume_action resume_action)
{
	unsigned long thread = task->thread.keel_thread;
	struct keel_message m = { .status = status };

	do {
		if (-m.status >> 8 == KEEL_SIDE_SEND) {
			this_cpu_write(l4_waiting, 0);
			l4_not_resumed(task, regs, m.status, resume_action);
			return;
		}
		m.tag = 0;
		keel_resume(WAIT, thread, &m);
	} while (m.status || m.partner != thread);
	this_cpu_write(l4_waiting, 0);
	l4_route(task, regs, &m);
}

/*
 * Resumes the lthread with what it is resume_action and waits for it, or only waits (flags), and serves it.
 * Interrupts are off, as on entry from user mode and after the return.
 */
static __always_inline void l4_serve(struct task_struct *task, struct pt_regs *regs,
				     unsigned long flags, enum l4_resume_action resume_action)
{
	unsigned long thread = task->thread.keel_thread;
	struct keel_message m;

	this_cpu_write(l4_waiting, thread);
	barrier();
	if (unlikely(this_cpu_read(l4_irq_pending))) {
		if (!(flags & KEEL_IPC_SEND)) {	/* it tells us before it runs */
			keel_trigger(thread);
		} else {
			this_cpu_write(l4_waiting, 0);
			local_irq_enable();
			l4_exit_to_user(task, regs);
			return;
		}
	}
	m.tag = 0;
	if (unlikely(resume_action != L4_RESUME_REPLY))
		m.tag = l4_fault_tag();
	keel_resume(flags, thread, &m);
	if (unlikely(m.status | (m.partner ^ thread))) {
		l4_serve_later(task, regs, m.status, resume_action);
		return;
	}
	barrier();
	this_cpu_write(l4_waiting, 0);
	l4_route(task, regs, &m);
}

/* The lthread is resume_action more than the reply that also waits: then there is only the wait left. */
static noinline void l4_serve_slowly(struct task_struct *task, struct pt_regs *regs,
				     enum l4_resume_action resume_action)
{
	unsigned long thread = task->thread.keel_thread, status;

	if (resume_action == L4_RESUME_MAPPINGS) {
		status = l4_map_and_resume();
	} else {
		status = keel_ex_regs(&thread, KEEL_EX_START);
		if (status)
			status = KEEL_STATUS(KEEL_SIDE_SEND, -status);
		else
			task->thread.resume_action = L4_RESUME_REPLY;
	}
	if (status)
		l4_not_resumed(task, regs, status, resume_action);
	else
		l4_serve(task, regs, WAIT, L4_RESUME_REPLY);
}

/* The lthread does not exist yet, is on another processor, or lacks what Linux wants it to have. */
static noinline void l4_prepare(struct task_struct *task, struct pt_regs *regs)
{
	int error;

	local_irq_enable();
	error = l4_thread_prepare(task);
	if (error)
		l4_kill_current("cannot run", error);
	l4_exit_to_user(task, regs);
}

void __noreturn l4_user_loop(void)
{
	struct task_struct *task = current;
	struct pt_regs *regs = task_pt_regs(task);
	enum l4_resume_action resume_action;

	syscall_exit_to_user_mode(regs);
	for (;;) {
		if (unlikely(task->thread.ready_cpu != raw_smp_processor_id())) {
			l4_prepare(task, regs);
			continue;
		}
		l4_unmap_queued(task->mm);
		resume_action = task->thread.resume_action;
		if (unlikely(resume_action != L4_RESUME_REPLY && (resume_action == L4_RESUME_START || nr_cpu_ids > 1)))
			l4_serve_slowly(task, regs, resume_action);
		else
			l4_serve(task, regs, RESUME_AND_WAIT, resume_action);
	}
}
