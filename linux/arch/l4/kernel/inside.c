// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs in the server's own task (keel.place=/usr/bin/APP=server): one process at a time, whose
 * mm's L4 task is the server's. Its memory is mapped in the lower half, below Linux; its threads
 * have no lthreads, but are run by the server threads themselves. For Linux it is a process like
 * any other: own mm, files, signals, threads; a forked child is an ordinary process.
 *
 * A system call is a jump to l4_inside_gate (kernel/inside_gate.S), or the instruction. That, and
 * the program's faults, exceptions and triggers, are upcalls of the micro-kernel to
 * l4_inside_upcall, because they were made in the lower half (KEEL_EX_DISPATCH): the server thread
 * gets its own message, with the program's registers, and serves it as it serves those of lthreads
 * (kernel/dispatch.c). A trigger or a single step just before or after the program is a message to
 * the trap reflector: l4_inside_reflect().
 *
 * Such a program can do anything to Linux, but nothing to the micro-kernel and to native tasks.
 * Therefore CAP_SYS_RAWIO decides.
 */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <asm/l4.h>
#include <asm/processor-flags.h>
#include <asm/sections.h>
#include <asm/trapnr.h>
#include "../hypercall/reflector.h"

/* Where Linux goes on, and what it then looks at: registers and message of the program. */
DEFINE_PER_CPU(unsigned long, l4_inside_ksp);
DEFINE_PER_CPU(struct pt_regs *, l4_inside_regs);
DEFINE_PER_CPU(unsigned long, l4_inside_ip);	/* that it jumps to */
DEFINE_PER_CPU(struct keel_message, l4_inside_message);
/* This processor's server thread gets the micro-kernel's upcalls. */
static DEFINE_PER_CPU(bool, l4_inside_ready);

DEFINE_STATIC_KEY_FALSE(l4_inside_used);

/* In a leaf of a program in supervisor mode: its stack pointer and base of gs, then the stack. */
DEFINE_PER_CPU_ALIGNED(char[L4_LEAF_SIZE], l4_leaf);

/* The only mm that is in the server's task; changed by CMPXCHG. */
static struct mm_struct *l4_inside_mm;

extern const char l4_inside_leaving[], l4_inside_leaving_end[];
extern const char l4_leaf_jump[];
extern const char ukl_leaf_leaving[], ukl_leaf_end[], ukl_bypass_leaving[], ukl_bypass_end[];
asmlinkage void l4_inside_stay(void);
asmlinkage void l4_inside_left(void);
asmlinkage void l4_inside_upcall(void);
asmlinkage void ukl_leaf_work(void);
asmlinkage void ukl_bypass_work(void);

/* Returns an error if no program can begin in the server now, or 0. */
int l4_inside_refuses(void)
{
	if (!boot_cpu_has(X86_FEATURE_FSGSBASE) || !boot_cpu_has(X86_FEATURE_XSAVE) ||
	    l4_small_is_on())
		return -EOPNOTSUPP;
	return READ_ONCE(l4_inside_mm) ? -EBUSY : 0;
}

/*
 * The current process is executing a program, whose mm is new: takes the server's task for it.
 * Returns NULL, or the reason why that is not possible.
 */
const char *l4_inside_begin(struct mm_struct *mm)
{
	if (l4_inside_refuses() == -EOPNOTSUPP)
		return l4_small_is_on() ? "it could read 32-bit programs' windows" :
					  "the processor lacks FSGSBASE or XSAVE";
	if (cmpxchg(&l4_inside_mm, NULL, mm))
		return "another one is in the server";
	mm->context.inside = true;
	mm->context.keel_task = keel_own_task();
	l4_fpu_fetch(current);	/* so that it has a buffer */
	static_branch_enable(&l4_inside_used);
	return NULL;
}

/* The mm's last thread has ended, or executes another program: its memory goes. */
void l4_inside_end(struct mm_struct *mm)
{
	l4_unmap_all(mm->context.keel_task);
	mm->context.inside = false;
	l4_fpu_disown();
	smp_store_release(&l4_inside_mm, NULL);
}

/*
 * Returns true if the current process is at a gate, before its call has begun, and cannot use it: a
 * program in supervisor mode was interrupted there, or a forked child of a program in the server
 * has read its gate before that was closed. It makes the call by its instruction. After a leaf's
 * call it continues where the jump leads.
 */
bool l4_left_gate(struct pt_regs *regs)
{
	const void *ip = (const void *)regs->ip;
	bool there = current->mm->context.supervisor ? ip == l4_supervisor_gate :
		     ip == l4_bypass_gate || ip == l4_inside_gate;

	if (there)
		regs->ip = regs->cx - LEN_SYSCALL;
	else if (IS_ENABLED(CONFIG_UKL_BYPASS) && current->mm->context.supervisor &&
		 ip == l4_leaf_jump)
		regs->ip = regs->cx;
	return there;
}

/* Loads the current thread's fs base from its frame. */
void l4_inside_load_base(void)
{
	asm volatile("wrfsbase %0" : : "r" (current->thread.frame->fs_base));
}

/* Stores it there, if the program has run since: it may have changed it by itself. */
void l4_inside_store_base(void)
{
	if (current->thread.loaded)
		asm volatile("rdfsbase %0" : "=r" (current->thread.frame->fs_base));
}

