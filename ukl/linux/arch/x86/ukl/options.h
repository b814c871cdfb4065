/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the options add to the entries and returns of applications, for
 * assembler. Each macro is empty without its option.
 */
#ifndef _UKL_OPTIONS_H
#define _UKL_OPTIONS_H

#include <asm/percpu.h>
#include "bypass.h"

/* The size of each processor's return code without IRET, and of the place that it reads. */
#define UKL_RET_STEP	64

/* After SWAPGS, with only r11 changed: branch off if the thread has calls left. */
.macro UKL_BYPASS
#ifdef CONFIG_UKL_BYPASS
	movq	PER_CPU_VAR(current_task), %r11
	subl	$UKL_BYPASS_ONE, TASK_TI_status(%r11)
	jae	ukl_bypass
	addl	$UKL_BYPASS_ONE, TASK_TI_status(%r11)
SYM_INNER_LABEL(ukl_full, SYM_L_GLOBAL)
#endif
.endm

/* All registers are saved and user mode is returned to: branch off if it is an application. */
.macro UKL_RET
#ifdef CONFIG_UKL_RET
	movq	PER_CPU_VAR(current_task), %rcx
	testl	$(1 << TIF_UKL), TASK_TI_flags(%rcx)
	jnz	ukl_ret
SYM_INNER_LABEL(ukl_iret, SYM_L_GLOBAL)
#endif
.endm

/*
 * In ring 0 in the kernel's half, the frame above the return address: if it
 * is the last instruction of a return path, the application has been interrupted.
 */
.macro UKL_FRAME_OF_OPTIONS jump application
#ifdef CONFIG_UKL_BYPASS
	.irp	instruction, ukl_bypass_jump, ukl_leaf_jump
	cmpq	$\instruction, RIP-ORIG_RAX+8(%rsp)
	je	\jump
	.endr
#endif
#ifdef CONFIG_UKL_RET
	cmpq	$ukl_ret_ways, RIP-ORIG_RAX+8(%rsp)
	jb	.Lukl_no_way
	cmpq	$ukl_ret_ways_end, RIP-ORIG_RAX+8(%rsp)
	jae	.Lukl_no_way
	pushq	%rax
	movq	RIP-ORIG_RAX+2*8(%rsp), %rax
	subq	$ukl_ret_ways, %rax
	andq	$-UKL_RET_STEP, %rax
	movq	ukl_ret_places(%rax), %rax
	movq	%rax, RIP-ORIG_RAX+2*8(%rsp)
	popq	%rax
	jmp	\application
.Lukl_no_way:
#endif
.endm

#endif /* _UKL_OPTIONS_H */
