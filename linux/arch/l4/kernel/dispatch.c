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

/* What became of the attempt to run the user. */
enum outcome {
	USER_MESSAGE,	/* it ran and told us something */
	USER_WORK,	/* it did not: look for work and try again */
};

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
static void reply_failed(unsigned long status, enum l4_owed owed)
{
	if (status == HOST_STATUS(KEEL_SIDE_SEND, KEEL_ERROR_NO_MEMORY) &&
	    (l4_mm_reclaim() || !current->thread.reclaimed)) {
		current->thread.reclaimed = true;
		current->thread.owed = owed;
		return;
	}
	l4_kill_current("cannot be resumed", status);
}

/* The tag of the reply to a fault, whose mappings are then in the UTCB. */
static unsigned long fault_tag(void)
{
	return (unsigned long)l4_fault_items(host_utcb(host_server())) << KEEL_TAG_MAPS_SHIFT;
}

/* Maps what the lthread faulted for, which resumes it; interrupts are really off. */
static unsigned long map_and_resume(void)
{
	struct host_message m = { };

	l4_map_begin();
	m.tag = fault_tag();
	host_ipc(KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO, current->thread.host_thread, 0, &m);
	l4_map_end();
	return m.status;
}

/* One ipc to resume the lthread, if it still waits, and others until it speaks. */
static unsigned long resume_and_wait(struct host_message *m, unsigned long flags)
{
	unsigned long thread = current->thread.host_thread;

	for (;;) {
		host_resume(flags, thread, m);
		if (m->status && (-m->status >> 8) == KEEL_SIDE_SEND)
			return m->status;
		if (!m->status && m->partner == thread)
			return 0;
		/* A late notification, or somebody who is not our client. */
		flags = WAIT;
	}
}

/* What is not the reply that also waits: then there is only the wait left. */
static noinline unsigned long resume_first(unsigned long *flags)
{
	unsigned long thread = current->thread.host_thread, status;

	if (current->thread.owed == L4_OWED_MAPPINGS && nr_cpu_ids == 1)
		return 0;
	*flags = WAIT;
	if (current->thread.owed == L4_OWED_MAPPINGS)
		return map_and_resume();
	status = host_ex_regs(&thread, KEEL_EX_START);
	if (status)
		return HOST_STATUS(KEEL_SIDE_SEND, -status);
	current->thread.owed = L4_OWED_REPLY;
	return 0;
}

/*
 * Called with interrupts off and no work left. With USER_MESSAGE they are still
 * off, as on entry from user mode; with USER_WORK they are on.
 */
static enum outcome run_user(struct host_message *m)
{
	enum l4_owed owed = current->thread.owed;
	unsigned long flags = RESUME_AND_WAIT;
	unsigned long status;
	int error;

	if (unlikely(current->thread.ready_cpu != raw_smp_processor_id())) {
		local_irq_enable();
		error = l4_thread_prepare(current);
		if (error)
			l4_kill_current("cannot run", error);
		return USER_WORK;
	}
	l4_unmap_queued(current->mm);
	if (unlikely(current->thread.owed != L4_OWED_REPLY)) {
		status = resume_first(&flags);
		if (status)
			goto failed;
	}
	this_cpu_write(l4_waiting, current->thread.host_thread);
	barrier();
	if (unlikely(this_cpu_read(l4_irq_pending))) {
		if (!(flags & KEEL_IPC_SEND)) {	/* it tells us before it runs */
			host_trigger(current->thread.host_thread);
		} else {
			this_cpu_write(l4_waiting, 0);
			local_irq_enable();
			return USER_WORK;
		}
	}
	m->tag = 0;
	if (unlikely(current->thread.owed == L4_OWED_MAPPINGS))
		m->tag = fault_tag();
	status = resume_and_wait(m, flags);
	barrier();
	this_cpu_write(l4_waiting, 0);
	if (likely(!status)) {
		current->thread.reclaimed = false;
		return USER_MESSAGE;
	}
failed:
	local_irq_enable();
	reply_failed(status, owed);
	return USER_WORK;
}

/*
 * A signal frame may name selectors that x86 would refuse on the return to user
 * mode. The micro-kernel would put good ones in their place; the program gets the
 * fault that it asked for instead.
 */
