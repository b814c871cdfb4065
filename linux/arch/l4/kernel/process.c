// SPDX-License-Identifier: GPL-2.0-only
/*
 * Creation and end of Linux's tasks: registers, kernel stacks, thread-local bases; and the idle
 * loop's wait. Lthreads are created and deleted by kernel/threads.c. Everything here runs on a
 * server thread in process context.
 */
#include <linux/elf-randomize.h>
#include <linux/hw_breakpoint.h>
#include <linux/mm.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/random.h>
#include <linux/sched/debug.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/switch_to.h>

#define BRK_RANDOM_RANGE 0x02000000

/* init_task never goes to user mode, but task_pt_regs() is applied to it. */
struct keel_frame l4_init_frame;

/* What __switch_to() pops from a new task's stack. */
struct first_stack {
	unsigned long r15, r14, r13;
	void *argument;			/* r12 */
	int (*function)(void *);	/* rbx */
	unsigned long bp;
	void (*ret)(void);
};

/* A new task has no frame, lthread, service, FPU buffer, breakpoints or place of its own yet. */
int arch_dup_task_struct(struct task_struct *dst, struct task_struct *src)
{
	*dst = *src;
	memset(&dst->thread.own, 0, sizeof(dst->thread.own));
	dst->thread.ready_cpu = L4_NO_CPU;
	dst->thread.resume_action = L4_RESUME_START;
	return 0;
}

void arch_release_task_struct(struct task_struct *task)
{
	l4_fpu_free(task);
	kfree(task->thread.frame_copy);
	if (task->thread.frame)
		l4_frame_free(task->thread.frame);
}

/* Copies the parent's registers to a new user thread; 0 or an error. */
static int l4_copy_registers(struct task_struct *task, const struct kernel_clone_args *args)
{
	struct keel_frame *frame = task->thread.frame;

	l4_inside_store_base();
	*frame = *current->thread.frame;
	frame->thread = 0;
	frame->ax = 0;
	if (args->stack)
		frame->sp = args->stack;
	task->thread.debug_stale = test_thread_flag(TIF_NOTSC) ||
				   memchr_inv(task->thread.tls_array, 0,
					      sizeof(task->thread.tls_array));
	if (!(args->flags & CLONE_SETTLS))
		return 0;
	if (in_ia32_syscall())
		return do_set_thread_area(task, -1, (struct user_desc __user *)args->tls, 0);
	if (args->tls >= TASK_SIZE_MAX)
		return -EPERM;
	frame->fs_base = args->tls;
	return 0;
}

/*
 * Gives a new task its frame, its first stack and, for a user thread, copies of the registers and
 * the FPU state. Returns 0 or an error.
 */
int copy_thread(struct task_struct *task, const struct kernel_clone_args *args)
{
	struct first_stack *stack;
	int error;

	task->thread.frame = l4_frame_alloc();
	if (!task->thread.frame)
		return -ENOMEM;
	memset(task->thread.frame, 0, sizeof(*task->thread.frame));
	stack = task_stack_page(task) + THREAD_SIZE - sizeof(*stack) - sizeof(long);
	memset(stack, 0, sizeof(*stack));
	stack->ret = l4_first_step;
	stack->function = args->fn;
	stack->argument = args->fn_arg;
	task->thread.ksp = (unsigned long)stack;
	clear_tsk_thread_flag(task, TIF_SINGLESTEP);
	clear_tsk_thread_flag(task, TIF_FORCED_TF);
	/* The child of one in the server is an ordinary process, except with its memory. */
	if (l4_is_placed(current) && (args->flags & CLONE_VM || current->mm->context.supervisor))
		task->thread.place = L4_PLACED;
	if (args->fn)
		return 0;
	error = l4_copy_registers(task, args);
	if (error)
		return error;
	if (test_thread_flag(TIF_FORCED_TF))
		task_pt_regs(task)->flags &= ~X86_EFLAGS_TF;
	return l4_fpu_fork(task);
}

/*
 * Called by l4_first_step(). A kernel thread's function returns only if it has executed a program.
 */
