// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exceptions. Those of user threads become the signals that x86 sends for them: in the server loop,
 * with interrupts on. Those of the server's own code are fixups, warnings or an oops: the trap
 * reflector (hypercall/reflector.c) makes the faulting thread call l4_kernel_trap(), in whatever
 * context it was, an IRQ thread included.
 */
#include <linux/bug.h>
#include <linux/extable.h>
#include <linux/kdebug.h>
#include <linux/mm.h>
#include <linux/sched/debug.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <asm/debugreg.h>
#include <asm/fpu/api.h>
#include <asm/l4.h>
#include <asm/trapnr.h>
#include <asm/tlbflush.h>
#include <asm/traps.h>
#include "../hypercall/reflector.h"

int show_unhandled_signals = 1;

/*
 * Sets one of dr0 to dr3, dr6, dr7 for the current task. The lthread gets them before it is
 * resumed; TIF_NOTIFY_RESUME makes a running one stop for that.
 */
void l4_set_debugreg(unsigned int number, unsigned long value)
{
	current->thread.debug[number < HBP_NUM ? number : number - 2] = value;
	current->thread.debug_stale = true;
	current->thread.ready_cpu = L4_NO_CPU;
	set_thread_flag(TIF_NOTIFY_RESUME);
}

/*
 * Passes the debug registers on at a context switch. Linux takes them for the processor's: perf
 * does not set them again for a thread that has the same ones.
 */
void l4_hand_on_debug(struct task_struct *next)
{
	if (!(current->thread.debug[L4_DR7] | next->thread.debug[L4_DR7]))
		return;
	memcpy(next->thread.debug, current->thread.debug, sizeof(next->thread.debug));
	next->thread.debug_stale = true;
	next->thread.ready_cpu = L4_NO_CPU;
}

/*
 * Serves a debug exception as x86 does: notifies the owners of breakpoints; single steps and what
 * has no owner become SIGTRAP.
 */
static void l4_debug_exception(struct pt_regs *regs, unsigned long dr6)
{
	bool none, handled;

	dr6 ^= DR6_RESERVED;
	none = !dr6;
	current->thread.virtual_dr6 = dr6 & DR_STEP;
	local_irq_disable();
	handled = notify_die(DIE_DEBUG, "debug", regs, (long)&dr6, 0, SIGTRAP) == NOTIFY_STOP;
	local_irq_enable();
	dr6 |= current->thread.virtual_dr6;
	if (!handled && (none || dr6 & (DR_STEP | DR_TRAP_BITS)))
		send_sigtrap(regs, 0, get_si_code(dr6));
}

/* Serves an x87 or SSE exception: the FPU state shows which unmasked one it was, if any. */
static void l4_math_exception(struct pt_regs *regs, unsigned int vector)
{
	int code;

	l4_fpu_fetch(current);
	code = fpu__exception_code(&current->thread.fpu, vector);
	if (code)
		force_sig_fault(SIGFPE, code, (void __user *)regs->ip);
}

/*
 * Exceptions that become signals with nothing more to find out: the signal, its code, if it has
 * one, and what x86 logs if the program does not handle it.
 */
static const struct l4_exception {
	int signal, code;
	const char *name;
} l4_exceptions[] = {
	[X86_TRAP_DE] = { SIGFPE, FPE_INTDIV, "trap divide error" },
	[X86_TRAP_BP] = { SIGTRAP, 0, "trap int3" },
	[X86_TRAP_UD] = { SIGILL, ILL_ILLOPN, "trap invalid opcode" },
	[X86_TRAP_NP] = { SIGBUS, 0, "trap segment not present" },
	[X86_TRAP_SS] = { SIGBUS, 0, "trap stack segment" },
	[X86_TRAP_GP] = { SIGSEGV, 0, "general protection fault" },
}, l4_other_exception = { SIGSEGV };

/* Returns true if a signal of the current task is to be logged. */
bool l4_is_traced(int signal)
{
	return show_unhandled_signals && unhandled_signal(current, signal) && printk_ratelimit();
}

/* Logs an exception as x86 does. */
static void l4_trace_exception(struct pt_regs *regs, const char *name, unsigned long error_code)
{
	pr_info("traps: %s[%d] %s ip:%lx sp:%lx error:%lx", current->comm, current->pid, name,
		regs->ip, regs->sp, error_code);
	print_vma_addr(KERN_CONT " in ", regs->ip);
	pr_cont("\n");
}

/*
 * Serves an exception of a user thread: sends the signal to the current task, which may be the
 * service thread of a native lthread. Called with interrupts on; may sleep.
 */
void l4_user_exception(struct pt_regs *regs, unsigned int vector, unsigned long error_code,
		       unsigned long dr6)
{
	const struct l4_exception *exception = &l4_other_exception;

	if (vector < ARRAY_SIZE(l4_exceptions) && l4_exceptions[vector].signal)
		exception = &l4_exceptions[vector];
	if (exception->name && l4_is_traced(exception->signal))
		l4_trace_exception(regs, exception->name, error_code);
	current->thread.trap_nr = vector;
	current->thread.error_code = error_code;
	switch (vector) {
	case X86_TRAP_DB:
		l4_debug_exception(regs, dr6);
		break;
	case X86_TRAP_NM:
		if (l4_fpu_begin(current->thread.keel_thread))
			l4_kill_current("has no FPU state", -ENOMEM);
		break;
	case X86_TRAP_AC:
		force_sig_fault(SIGBUS, BUS_ADRALN, NULL);
		break;
	case X86_TRAP_MF:
	case X86_TRAP_XF:
		l4_math_exception(regs, vector);
		break;
	default:
		if (exception->code)
			force_sig_fault(exception->signal, exception->code, (void __user *)regs->ip);
		else
			force_sig(exception->signal);
	}
}

