/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How applications in ring 0 enter the kernel and leave it.
 *
 * While an application runs, GS is the user's, as with any process. Nothing here
 * or in the processor writes to its stack, so it may use memory below the pointer.
 */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/errno.h>
#include <asm/nospec-branch.h>
#include <asm/percpu.h>
#include <asm/processor-flags.h>
#include <asm/segment.h>
#include <asm/thread_info.h>
#include <asm/ukl.h>
#include <asm/unwind_hints.h>
#include "../entry/calling.h"
#include "options.h"

	.code64
	.section .entry.text, "ax"

/* The offset of the frame after the return address and one more word were pushed. */
#define FRAME(word)	(word-ORIG_RAX+2*8)

/*
 * The first thing at every exception and interrupt that has no stack of its
 * own. Above the return address is the frame from orig_ax on; all registers
 * are the interrupted code's and are preserved; interrupts are off, GS is the
 * user's or the kernel's.
 *
 * Ring 3: the frame is on the entry stack and stays.
 * Ring 0 in the user half, an application: it becomes a frame of ring 3.
 * The kernel: the frame moves to where it would be if the gate named no stack.
 * Until the gates name one, each word is copied onto itself.
 */
SYM_CODE_START(ukl_frame)
	UNWIND_HINT_EMPTY
	testb	$3, CS-ORIG_RAX+8(%rsp)
	jnz	.Lready
	testl	$UKL_NOT_USER_HALF, 4+RIP-ORIG_RAX+8(%rsp)
	jz	.Lapplication
	cmpq	$ukl_syscall, RIP-ORIG_RAX+8(%rsp)
	je	.Lcall
	cmpq	$ukl_jump, RIP-ORIG_RAX+8(%rsp)
	je	.Ljump
	UKL_FRAME_OF_OPTIONS .Ljump, .Lapplication

	pushq	%rax
	movq	FRAME(RSP)(%rsp), %rax
	andq	$~15, %rax
	.irp	word, SS, RSP, EFLAGS, CS, RIP, ORIG_RAX
	pushq	FRAME(\word)(%rsp)
	popq	\word-SS-8(%rax)
	.endr
	pushq	8(%rsp)				/* the return address */
	popq	-7*8(%rax)
	pushq	(%rsp)				/* rax */
	popq	-8*8(%rax)
	leaq	-8*8(%rax), %rsp
	popq	%rax
	RET

	/* A call has not begun: it is made by the instruction, where restarted calls begin. */
.Lcall:
	subq	$2, %rcx
	/* An NMI took STI's effect forward to a jump back to an application. */
.Ljump:
	movq	%rcx, RIP-ORIG_RAX+8(%rsp)
.Lapplication:
	movq	$__USER_CS, CS-ORIG_RAX+8(%rsp)
	movq	$__USER_DS, SS-ORIG_RAX+8(%rsp)
.Lready:
	RET
SYM_CODE_END(ukl_frame)

/*
 * The system call of an application, which jumps here. Registers are those of
 * SYSCALL: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9, and the
 * address to return to in rcx. rcx and r11 are lost. RSP and GS are the application's.
 * A restarted call resumes two bytes before the return address, where the
 * application has the instruction.
 */
SYM_CODE_START(ukl_syscall)
	UNWIND_HINT_ENTRY
	cli
	swapgs
	UKL_BYPASS
	cld
	movq	%rsp, PER_CPU_VAR(cpu_tss_rw + TSS_sp2)
	movq	PER_CPU_VAR(cpu_current_top_of_stack), %rsp
	pushq	$__USER_DS
	pushq	PER_CPU_VAR(cpu_tss_rw + TSS_sp2)
	pushq	$(X86_EFLAGS_IF | X86_EFLAGS_FIXED)
	pushq	$__USER_CS
	pushq	%rcx
	pushq	%rax
	xorl	%r11d, %r11d			/* see ukl_enter() */
	PUSH_AND_CLEAR_REGS rax=$-ENOSYS

	movq	%rsp, %rdi
	movslq	%eax, %rsi
	call	do_syscall_64			/* returns with interrupts off */

	/*
	 * By a jump where the registers are those of the call and the thread is
	 * still an application; by IRET after exec, signals and tracers.
	 */
SYM_INNER_LABEL(ukl_return, SYM_L_GLOBAL)
	movq	PER_CPU_VAR(current_task), %rcx
	testl	$(1 << TIF_UKL), TASK_TI_flags(%rcx)
	jz	swapgs_restore_regs_and_return_to_usermode
	movq	RCX(%rsp), %rcx
	cmpq	%rcx, RIP(%rsp)
	jne	swapgs_restore_regs_and_return_to_usermode
	testl	$UKL_NOT_USER_HALF, 4+RIP(%rsp)
	jnz	swapgs_restore_regs_and_return_to_usermode
	cmpq	$(X86_EFLAGS_IF | X86_EFLAGS_FIXED), EFLAGS(%rsp)
	jne	swapgs_restore_regs_and_return_to_usermode

	POP_REGS
	movq	RSP-ORIG_RAX(%rsp), %rsp
	UNWIND_HINT_EMPTY
	swapgs
	sti					/* takes effect after the jump */
	ANNOTATE_RETPOLINE_SAFE
SYM_INNER_LABEL(ukl_jump, SYM_L_GLOBAL)
	jmp	*%rcx
SYM_CODE_END(ukl_syscall)
