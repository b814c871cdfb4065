/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The switch of kernel stacks. The compiler expects rbx, rbp and r12 to r15 to be preserved; the
 * rest of a task's state is on its stack.
 */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/registers.h>

	.text
/* rdi = previous task, rsi = next task -> rax = previous task. Interrupts are off. */
SYM_CODE_START(__switch_to)
	push_preserved
	movq	%rsp, TASK_KSP(%rdi)
	movq	TASK_KSP(%rsi), %rsp
	movq	%rsi, %gs:current_task
	pop_preserved
	movq	%rdi, %rax
	ret
SYM_CODE_END(__switch_to)

/* A new task's first step: rax = previous task, rbx = function or 0, r12 = its argument */
SYM_CODE_START(l4_first_step)
	movq	%rax, %rdi
	movq	%rbx, %rsi
	movq	%r12, %rdx
	xorl	%ebp, %ebp
	call	l4_start_task
	ud2
SYM_CODE_END(l4_first_step)
