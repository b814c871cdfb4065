/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The system calls of threads that bypass the work of entry and exit.
 *
 * While such a call runs, the saved registers have what a call may look at:
 * the arguments, the number, the address and the stack pointer. The others are
 * still in the processor's registers, or saved in the frames of C functions.
 * They are saved here if there is exit work: signals, preemption, a pending
 * FPU state. CS and SS never change in an application's saved registers, and
 * stay from its last entry.
 */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/nospec-branch.h>
#include <asm/percpu.h>
#include <asm/processor-flags.h>
#include <asm/segment.h>
#include <asm/thread_info.h>
#include <asm/ukl.h>
#include <asm/unistd.h>
#include <asm/unwind_hints.h>
#include "../entry/calling.h"
#include "bypass.h"

	.code64
	.section .entry.text, "ax"

/*
 * From ukl_syscall after SWAPGS: interrupts are off, r11 is the task, all else
 * is the application's. Traced or filtered threads take the full entry, others
 * the path for the call's number.
 */
SYM_CODE_START(ukl_bypass)
	UNWIND_HINT_ENTRY
	cmpq	$0, TASK_TI_syscall_work(%r11)
	jne	ukl_full
	cmpq	$UKL_CALLS, %rax
	jae	ukl_full
	ANNOTATE_RETPOLINE_SAFE
	jmp	*ukl_ways(, %rax, 8)
SYM_CODE_END(ukl_bypass)

/*
 * A function that changes only rax and reads no register, and neither waits nor
 * enables interrupts: the call is invisible. The exit tests no flag: none of these
 * functions sets one, and another processor that sets one sends an interrupt,
 * which is taken after the jump.
 */
SYM_CODE_START(ukl_leaf)
	UNWIND_HINT_ENTRY
	movq	%rsp, PER_CPU_VAR(cpu_tss_rw + TSS_sp2)
	movq	PER_CPU_VAR(cpu_current_top_of_stack), %rsp
	subq	$PTREGS_SIZE, %rsp
	ANNOTATE_RETPOLINE_SAFE
	call	*ukl_calls(, %rax, 8)
	movq	PER_CPU_VAR(cpu_tss_rw + TSS_sp2), %rsp
	swapgs
	sti					/* takes effect after the jump */
	ANNOTATE_RETPOLINE_SAFE
SYM_INNER_LABEL(ukl_leaf_jump, SYM_L_GLOBAL)
	jmp	*%rcx
SYM_CODE_END(ukl_leaf)

/* What a call may look at, and the kernel's stack. */
.macro UKL_SAVE
	UNWIND_HINT_ENTRY
	movq	%rsp, %r11
	movq	PER_CPU_VAR(cpu_current_top_of_stack), %rsp
	subq	$PTREGS_SIZE, %rsp
	UNWIND_HINT_REGS
	movq	%r11, RSP(%rsp)
	movq	%rcx, RIP(%rsp)
	movq	%rax, ORIG_RAX(%rsp)
	movq	%rdi, RDI(%rsp)
	movq	%rsi, RSI(%rsp)
	movq	%rdx, RDX(%rsp)
	movq	%r10, R10(%rsp)
	movq	%r8, R8(%rsp)
	movq	%r9, R9(%rsp)
	sti
.endm

/* A function that takes its arguments as C functions do. */
SYM_CODE_START(ukl_by_arguments)
	UKL_SAVE
	ANNOTATE_RETPOLINE_SAFE
	call	*ukl_calls(, %rax, 8)
	jmp	ukl_by_arguments_back
SYM_CODE_END(ukl_by_arguments)

/* Linux's own, that takes them from the saved registers. */
SYM_CODE_START(ukl_by_registers)
	UKL_SAVE
	movq	%rsp, %rdi
	ANNOTATE_RETPOLINE_SAFE
	call	*sys_call_table(, %rax, 8)
SYM_INNER_LABEL(ukl_by_arguments_back, SYM_L_LOCAL)
	cli
	movq	PER_CPU_VAR(current_task), %rcx
	testl	$~(1 << TIF_UKL), TASK_TI_flags(%rcx)
	jnz	.Lwork

	movq	RDI(%rsp), %rdi
	movq	RSI(%rsp), %rsi
	movq	RDX(%rsp), %rdx
	movq	R10(%rsp), %r10
	movq	R8(%rsp), %r8
	movq	R9(%rsp), %r9
	movq	RIP(%rsp), %rcx
	movq	RSP(%rsp), %rsp
	UNWIND_HINT_EMPTY
	swapgs
	sti					/* takes effect after the jump */
	ANNOTATE_RETPOLINE_SAFE
SYM_INNER_LABEL(ukl_bypass_jump, SYM_L_GLOBAL)
	jmp	*%rcx

	/* The rest of the registers, as the full entry saves them; rax is the result. */
.Lwork:
	UNWIND_HINT_REGS
	movq	RIP(%rsp), %rcx
	movq	%rcx, RCX(%rsp)
	movq	%rax, RAX(%rsp)
	movq	%rbx, RBX(%rsp)
	movq	%rbp, RBP(%rsp)
	movq	%r12, R12(%rsp)
	movq	%r13, R13(%rsp)
	movq	%r14, R14(%rsp)
	movq	%r15, R15(%rsp)
	movq	$0, R11(%rsp)
	movq	$__USER_CS, CS(%rsp)
	movq	$(X86_EFLAGS_IF | X86_EFLAGS_FIXED), EFLAGS(%rsp)
	movq	$__USER_DS, SS(%rsp)
	movq	%rsp, %rdi
	call	irqentry_exit_to_user_mode
	jmp	ukl_return
SYM_CODE_END(ukl_by_registers)
