/* SPDX-License-Identifier: GPL-2.0-only */
/* For assembly: the general registers of a struct pt_regs on a stack, r15 at the lowest address. */
#ifndef _ASM_L4_REGISTERS_H
#define _ASM_L4_REGISTERS_H

.macro push_registers
	.irp register, rdi, rsi, rdx, rcx, rax, r8, r9, r10, r11, rbx, rbp, r12, r13, r14, r15
	pushq	%\register
	.endr
.endm

.macro pop_registers
	.irp register, r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
	popq	%\register
	.endr
.endm

/* What a C function preserves. */
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
