// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exceptions: of user threads, which become the signals that x86 sends for them,
 * and of the server's own code, which are fixups, warnings or the end.
 */
#include <linux/bug.h>
#include <linux/extable.h>
#include <linux/kdebug.h>
#include <linux/mm.h>
#include <linux/ratelimit.h>
#include <linux/sched/debug.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <asm/debugreg.h>
#include <asm/fpu/api.h>
#include <asm/l4.h>
#include <asm/trap_pf.h>
#include <asm/trapnr.h>
#include <asm/tlbflush.h>
#include <asm/traps.h>
#include "../hypercall/reflector.h"

int show_unhandled_signals = 1;

/* dr0 to dr3, dr6, dr7 of the running thread's lthread, which stops to get them. */
void l4_set_debugreg(unsigned int number, unsigned long value)
{
	current->thread.debug[number < HBP_NUM ? number : number - 2] = value;
	current->thread.debug_stale = true;
	current->thread.ready_cpu = L4_NO_CPU;
	set_thread_flag(TIF_NOTIFY_RESUME);
}

/* They are the processor's to Linux: perf sets none anew for threads that share them. */
void l4_hand_on_debug(struct task_struct *next)
{
	memcpy(next->thread.debug, current->thread.debug, sizeof(next->thread.debug));
	next->thread.debug_stale = true;
	next->thread.ready_cpu = L4_NO_CPU;
}

/* As x86: breakpoints tell those who set them; the rest, and a debugger's, is a signal. */
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

/* x87 and SSE exceptions: the state says which of the unmasked ones it was, if any. */
static void l4_math_exception(struct pt_regs *regs, unsigned int vector)
{
	int code;

	l4_fpu_fetch(current);
	code = fpu__exception_code(&current->thread.fpu, vector);
	if (code)
		force_sig_fault(SIGFPE, code, (void __user *)regs->ip);
}

/* What x86 says of an exception whose signal a program does not handle, and that signal. */
static const struct {
	int signal;
	const char *name;
} l4_traced[] = {
	[X86_TRAP_DE] = { SIGFPE, "trap divide error" },
	[X86_TRAP_BP] = { SIGTRAP, "trap int3" },
	[X86_TRAP_UD] = { SIGILL, "trap invalid opcode" },
	[X86_TRAP_NP] = { SIGBUS, "trap segment not present" },
	[X86_TRAP_SS] = { SIGBUS, "trap stack segment" },
	[X86_TRAP_GP] = { SIGSEGV, "general protection fault" },
};

/* Whether the log tells of it. */
bool l4_is_traced(int signal)
{
	return show_unhandled_signals && unhandled_signal(current, signal) && printk_ratelimit();
}

static void l4_trace_exception(struct pt_regs *regs, unsigned int vector, unsigned long error_code)
{
	if (vector >= ARRAY_SIZE(l4_traced) || !l4_traced[vector].name ||
	    !l4_is_traced(l4_traced[vector].signal))
		return;
	pr_info("traps: %s[%d] %s ip:%lx sp:%lx error:%lx", current->comm, current->pid,
		l4_traced[vector].name, regs->ip, regs->sp, error_code);
	print_vma_addr(KERN_CONT " in ", regs->ip);
	pr_cont("\n");
}

void l4_user_exception(struct pt_regs *regs, unsigned int vector, unsigned long error_code,
		       unsigned long dr6)
{
	l4_trace_exception(regs, vector, error_code);
	current->thread.trap_nr = vector;
	current->thread.error_code = error_code;
	switch (vector) {
	case X86_TRAP_DE:
		force_sig_fault(SIGFPE, FPE_INTDIV, (void __user *)regs->ip);
		break;
	case X86_TRAP_DB:
		l4_debug_exception(regs, dr6);
		break;
	case X86_TRAP_BP:
		force_sig(SIGTRAP);
		break;
	case X86_TRAP_UD:
		force_sig_fault(SIGILL, ILL_ILLOPN, (void __user *)regs->ip);
		break;
	case X86_TRAP_NM:
		if (l4_fpu_begin(current->thread.keel_thread))
			l4_kill_current("has no FPU state", -ENOMEM);
		break;
	case X86_TRAP_NP:
	case X86_TRAP_SS:
		force_sig(SIGBUS);
		break;
	case X86_TRAP_AC:
		force_sig_fault(SIGBUS, BUS_ADRALN, NULL);
		break;
	case X86_TRAP_MF:
	case X86_TRAP_XF:
		l4_math_exception(regs, vector);
		break;
	default:
		force_sig(SIGSEGV);
	}
}

/*
 * A signal frame may name selectors that x86 would refuse on the return to user
 * mode. The micro-kernel would put good ones in their place; the program gets the
 * fault that it asked for instead.
 */
void l4_check_selectors(struct pt_regs *regs)
{
	unsigned long bad;

	if (regs->cs != __USER_CS && regs->cs != __USER32_CS)
		bad = regs->cs;
	else if (regs->ss != __USER_DS)
		bad = regs->ss;
	else
		return;
	l4_user_exception(regs, X86_TRAP_GP, bad & ~(unsigned long)SEGMENT_RPL_MASK, 0);
}

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
	if (in_interrupt() || panic_on_oops)
		panic("Fatal exception%s", in_interrupt() ? " in interrupt" : "");
	/* The walk that it was in, if any, has ended: whoever frees tables would wait for it. */
	this_cpu_write(l4_window.page, L4_NO_WINDOW);
	this_cpu_write(l4_lockless_walk, 0);
	this_cpu_write(l4_mapping, 0);
	local_irq_enable();
	make_task_dead(SIGSEGV);
}

/* The server faulted: called on the faulting thread, which runs on afterwards. */
void l4_kernel_trap(struct l4_trap *trap)
{
	struct pt_regs *regs = &trap->regs;

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

/* The only fixup that code compiled for this architecture asks for. */
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

/* Without frame pointers: whatever looks like a return address. */
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