/*
 * Sends a general protection fault if a signal frame, or a tracer, named selectors that x86 refuses
 * on the return to user mode. Without this check the micro-kernel would silently replace them by
 * good ones, and those of 64-bit code by those of 32-bit code where a program runs no other.
 * Called with interrupts on.
 */
void l4_check_selectors(struct pt_regs *regs)
{
	const mm_context_t *context = &current->mm->context;
	unsigned long bad;

	if (regs->cs != __USER_CS && regs->cs != __USER32_CS)
		bad = regs->cs;
	else if (regs->ss != __USER_DS)
		bad = regs->ss;
	else if (unlikely(context->window || context->resident) && regs->cs == __USER_CS &&
		 !l4_small_leave())
		bad = regs->cs;
	else
		return;
	l4_user_exception(regs, X86_TRAP_GP, bad & ~(unsigned long)SEGMENT_RPL_MASK, 0);
}

/* A tracer sets the selector of the code or the stack of a task, which is stopped. */
void l4_set_selector(struct task_struct *task, unsigned long *which, unsigned short selector)
{
	if (*which == selector)
		return;
	*which = selector;
	task->thread.place |= L4_SELECTORS_SET;
	task->thread.ready_cpu = L4_NO_CPU;
}

/* Returns true if the thread of a trap had no stack of Linux's: nothing can go on there. */
static bool l4_has_no_stack(const struct l4_trap *trap)
{
	return (unsigned long)trap - (unsigned long)l4_last_stack < sizeof(l4_last_stack);
}

/* The oops: reports a fatal trap of the server's code, and kills the task or panics. */
static void __noreturn l4_die(struct l4_trap *trap)
{
	struct pt_regs *regs = &trap->regs;

	console_verbose();
	bust_spinlocks(1);
	pr_emerg("Oops: vector %lu, error code %lx, address %lx\n", trap->vector,
		 trap->error_code, trap->address);
	show_regs(regs);
	show_stack(current, (unsigned long *)(trap + 1), KERN_EMERG);
	bust_spinlocks(0);
	add_taint(TAINT_DIE, LOCKDEP_NOW_UNRELIABLE);
	if (in_interrupt() || panic_on_oops || l4_has_no_stack(trap))
		panic("Fatal exception%s", l4_has_no_stack(trap) ? " without a stack" :
					   in_interrupt() ? " in interrupt" : "");
	/* End the sections that it was in: a flush would wait for them. */
	this_cpu_write(l4_window.page, L4_NO_WINDOW);
	this_cpu_write(l4_lockless_walk, 0);
	this_cpu_write(l4_mapping, NULL);
	this_cpu_write(l4_waiting, 0);
	local_irq_enable();
	make_task_dead(SIGSEGV);
}

/*
 * Serves a fault of the server's own code. Called on the faulting thread by l4_reflector_entry,
 * which restores the registers on return.
 */
void l4_kernel_trap(struct l4_trap *trap)
{
	struct pt_regs *regs = &trap->regs;

	if (l4_has_no_stack(trap))
		l4_die(trap);
	if (trap->vector == X86_TRAP_UD) {
		if (report_bug(regs->ip, regs) == BUG_TRAP_TYPE_WARN) {
			regs->ip += LEN_UD2;
			return;
		}
	} else if (fixup_exception(regs, trap->vector, trap->error_code, trap->address)) {
		return;
	}
	l4_die(trap);
}

/* Applies the only type of fixup that code of this architecture uses. */
int fixup_exception(struct pt_regs *regs, int trapnr, unsigned long error_code,
		    unsigned long fault_addr)
{
	const struct exception_table_entry *entry = search_exception_tables(regs->ip);

	if (!entry || (entry->data & EX_DATA_TYPE_MASK) != EX_TYPE_DEFAULT)
		return 0;
	regs->ip = (unsigned long)&entry->fixup + entry->fixup;
	return 1;
}

int is_valid_bugaddr(unsigned long address)
{
	return *(unsigned short *)address == INSN_UD2;
}

void show_regs(struct pt_regs *regs)
{
	show_regs_print_info(KERN_DEFAULT);
	printk("RIP: %04lx:%pS\nRSP: %016lx EFLAGS: %08lx\n", regs->cs, (void *)regs->ip,
	       regs->sp, regs->flags);
	printk("RAX: %016lx RBX: %016lx RCX: %016lx\n", regs->ax, regs->bx, regs->cx);
	printk("RDX: %016lx RSI: %016lx RDI: %016lx\n", regs->dx, regs->si, regs->di);
	printk("RBP: %016lx R08: %016lx R09: %016lx\n", regs->bp, regs->r8, regs->r9);
	printk("R10: %016lx R11: %016lx R12: %016lx\n", regs->r10, regs->r11, regs->r12);
	printk("R13: %016lx R14: %016lx R15: %016lx\n", regs->r13, regs->r14, regs->r15);
}

/* There are no frame pointers: prints every word that looks like a return address. */
void show_stack(struct task_struct *task, unsigned long *sp, const char *loglvl)
{
	unsigned long *end;

	if (!task)
		task = current;
	if (!sp)
		sp = task == current ? (unsigned long *)&end :
				       (unsigned long *)task->thread.ksp;
	if (!object_is_on_stack(sp) && task == current)
		return;
	end = (unsigned long *)((unsigned long)task_stack_page(task) + THREAD_SIZE);
	printk("%sCall trace (guessed):\n", loglvl);
	for (; sp < end; sp++)
		if (__kernel_text_address(*sp))
			printk("%s %pS\n", loglvl, (void *)*sp);
}
