// SPDX-License-Identifier: GPL-2.0-only
/* Single steps of traced threads; all else that debuggers see is x86's ptrace.c. */
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <asm/l4.h>

void user_enable_single_step(struct task_struct *task)
{
	struct pt_regs *regs = task_pt_regs(task);

	set_tsk_thread_flag(task, TIF_SINGLESTEP);
	if (!(regs->flags & X86_EFLAGS_TF))
		set_tsk_thread_flag(task, TIF_FORCED_TF);
	regs->flags |= X86_EFLAGS_TF;
	set_task_syscall_work(task, SYSCALL_EXIT_TRAP);
}

/* Stepping from branch to branch needs a register of the kernel below: step singly. */
void user_enable_block_step(struct task_struct *task)
{
	user_enable_single_step(task);
}

void user_disable_single_step(struct task_struct *task)
{
	clear_tsk_thread_flag(task, TIF_SINGLESTEP);
	clear_task_syscall_work(task, SYSCALL_EXIT_TRAP);
	if (test_and_clear_tsk_thread_flag(task, TIF_FORCED_TF))
		task_pt_regs(task)->flags &= ~X86_EFLAGS_TF;
}