asmlinkage void __noreturn l4_start_task(struct task_struct *prev, int (*function)(void *),
					 void *argument)
{
	schedule_tail(prev);
	if (function) {
		function(argument);
		current_pt_regs()->ax = 0;
	}
	l4_user_loop();
}

/* Called at exit, and for a task whose creation failed. */
void exit_thread(struct task_struct *task)
{
	l4_native_end(task);
	l4_thread_delete(task);
}

/* exec: deletes the lthread of the old program, and its FPU state with it. */
void flush_thread(void)
{
	l4_native_end(current);
	l4_thread_delete(current);
	flush_ptrace_hw_breakpoint(current);
	current->thread.fpu.stale = false;
	current->thread.loaded = false;
	current->thread.dispatch = KEEL_DISPATCH_OFF;
	current->thread.pager = 0;
	current->thread.debug_stale = current->thread.debug[L4_DR7] || test_thread_flag(TIF_NOTSC);
	memset(current->thread.tls_array, 0, sizeof(current->thread.tls_array));
}

/*
 * Returns true if the micro-kernel can refuse the time stamp counter to the current program: it has
 * lthreads of its own, in user mode.
 */
static bool l4_tsc_is_switched(void)
{
	return !current->mm->context.inside && !current->mm->context.supervisor;
}

/* Refuses the counter to the current thread, or allows it, from its return to user mode on. */
static void l4_switch_tsc(bool on)
{
	if (test_thread_flag(TIF_NOTSC) != on)
		return;
	assign_bit(TIF_NOTSC, &current_thread_info()->flags, !on);
	current->thread.debug_stale = true;
	current->thread.ready_cpu = L4_NO_CPU;
}

/* A strict seccomp refuses the counter. */
void disable_TSC(void)
{
	if (l4_tsc_is_switched())
		l4_switch_tsc(false);
}

/* prctl(PR_GET_TSC): stores PR_TSC_*. Returns 0 or -EFAULT. */
int get_tsc_mode(unsigned long address)
{
	unsigned int mode = test_thread_flag(TIF_NOTSC) ? PR_TSC_SIGSEGV : PR_TSC_ENABLE;

	return put_user(mode, (unsigned int __user *)address);
}

/* prctl(PR_SET_TSC). Returns 0, or -EINVAL for an unknown mode or one that cannot be. */
int set_tsc_mode(unsigned int mode)
{
	if (mode != PR_TSC_ENABLE && (mode != PR_TSC_SIGSEGV || !l4_tsc_is_switched()))
		return -EINVAL;
	l4_switch_tsc(mode == PR_TSC_ENABLE);
	return 0;
}

/*
 * Waits for an interrupt. Called with interrupts off; returns with interrupts on. A notification of
 * the IRQ thread ends the IPC, also one that was latched before it (kernel/irq.c).
 */
void arch_cpu_idle(void)
{
	struct keel_message m = { };

	this_cpu_write(l4_waiting, L4_WAITING_IDLE);
	barrier();
	if (!this_cpu_read(l4_irq_pending) && !need_resched())
		keel_ipc(KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, 0, 0, &m);
	barrier();
	this_cpu_write(l4_served, 0);
	this_cpu_write(l4_waiting, 0);
	raw_local_irq_enable();
}

/*
 * Without frame pointers: the first word on the stack that looks like a return address elsewhere.
 */
unsigned long __get_wchan(struct task_struct *task)
{
	unsigned long *sp = (unsigned long *)task->thread.ksp;
	unsigned long *end = task_stack_page(task) + THREAD_SIZE;

	for (; sp < end; sp++)
		if (__kernel_text_address(*sp) && !in_sched_functions(*sp))
			return *sp;
	return 0;
}

unsigned long arch_align_stack(unsigned long sp)
{
	if (!(current->personality & ADDR_NO_RANDOMIZE) && randomize_va_space)
		sp -= prandom_u32_max(8192);
	return sp & ~0xfUL;
}

unsigned long arch_randomize_brk(struct mm_struct *mm)
{
	return randomize_page(mm->brk, BRK_RANDOM_RANGE);
}
