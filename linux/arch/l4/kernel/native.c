// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hybrid processes: native lthreads in a process's L4 task, of which Linux's scheduler
 * knows nothing. To each a Linux thread attends, by arch_prctl: it serves the lthread's
 * page faults, gets the signals of its exceptions, and returns to user mode with what it
 * sends to Linux. The lthread's pager, handler and server is the mapper (mm/vmalloc.c),
 * who notes the message, notifies a top half, and answers when told to.
 */
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <asm/fpu/xstate.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>
#include <asm/trapnr.h>

#define NATIVES_MAX 64
#define CLAIMED 1UL	/* not an id of a thread */

enum native_state {
	NATIVE_RUNS,	/* or waits for others; only the mapper ends this state */
	NATIVE_ASKS,	/* its message is there, and it waits for the answer */
	NATIVE_DELIVERED,	/* likewise, and its attendant's program has the message */
};

struct l4_native {
	unsigned long thread;	/* id; 0: free */
	enum native_state state;
	unsigned int cpu;	/* where it runs; L4_NO_CPU: not yet */
	struct keel_message message;
};

static struct l4_native l4_natives[NATIVES_MAX];
DECLARE_WAIT_QUEUE_HEAD(l4_service_threads);

/* For the mapper, on its stack. Who sends again without waiting replaces what it sent. */
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

/* The lthread runs where the thread runs that attends to it, by turns with Linux's programs. */
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

static struct l4_native *l4_native_claim(void)
{
	unsigned int i;

	for (i = 0; i < NATIVES_MAX; i++)
		if (!cmpxchg(&l4_natives[i].thread, 0, CLAIMED))
			return &l4_natives[i];
	return NULL;
}

/* The attendant ends, execs or begins another: its lthread goes. */
void l4_native_end(struct task_struct *task)
{
	struct l4_native *native = task->thread.native;
	struct keel_message none = { };

	if (!native)
		return;
	task->thread.native = NULL;
	if (native->thread != CLAIMED) {
		keel_ex_regs(&native->thread, KEEL_EX_DELETE);
		/* An answer to nobody: when that is done the mapper has noted the last message. */
		l4_pager_answer(native->thread, &none, false);
	}
	native->state = NATIVE_RUNS;
	smp_store_release(&native->thread, 0);
}

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

/* The lthread goes on where it was. */
static void l4_native_resume(struct l4_native *native)
{
	struct keel_message none = { };

	native->state = NATIVE_RUNS;
	l4_pager_answer(native->thread, &none, false);
}

/*
 * What becomes no signal, as a breakpoint that is perf's, lets the lthread go on, and so does a trap,
 * whose instruction is over. Other exceptions come again after the signal, with the instruction.
 */
static void l4_native_exception(struct l4_native *native)
{
	const struct keel_message *m = &native->message;
	unsigned long vector = keel_label(m);

	if (vector == X86_TRAP_MF || vector == X86_TRAP_XF)
		force_sig(SIGFPE);	/* the state that says more is the lthread's */
	else if (vector != X86_TRAP_NM)
		l4_user_exception(current_pt_regs(), vector, m->words[0], m->words[3]);
	else if (l4_fpu_begin(native->thread))
		l4_kill_current("has no FPU state", -ENOMEM);
	if (!signal_pending(current) || vector == X86_TRAP_BP || vector == X86_TRAP_DB)
		l4_native_resume(native);
}

/* As for a thread of Linux's, but that the answer is the mapper's. What is not served becomes a signal. */
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
			native->state = NATIVE_ASKS;	/* and is served once more */
			if (!l4_mm_reclaim() && current->thread.reclaimed)
				l4_kill_current("cannot be answered", answer.status);
			current->thread.reclaimed = true;
		}
	}
	current->thread.resume_action = resume_action;
}

static void l4_native_answer(struct l4_native *native, const struct keel_linux_native *r)
{
	struct keel_message answer = { .tag = KEEL_TAG(r->label, KEEL_REGISTER_WORDS) };

	memcpy(answer.words, r->words, sizeof(answer.words));
	l4_native_place(native);	/* or it is gone */
	/* Who did not wait for an answer has perhaps said more. */
	if (cmpxchg(&native->state, NATIVE_DELIVERED, NATIVE_RUNS) == NATIVE_DELIVERED)
		l4_pager_answer(native->thread, &answer, false);
}

/* Serves the lthread until it has something to say to the program. */
static long l4_native_service(struct l4_native *native)
{
	const struct keel_message *m = &native->message;

	for (;;) {
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

/* arch_prctl(KEEL_LINUX_PRCTL_NATIVE): begins an lthread or answers it, and hears what it says next. */
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
	smp_store_mb(native->state, NATIVE_DELIVERED);	/* what comes from now on is another message */
	r.ip = 0;
	r.thread = native->thread;
	r.label = keel_label(&native->message);
	memcpy(r.words, native->message.words, sizeof(r.words));
	return copy_to_user(user, &r, sizeof(r)) ? -EFAULT : 0;
}

/* arch_prctl(KEEL_LINUX_PRCTL_AREA): a task gets its area when it is made, so it is made anew. */
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
	/* Nothing of Linux's may lie where the micro-kernel maps. */
	start = vm_mmap(NULL, 0, 2UL * KEEL_AREA_SIZE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0);
	if (IS_ERR_VALUE(start))
		return start;
	address = ALIGN(start, KEEL_AREA_SIZE);
	vm_munmap(start, address - start);	/* perhaps nothing */
	vm_munmap(address + KEEL_AREA_SIZE, start + KEEL_AREA_SIZE - address);
	l4_fpu_change(current);
	l4_thread_delete(current);
	current->thread.debug_stale = current->thread.debug[L4_DR7] ||
		memchr_inv(current->thread.tls_array, 0, sizeof(current->thread.tls_array));
	destroy_context(mm);
	mm->context.area = address;
	return address;
}
