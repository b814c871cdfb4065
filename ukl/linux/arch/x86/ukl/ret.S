/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The return to an application without IRET.
 *
 * Nothing is written to the application's stack, which may be missing, or in
 * use below its pointer. So the last two instructions take the stack pointer and
 * the address from a place in memory, and as no register is left to find it by, each
 * processor has a copy of them that knows its own. Interrupts are taken after the last.
 */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/nospec-branch.h>
#include <asm/percpu.h>
#include <asm/processor-flags.h>
#include <asm/ukl.h>
#include <asm/unwind_hints.h>
#include "../entry/calling.h"
#include "options.h"

/* In a processor's place. */
#define RET_IP	0
#define RET_SP	8

	.code64
	.section .entry.text, "ax"

/*
 * RSP is at the saved registers of an application, interrupts are off, GS is the
 * kernel's. IRET does what this path cannot: an address outside the
 * application's half, interrupts that stay off, a single step, and a breakpoint
 * at the instruction that is returned to, which RF would suppress once.
 */
SYM_CODE_START(ukl_ret)
	UNWIND_HINT_REGS
	testl	$UKL_NOT_USER_HALF, 4+RIP(%rsp)
	jnz	ukl_iret
	movq	EFLAGS(%rsp), %rdx
	movl	%edx, %eax
	andl	$(X86_EFLAGS_IF | X86_EFLAGS_TF), %eax
	cmpl	$X86_EFLAGS_IF, %eax
	jne	ukl_iret
	cmpq	$0, PER_CPU_VAR(cpu_dr7)
	jne	ukl_iret

	movl	PER_CPU_VAR(cpu_number), %ecx
	imull	$UKL_RET_STEP, %ecx, %ecx
	movq	RIP(%rsp), %rax
	movq	%rax, ukl_ret_places+RET_IP(%rcx)
	movq	RSP(%rsp), %rax
	movq	%rax, ukl_ret_places+RET_SP(%rcx)

	/* The place of the frame of POPF and RET, after the other registers. */
	andl	$~X86_EFLAGS_IF, %edx
	movq	%rdx, ORIG_RAX(%rsp)
	addq	$ukl_ret_ways, %rcx
	movq	%rcx, RIP(%rsp)
	POP_REGS
	popfq
	UNWIND_HINT_EMPTY
	RET
SYM_CODE_END(ukl_ret)

	.balign	UKL_RET_STEP
SYM_CODE_START(ukl_ret_ways)
	.set	place, ukl_ret_places
	.rept	CONFIG_NR_CPUS
	UNWIND_HINT_EMPTY
	swapgs
	movq	place+RET_SP(%rip), %rsp
	sti					/* takes effect after the jump */
	ANNOTATE_RETPOLINE_SAFE
	jmp	*place+RET_IP(%rip)
	.balign	UKL_RET_STEP, 0xcc
	.set	place, place + UKL_RET_STEP
	.endr
SYM_INNER_LABEL(ukl_ret_ways_end, SYM_L_GLOBAL)
SYM_CODE_END(ukl_ret_ways)

	.section .data..cacheline_aligned, "aw"
	.balign	UKL_RET_STEP
SYM_DATA_START(ukl_ret_places)
	.skip	CONFIG_NR_CPUS * UKL_RET_STEP
SYM_DATA_END(ukl_ret_places)
