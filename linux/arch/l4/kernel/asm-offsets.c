// SPDX-License-Identifier: GPL-2.0-only
/* Offsets that assembly needs. */
#define COMPILE_OFFSETS
#include <linux/kbuild.h>
#include <linux/sched.h>

int main(void)
{
	OFFSET(TASK_KSP, task_struct, thread.ksp);
	OFFSET(TRAP_IP, pt_regs, ip);
	OFFSET(TRAP_SP, pt_regs, sp);
	/* How far behind rdi's place the flags lie; rsp is right behind them. */
	DEFINE(TRAP_FLAGS_BEHIND, offsetof(struct pt_regs, flags) - offsetof(struct pt_regs, orig_ax));
	return 0;
}