static void check_selectors(struct pt_regs *regs)
{
	unsigned long bad;

	if (likely(regs->cs == __USER_CS && regs->ss == __USER_DS))
		return;
	if (regs->cs != __USER_CS && regs->cs != __USER32_CS)
		bad = regs->cs;
	else if (regs->ss != __USER_DS)
		bad = regs->ss;
	else
		return;
	l4_user_exception(regs, X86_TRAP_GP, bad & ~(unsigned long)SEGMENT_RPL_MASK, 0);
}

static void system_call(struct pt_regs *regs)
{
	long nr = syscall_enter_from_user_mode(regs, (int)regs->orig_ax);

	if (likely((unsigned long)nr < NR_syscalls)) {
		nr = array_index_nospec(nr, NR_syscalls);
		regs->ax = sys_call_table[nr](regs);
	} else if (nr != -1) {
		regs->ax = __x64_sys_ni_syscall(regs);
	}
	check_selectors(regs);
	/* exec replaces what the caller's registers meant, not where they lie. */
	syscall_exit_to_user_mode(regs);
}

/* Apart, so that the other path keeps its registers. */
static noinline void system_call_32(struct pt_regs *regs)
{
	unsigned int nr;

	current_thread_info()->status |= TS_COMPAT;
	regs->orig_ax = (u32)regs->orig_ax;
	nr = syscall_enter_from_user_mode(regs, (int)regs->orig_ax);
	if (likely(nr < IA32_NR_syscalls))
		regs->ax = ia32_sys_call(regs, array_index_nospec(nr, IA32_NR_syscalls));
	else if (nr != -1)
		regs->ax = __ia32_sys_ni_syscall(regs);
	check_selectors(regs);
	syscall_exit_to_user_mode(regs);
}

/*
 * Whether the lthread sent a message of its own (KEEL_EX_CALLS): the number as its
 * label and the arguments as words. From here on it is as if made by the gate.
 */
static bool message_call(struct pt_regs *regs, const struct host_message *m)
{
	if (host_kind(m) != KEEL_KIND_USER)
		return false;
	regs->orig_ax = host_label(m);
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
 * Whether the entry that takes the program's calls (KEEL_EX_CALLS) hands one on: as
 * if made where rcx says and with the flags in r11, because the call may have no
 * stack, or return on another one.
 */
static bool handed_on(struct pt_regs *regs, const struct host_message *m)
{
	if (host_reason(m) != HOST_REASON(KEEL_KIND_SYSCALL, KEEL_GATE_INT80) ||
	    current->thread.calls <= KEEL_CALLS_ON ||
	    (regs->ip ^ current->thread.calls) / PAGE_SIZE)
		return false;
	regs->ip = regs->cx;
	regs->flags = (regs->flags & ~PROGRAMS_FLAGS) | (regs->r11 & PROGRAMS_FLAGS);
	return true;
}

static void route(struct pt_regs *regs, const struct host_message *m)
{
	if (likely(host_reason(m) == HOST_REASON(KEEL_KIND_SYSCALL, KEEL_GATE_SYSCALL)) ||
	    message_call(regs, m) || handed_on(regs, m)) {
		regs->ax = -ENOSYS;
		system_call(regs);
		return;
	}
	if (host_reason(m) == HOST_REASON(KEEL_KIND_SYSCALL, KEEL_GATE_INT80)) {
		regs->ax = -ENOSYS;
		system_call_32(regs);
		return;
	}
	irqentry_enter_from_user_mode(regs);
	local_irq_enable();
	switch (host_kind(m)) {
	case KEEL_KIND_SYSCALL:
		regs->ax = regs->orig_ax;	/* the other gates fault */
		regs->orig_ax = -1;
		l4_user_exception(regs, X86_TRAP_GP, 0, 0);
		break;
	case KEEL_KIND_PAGE_FAULT:
		l4_user_fault(regs, m->words[0], host_label(m));
		break;
	case KEEL_KIND_EXCEPTION:
		l4_user_exception(regs, host_label(m), m->words[0], m->words[3]);
		break;
	}
	/* A trigger means nothing by itself: the work test follows. */
	local_irq_disable();
	irqentry_exit_to_user_mode(regs);
}

void __noreturn l4_user_loop(void)
{
	struct pt_regs *regs = current_pt_regs();
	struct host_message m;

	syscall_exit_to_user_mode(regs);
	for (;;) {
		if (run_user(&m) == USER_MESSAGE) {
			route(regs, &m);
			continue;
		}
		local_irq_disable();
		irqentry_exit_to_user_mode(regs);
	}
}
