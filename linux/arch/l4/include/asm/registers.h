/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For assembly: the registers of a struct pt_regs (PUSH_REGS, POP_REGS), and those that a C
 * function preserves, on a stack.
 */
#ifndef _ASM_L4_REGISTERS_H
#define _ASM_L4_REGISTERS_H

#include <x86/entry/calling.h>

.macro push_preserved
	.irp register, rbp, rbx, r12, r13, r14, r15
	pushq	%\register
	.endr
.endm

.macro pop_preserved
	.irp register, r15, r14, r13, r12, rbx, rbp
	popq	%\register
	.endr
.endm

#endif
