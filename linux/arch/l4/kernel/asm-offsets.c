// SPDX-License-Identifier: GPL-2.0-only
/* Offsets that assembly needs. */
#define COMPILE_OFFSETS
#include <linux/kbuild.h>
#include <linux/sched.h>

int main(void)
{
	OFFSET(TASK_KSP, task_struct, thread.ksp);
	/* cs in the hardware's frame, which begins with the instruction pointer. */
	DEFINE(IRET_CS, offsetof(struct pt_regs, cs) - offsetof(struct pt_regs, ip));
	return 0;
}
