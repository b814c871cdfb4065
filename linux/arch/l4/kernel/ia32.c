// SPDX-License-Identifier: GPL-2.0-only
/*
 * 32-bit programs: how they start, and what their selectors mean. A thread's own descriptors are
 * stored into its lthread before it runs; its selectors and their bases are in the frame. System
 * calls, signals, thread areas and the arguments of calls are served by x86's own files.
 */
#include <linux/compat.h>
#include <linux/elf.h>
#include <linux/nospec.h>
#include <linux/sched/task_stack.h>
#include <asm/desc.h>
#include <asm/ia32_unistd.h>
#include <asm/l4.h>
#include <asm/proto.h>

#define SELECTOR_INDEX_SHIFT 3

int force_personality32;

struct l4_selectors *l4_selectors(struct task_struct *task)
{
	return (struct l4_selectors *)&task->thread.frame->segments;
}

/* Returns the base that a selector stands for; it is 0 except for a thread's own descriptors. */
unsigned long x86_fsgsbase_read_task(struct task_struct *task, unsigned short selector)
{
	unsigned int number = selector >> SELECTOR_INDEX_SHIFT;

	if (number < GDT_ENTRY_TLS_MIN || number > GDT_ENTRY_TLS_MAX)
		return 0;
	number = array_index_nospec(number - GDT_ENTRY_TLS_MIN, GDT_ENTRY_TLS_ENTRIES);
	return get_desc_base(&task->thread.tls_array[number]);
}

void l4_load_selector(unsigned short *which, unsigned int selector)
{
	struct keel_frame *frame = current->thread.frame;
	unsigned long base = x86_fsgsbase_read_task(current, selector);

	*which = selector;
	if (which == &l4_selectors(current)->fs)
		frame->fs_base = base;
	else if (which == &l4_selectors(current)->gs)
		frame->gs_base = base;
}

/* x86's load_gs_index() calls this. */
asmlinkage void asm_load_gs_index(unsigned int selector)
{
	loadsegment(gs, selector);
}

/* Starts a program in the current task. x86's ELF code has cleared the registers already. */
static void l4_start_program(struct pt_regs *regs, unsigned long ip, unsigned long sp,
			     unsigned long cs)
{
	loadsegment(ds, current->thread.ds);
	loadsegment(es, current->thread.es);
	loadsegment(fs, 0);
	loadsegment(gs, 0);
	regs->ip = ip;
	regs->sp = sp;
	regs->cs = cs;
	regs->ss = __USER_DS;
	regs->flags = X86_EFLAGS_IF;
}

void start_thread(struct pt_regs *regs, unsigned long ip, unsigned long sp)
{
	l4_start_program(regs, ip, sp, __USER_CS);
	l4_place_program(true);
}
EXPORT_SYMBOL_GPL(start_thread);

void compat_start_thread(struct pt_regs *regs, u32 ip, u32 sp, bool x32)
{
	l4_start_program(regs, ip, sp, __USER32_CS);
	l4_place_program(false);
}

void set_personality_64bit(void)
{
	clear_thread_flag(TIF_ADDR32);
	task_pt_regs(current)->orig_ax = __NR_execve;
	current_thread_info()->status &= ~TS_COMPAT;
	current->personality &= ~READ_IMPLIES_EXEC;
}

void set_personality_ia32(bool x32)
{
	set_thread_flag(TIF_ADDR32);
	current->personality |= force_personality32;
	task_pt_regs(current)->orig_ax = __NR_ia32_execve;
	current_thread_info()->status |= TS_COMPAT;
}
