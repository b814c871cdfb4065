/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bypass (bypass_entry.S) on native Linux, where applications are in ring 0: what differs from
 * a program in the server on Keel, whose macros have the same names
 * (linux/arch/l4/ukl/bypass_host.h).
 */
#ifndef _UKL_HOST_H
#define _UKL_HOST_H

#include <asm/ukl.h>

#ifdef __ASSEMBLY__
#include "../entry/calling.h"

.macro UKL_SECTION
	.section .entry.text, "ax"
.endm

/* The stack pointer becomes that of the saved registers. */
.macro UKL_TO_FRAME
	movq	PER_CPU_VAR(cpu_current_top_of_stack), %rsp
	subq	$PTREGS_SIZE, %rsp
.endm

/* It becomes that of a stack, for a function that neither waits nor is seen. */
.macro UKL_TO_STACK
	UKL_TO_FRAME
.endm

/* From the saved registers to a stack, with interrupts on; only r11 and flags change. */
.macro UKL_BEGIN
	UNWIND_HINT_REGS
	sti
.endm

/* Between the two: the saved registers' address. */
.macro UKL_FRAME_ADDRESS register
	movq	%rsp, \register
.endm

/* Back to the saved registers, with interrupts off; to `work` if there is any. rax is kept. */
.macro UKL_END work
	cli
	movq	PER_CPU_VAR(current_task), %rcx
	testl	$~(1 << TIF_UKL), TASK_TI_flags(%rcx)
	jnz	\work
.endm

/* Before the jump to the application: all registers are its own. */
.macro UKL_LEAVE
	UNWIND_HINT_EMPTY
	swapgs
	sti					/* takes effect after the jump */
	ANNOTATE_RETPOLINE_SAFE
.endm

/* The same after a function that sets no flag and is not seen. */
.macro UKL_LEAVE_LEAF work
	UKL_LEAVE
.endm

/* All registers are saved: does the work, and returns as from a call without bypass. */
.macro UKL_WORK
	movq	%rsp, %rdi
	call	irqentry_exit_to_user_mode
	jmp	ukl_return
.endm
#else
#define ukl_is_application(task) test_tsk_thread_flag(task, TIF_UKL)
#endif
#endif
