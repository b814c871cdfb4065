// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hybrid processes: native lthreads in a process's L4 task, which Linux's scheduler does not know.
 * Each has a service thread, a Linux thread that called arch_prctl(): it serves the lthread's page
 * faults, gets the signals of its exceptions, and returns to user mode with messages that the
 * lthread sends to Linux. The lthread's pager, handler and partner is the pager thread
 * (mm/vmalloc.c), which stores the message, notifies an IRQ thread, and replies on request.
 * l4_native_message() runs on the pager thread, all else on server threads in process context.
 * There is no lock: `thread` is claimed by CMPXCHG, and `state` says which side owns the message.
 */
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>
#include <asm/trapnr.h>

#define NATIVES_MAX 64
#define CLAIMED 1UL	/* not the id of a thread */

enum native_state {
	NATIVE_RUNS,		/* or waits for others; only the pager thread leaves this state */
	NATIVE_ASKS,		/* its message is stored; it waits for the reply */
	NATIVE_DELIVERED,	/* likewise, and the service thread's program has the message */
};

struct l4_native {
	unsigned long thread;	/* id; 0: free */
	enum native_state state;
	unsigned int cpu;	/* where it runs; L4_NO_CPU: not yet */
	struct keel_message message;
};

static struct l4_native l4_natives[NATIVES_MAX];
DECLARE_WAIT_QUEUE_HEAD(l4_service_threads);

/*
 * Stores a message of a native lthread. Called by the pager thread, on its stack. If the lthread
 * sends another message without waiting for the reply, that replaces the first.
 */
void l4_native_message(const struct keel_message *m)
{
	unsigned int i;

	for (i = 0; i < NATIVES_MAX; i++) {
		if (READ_ONCE(l4_natives[i].thread) != m->partner)
			continue;
		l4_natives[i].message = *m;
		if (xchg(&l4_natives[i].state, NATIVE_ASKS) != NATIVE_ASKS)
			keel_notify(KEEL_IRQ_THREAD, L4_NOTIFY_NATIVE);
	}
}

/*
 * Moves the lthread to the processor of its service thread, with the priority of user threads: it
 * takes turns with Linux's programs. Returns 0 or -EINVAL.
 */
static int l4_native_place(struct l4_native *native)
{
	unsigned int cpu = raw_smp_processor_id();

	if (native->cpu == cpu)
		return 0;
	if (keel_schedule(native->thread, l4_user_priority(), cpu))
		return -EINVAL;
	native->cpu = cpu;
	return 0;
}

/* Claims a free entry, or returns NULL. */
static struct l4_native *l4_native_claim(void)
{
	unsigned int i;

	for (i = 0; i < NATIVES_MAX; i++)
		if (!cmpxchg(&l4_natives[i].thread, 0, CLAIMED))
			return &l4_natives[i];
	return NULL;
}

/* Deletes the task's native lthread, if any: the task exits, execs or starts another one. */
void l4_native_end(struct task_struct *task)
{
	struct l4_native *native = task->thread.native;
	struct keel_message none = { };

	if (!native)
		return;
	task->thread.native = NULL;
	if (native->thread != CLAIMED) {
		keel_ex_regs(&native->thread, KEEL_EX_DELETE);
		/* The reply fails, but after it the pager thread has stored the last message. */
		l4_pager_answer(native->thread, &none, false);
	}
	native->state = NATIVE_RUNS;
	/* After the state: another thread may claim the entry from here on. */
	smp_store_release(&native->thread, 0);
}

/*
 * Creates and starts a native lthread that r describes, and stores its id and its partner's for the
 * program. Returns 0 or an error.
 */