/* Makes the server thread's registers the current thread's, except the FPU's state. */
void l4_inside_take(void)
{
	unsigned long self = keel_self(keel_server());

	if (current->thread.loaded)
		return;
	if (!this_cpu_read(l4_inside_ready)) {
		keel_record()->dispatch = (unsigned long)l4_inside_upcall;
		keel_record()->pager = self;
		if (keel_ex_regs(&self, KEEL_EX_DISPATCH | KEEL_EX_PAGER))
			panic("keel: the micro-kernel makes no upcalls");
		this_cpu_write(l4_inside_ready, true);
	}
	l4_inside_load_base();
	current->thread.loaded = true;
}

/*
 * Loads what the server thread's registers have of the current thread besides its frame, if that
 * was not done. Returns false, and has killed it, if that is not possible. Interrupts are off.
 */
bool l4_inside_load(void)
{
	if (current->thread.loaded && !current->thread.fpu.stale)
		return true;
	l4_inside_take();
	if (!l4_fpu_load())
		return true;
	l4_kill_current("has no FPU state", -EINVAL);
	return false;
}

/* The current thread gives up its processor: puts away what l4_inside_load() loaded. */
void l4_inside_unload(void)
{
	l4_inside_store_base();
	l4_fpu_put_away();
	current->thread.loaded = false;
}

static bool l4_inside_between(unsigned long ip, const char *first, const char *end)
{
	return ip >= (unsigned long)first && ip < (unsigned long)end;
}

/*
 * Returns true if a message about a processor's server thread found Linux at work, and not the
 * program, which may have jumped to any address. Code of Linux's has one of its stacks: that of the
 * task, or the registers. A trigger is not caused by that code, which has the program's stack
 * pointer at first and at last.
 */
static bool l4_inside_is_linux(const struct keel_frame *frame, bool trigger, unsigned int cpu)
{
	unsigned long regs = (unsigned long)per_cpu(l4_inside_regs, cpu);

	return l4_inside_between(frame->ip, _stext, _etext) &&
	       (trigger || !((frame->sp ^ per_cpu(l4_inside_ksp, cpu)) & -THREAD_SIZE) ||
		frame->sp - regs <= sizeof(struct pt_regs));
}

/*
 * The program is about to go on after a call that bypasses, and Linux has looked for work already
 * (ukl/bypass_entry.S): makes the thread look at it. Returns false if it is elsewhere.
 */
static bool l4_bypass_stop(struct keel_frame *frame, struct pt_regs *regs)
{
	if (!IS_ENABLED(CONFIG_UKL_BYPASS))
		return false;
	if (l4_inside_between(frame->ip, ukl_leaf_leaving, ukl_leaf_end)) {
		frame->ip = (unsigned long)ukl_leaf_work;
	} else if (l4_inside_between(frame->ip, ukl_bypass_leaving, ukl_bypass_end)) {
		frame->sp = (unsigned long)regs;
		frame->ip = (unsigned long)ukl_bypass_work;
	} else {
		return false;
	}
	return true;
}

/*
 * On a trap reflector: a message about a processor's server thread. Returns false if it is about
 * Linux itself; otherwise the frame is where the thread goes on. A trigger means nothing where
 * Linux is coming back from the program anyway. What the program meets in Linux's half is its own
 * fault: a jump to an address that is not mapped, for example.
 */
bool l4_inside_reflect(struct keel_frame *frame, struct keel_message *m, unsigned int cpu)
{
	bool trigger = keel_kind(m) == KEEL_KIND_TRIGGER;
	bool step = keel_is(m, KEEL_KIND_EXCEPTION, X86_TRAP_DB);
	bool leaving = l4_inside_between(frame->ip, l4_inside_leaving, l4_inside_leaving_end);
	struct pt_regs *regs = per_cpu(l4_inside_regs, cpu);

	if (m->partner != keel_self(KEEL_SERVER + cpu) ||
	    per_cpu(l4_waiting, cpu) != L4_WAITING_INSIDE)
		return trigger;
	if (step && leaving) {
		/* A step begins with the program: the micro-kernel loads all of its registers. */
		memcpy(&frame->r15, regs, sizeof(*regs));
		return true;
	}
	if (step && (frame->ip == (unsigned long)l4_inside_gate ||
		     frame->ip == (unsigned long)l4_bypass_gate)) {
		/* The step was the jump: a system call. */
		frame->ip = frame->cx;
		frame->orig_ax = frame->ax;
		m->tag = KEEL_KIND_SYSCALL << KEEL_TAG_KIND_SHIFT |
			 (unsigned long)KEEL_GATE_SYSCALL << KEEL_TAG_LABEL_SHIFT;
	}
	if (!l4_inside_is_linux(frame, trigger, cpu)) {
		memcpy(regs, &frame->r15, sizeof(*regs));
		per_cpu(l4_inside_message, cpu) = *m;
		frame->ip = (unsigned long)l4_inside_left;
	} else if (trigger && leaving) {
		frame->ip = (unsigned long)l4_inside_stay;
	} else if (!trigger || !l4_bypass_stop(frame, regs)) {
		return trigger;
	}
	frame->flags &= ~(X86_EFLAGS_TF | X86_EFLAGS_DF | X86_EFLAGS_AC);
	return true;
}
