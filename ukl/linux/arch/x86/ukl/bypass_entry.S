/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The system calls of threads that bypass the work of entry and exit, on native Linux and on Keel.
 * What differs between the two is in bypass_host.h.
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
#include <asm/ptrace-abi.h>
#include <asm/segment.h>
#include <asm/thread_info.h>
#include <asm/unistd.h>
#include <asm/unwind_hints.h>
#include "bypass.h"
#include "bypass_host.h"

	.code64
	UKL_SECTION

/*
 * From UKL_BYPASS: interrupts are off, r11 is the task, all else is the application's.
 * Traced or filtered threads take the full entry, others the path for the call's number.
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
 * enables interrupts: the call is invisible. None of these functions sets a flag,
 * and another processor that sets one sends an interrupt.
 */
SYM_CODE_START(ukl_leaf)
	UNWIND_HINT_ENTRY
	movq	%rsp, %r11
	UKL_TO_STACK
	ANNOTATE_RETPOLINE_SAFE
	call	*ukl_calls(, %rax, 8)
	movq	%r11, %rsp
	UKL_LEAVE_LEAF ukl_leaf_work
SYM_INNER_LABEL(ukl_leaf_jump, SYM_L_GLOBAL)
	jmp	*%rcx
SYM_INNER_LABEL(ukl_leaf_end, SYM_L_GLOBAL)
SYM_CODE_END(ukl_leaf)

/* What a call may look at. */
.macro UKL_SAVE
	UNWIND_HINT_ENTRY
	movq	%rsp, %r11
	UKL_TO_FRAME
	movq	%r11, RSP(%rsp)
	movq	%rcx, RIP(%rsp)
	movq	%rax, ORIG_RAX(%rsp)
	movq	%rdi, RDI(%rsp)
	movq	%rsi, RSI(%rsp)
	movq	%rdx, RDX(%rsp)
	movq	%r10, R10(%rsp)
	movq	%r8, R8(%rsp)
	movq	%r9, R9(%rsp)
.endm

/* A function that takes its arguments as C functions do. */
SYM_CODE_START(ukl_by_arguments)
	UKL_SAVE
	UKL_BEGIN
	ANNOTATE_RETPOLINE_SAFE
	call	*ukl_calls(, %rax, 8)
	jmp	ukl_by_arguments_back
SYM_CODE_END(ukl_by_arguments)

/* Linux's own, that takes them from the saved registers. */
SYM_CODE_START(ukl_by_registers)
	UKL_SAVE
	UKL_BEGIN
	UKL_FRAME_ADDRESS %rdi
	ANNOTATE_RETPOLINE_SAFE
	call	*sys_call_table(, %rax, 8)
SYM_INNER_LABEL(ukl_by_arguments_back, SYM_L_LOCAL)
	UKL_END ukl_bypass_work

	movq	RDI(%rsp), %rdi
	movq	RSI(%rsp), %rsi
	movq	RDX(%rsp), %rdx
	movq	R10(%rsp), %r10
	movq	R8(%rsp), %r8
	movq	R9(%rsp), %r9
	movq	RIP(%rsp), %rcx
	movq	RSP(%rsp), %rsp
	UKL_LEAVE
SYM_INNER_LABEL(ukl_bypass_jump, SYM_L_GLOBAL)
	jmp	*%rcx
SYM_INNER_LABEL(ukl_bypass_end, SYM_L_GLOBAL)
SYM_CODE_END(ukl_by_registers)

/* A leaf has made its call, with work: all registers are the application's. */
SYM_CODE_START(ukl_leaf_work)
	UKL_SAVE
	movq	$-1, ORIG_RAX(%rsp)		/* nothing is to be restarted */
	/* The rest of the registers, as the full entry saves them; rax is the result. */
SYM_INNER_LABEL(ukl_bypass_work, SYM_L_GLOBAL)
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
	UKL_WORK
SYM_CODE_END(ukl_leaf_work)
