/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bypass (bypass_entry.S) of a program in the server: what differs from native Linux, whose
 * macros of the same names (ukl/linux/arch/x86/ukl/bypass_host.h) say what each does. gs is
 * Linux's all the time, and the saved registers are not on the stack (kernel/inside_gate.S).
 * Interrupts are soft-masked from UKL_TO_STACK on, where l4_waiting becomes 0, until it is
 * L4_WAITING_INSIDE again (kernel/irq.c); before that, in the gate, their handlers run. Where a
 * trigger comes after what it says was looked at for the last time, l4_inside_reflect() makes the
 * thread do its work: from ukl_leaf_leaving to ukl_leaf_end, and from ukl_bypass_leaving to
 * ukl_bypass_end.
 */
#ifndef _UKL_HOST_H
#define _UKL_HOST_H

#include <asm/irqflags.h>

#ifdef __ASSEMBLY__
.macro UKL_SECTION
	.text
.endm

.macro UKL_TO_FRAME
	movq	%gs:l4_inside_regs, %rsp
.endm

.macro UKL_TO_STACK
	movq	$0, %gs:l4_waiting
	movq	%gs:l4_inside_ksp, %rsp
.endm

.macro UKL_BEGIN
	movq	%rsp, %r11
	UKL_TO_STACK
	pushq	%r11
	movq	$ARCH_IRQ_ENABLED, %gs:l4_irq_off
	cmpq	$0, %gs:l4_irq_pending
	jne	.Lreplay_\@
.Lreplayed_\@:
	.subsection 1
.Lreplay_\@:
	call	l4_irq_replay
	movq	(%rsp), %r11
	movq	RDI(%r11), %rdi
	movq	RSI(%r11), %rsi
	movq	RDX(%r11), %rdx
	movq	ORIG_RAX(%r11), %rax
	jmp	.Lreplayed_\@
	.previous
.endm

.macro UKL_FRAME_ADDRESS register
	movq	(%rsp), \register
.endm

/* The thread may have waited, and be on another processor. */
.macro UKL_END work
	movq	$ARCH_IRQ_DISABLED, %gs:l4_irq_off
	movq	%gs:current_task, %rcx
	popq	%rdx
	movq	%rsp, %gs:l4_inside_ksp
	movq	%rdx, %gs:l4_inside_regs
	movq	%rdx, %rsp
	testl	$L4_EXIT_WORK, TASK_TI_flags(%rcx)
	jnz	\work
	cmpl	$L4_RESUME_MAPPINGS, TASK_RESUME_ACTION(%rcx)
	je	\work
	cmpq	$0, TASK_LOADED(%rcx)
	je	\work
	cmpb	$0, TASK_FPU_STALE(%rcx)
	jne	\work
	movq	TASK_MM(%rcx), %rcx
	cmpq	$0, MM_UNMAP_LAST(%rcx)
	jne	\work
SYM_INNER_LABEL(ukl_bypass_leaving, SYM_L_GLOBAL)
	movq	$L4_WAITING_INSIDE, %gs:l4_waiting
	cmpq	$0, %gs:l4_irq_pending
	jne	\work
.endm

.macro UKL_LEAVE
.endm

.macro UKL_LEAVE_LEAF work
	movq	%gs:current_task, %r11
SYM_INNER_LABEL(ukl_leaf_leaving, SYM_L_GLOBAL)
	movq	$L4_WAITING_INSIDE, %gs:l4_waiting
	cmpq	$0, %gs:l4_irq_pending
	jne	\work
	testl	$L4_EXIT_WORK, TASK_TI_flags(%r11)
	jnz	\work
.endm

.macro UKL_WORK
	jmp	l4_inside_stay
.endm
#else
/* Those in supervisor mode have leaves only: l4_supervisor_gate, which needs FSGSBASE. */
#define ukl_is_application(task)						\
	((task)->mm->context.inside ||						\
	 ((task)->mm->context.supervisor && boot_cpu_has(X86_FEATURE_FSGSBASE)))
#endif
#endif