static long l4_native_begin(struct keel_linux_native *r, struct keel_linux_native __user *user)
{
	unsigned long thread = current->mm->context.keel_task |
			       (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
	struct keel_ex_regs *record;
	struct l4_native *native;

	if (!current->mm->context.area)
		return -EINVAL;
	l4_native_end(current);
	native = l4_native_claim();
	if (!native)
		return -EAGAIN;
	current->thread.native = native;
	record = keel_record();
	record->ip = r->ip;
	record->sp = r->sp;
	record->argument = r->argument;
	record->pager = record->handler = keel_self(KEEL_PAGER);
	if (l4_ex_regs(&thread, KEEL_EX_CREATE | KEEL_EX_IP | KEEL_EX_SP | KEEL_EX_ARGUMENT |
				KEEL_EX_PAGER | KEEL_EX_HANDLER))
		return -ENOMEM;
	native->cpu = L4_NO_CPU;
	WRITE_ONCE(native->thread, thread);
	r->ip = 0;
	r->thread = thread;
	r->server = keel_self(KEEL_PAGER);
	if (copy_to_user(user, r, sizeof(*r)))
		return -EFAULT;
	if (l4_native_place(native) || keel_ex_regs(&thread, KEEL_EX_START))
		return -EINVAL;
	return 0;
}

/* Resumes the lthread by an empty reply. */
static void l4_native_resume(struct l4_native *native)
{
	struct keel_message none = { };

	native->state = NATIVE_RUNS;
	l4_pager_answer(native->thread, &none, false);
}

/*
 * Serves an exception of the lthread. If it became no signal (a breakpoint of perf's, for
 * instance), or it is a trap, whose instruction is complete, the lthread is resumed. Another
 * exception is served again when the signal handler has returned, as a repeated instruction would
 * raise it again.
 */
static void l4_native_exception(struct l4_native *native)
{
	const struct keel_message *m = &native->message;
	unsigned long vector = keel_label(m);

	if (vector == X86_TRAP_MF || vector == X86_TRAP_XF)
		force_sig(SIGFPE);	/* without a code, which is in the lthread's FPU state */
	else if (vector != X86_TRAP_NM)
		l4_user_exception(current_pt_regs(), vector, m->words[0], m->words[3]);
	else if (l4_fpu_begin(native->thread))
		l4_kill_current("has no FPU state", -ENOMEM);
	if (!signal_pending(current) || vector == X86_TRAP_BP || vector == X86_TRAP_DB)
		l4_native_resume(native);
}

/*
 * Serves a page fault of the lthread, like one of a Linux thread, except that the pager thread
 * sends the reply. A fault that cannot be served becomes a signal of the service thread. The
 * service thread's own resume_action is preserved.
 */
static void l4_native_fault(struct l4_native *native)
{
	enum l4_resume_action resume_action = current->thread.resume_action;
	struct keel_message answer = { };

	current->thread.resume_action = L4_RESUME_REPLY;
	l4_user_fault(current_pt_regs(), native->message.words[0], keel_label(&native->message));
	if (current->thread.resume_action == L4_RESUME_MAPPINGS) {
		native->state = NATIVE_RUNS;
		l4_pager_answer(native->thread, &answer, true);
		if (answer.status != KEEL_STATUS(KEEL_SIDE_SEND, KEEL_ERROR_NO_MEMORY)) {
			current->thread.reclaimed = false;
		} else {
			native->state = NATIVE_ASKS;	/* so it is served again */
			if (!l4_mm_reclaim() && current->thread.reclaimed)
				l4_kill_current("cannot be answered", answer.status);
			current->thread.reclaimed = true;
		}
	}
	current->thread.resume_action = resume_action;
}

/* Sends the program's reply to the lthread, if it waits for one. */
static void l4_native_answer(struct l4_native *native, const struct keel_linux_native *r)
{
	struct keel_message answer = { .tag = KEEL_TAG(r->label, KEEL_REGISTER_WORDS) };

	memcpy(answer.words, r->words, sizeof(answer.words));
	l4_native_place(native);	/* fails if the lthread was deleted */
	/* An lthread that did not wait for the reply may have sent another message. */
	if (cmpxchg(&native->state, NATIVE_DELIVERED, NATIVE_RUNS) == NATIVE_DELIVERED)
		l4_pager_answer(native->thread, &answer, false);
}

/*
 * Serves the lthread until it sends a message to the program: 0, or -ERESTARTNOINTR for a signal.
 */
static long l4_native_service(struct l4_native *native)
{
	const struct keel_message *m = &native->message;

	for (;;) {
		/* Acquire: the message was stored before the state. */
		if (wait_event_interruptible(l4_service_threads,
					     smp_load_acquire(&native->state) == NATIVE_ASKS))
			return -ERESTARTNOINTR;
		if (keel_kind(m) == KEEL_KIND_USER)
			return 0;
		if (keel_kind(m) == KEEL_KIND_PAGE_FAULT)
			l4_native_fault(native);
		else
			l4_native_exception(native);
		if (signal_pending(current))
			return -ERESTARTNOINTR;
	}
}

/*
 * arch_prctl(KEEL_LINUX_PRCTL_NATIVE): starts a native lthread or replies to it, and returns with
 * its next message.
 */
long l4_native_serve(struct keel_linux_native __user *user)
{
	struct keel_linux_native r;
	struct l4_native *native;
	long error = 0;

	if (copy_from_user(&r, user, sizeof(r)))
		return -EFAULT;
	if (r.ip && !capable(CAP_SYS_NICE))
		return -EPERM;
	if (r.ip)
		error = l4_native_begin(&r, user);
	native = current->thread.native;
	if (!native)
		return error ?: -ESRCH;
	if (error)
		l4_native_end(current);
	else
		l4_native_answer(native, &r);
	error = error ?: l4_native_service(native);
	if (error)
		return error;
	smp_store_mb(native->state, NATIVE_DELIVERED);	/* a message from now on is a new one */
	r.ip = 0;
	r.thread = native->thread;
	r.label = keel_label(&native->message);
	memcpy(r.words, native->message.words, sizeof(r.words));
	return copy_to_user(user, &r, sizeof(r)) ? -EFAULT : 0;
}

/*
 * arch_prctl(KEEL_LINUX_PRCTL_AREA): gives the process a kernel-shared region and returns its
 * address. A task gets its region at creation, so the L4 task is deleted and created again.
 */
long l4_native_area(void)
{
	struct mm_struct *mm = current->mm;
	unsigned long start, address;

	if (mm->context.area)
		return mm->context.area;
	if (!capable(CAP_SYS_NICE))
		return -EPERM;
	if (atomic_read(&mm->mm_users) > 1)
		return -EBUSY;
	/* Reserve addresses where Linux maps nothing: an aligned part of twice the size. */
	start = vm_mmap(NULL, 0, 2UL * KEEL_AREA_SIZE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0);
	if (IS_ERR_VALUE(start))
		return start;
	address = ALIGN(start, KEEL_AREA_SIZE);
	vm_munmap(start, address - start);	/* may be empty */
	vm_munmap(address + KEEL_AREA_SIZE, start + KEEL_AREA_SIZE - address);
	l4_fpu_change(current);
	l4_thread_delete(current);
	current->thread.debug_stale = current->thread.debug[L4_DR7] ||
		memchr_inv(current->thread.tls_array, 0, sizeof(current->thread.tls_array));
	destroy_context(mm);
	mm->context.area = address;
	return address;
}
