/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a program in the server's own task (kernel/inside.c) leaves Linux and comes back. The server
 * thread itself runs it: gs is Linux's all the time, and the stack that Linux had is in
 * l4_inside_ksp. Interrupts are soft-masked on both sides, while l4_waiting says that the program
 * runs (kernel/irq.c). What comes while the program runs is an upcall. Between l4_inside_leaving
 * and l4_inside_leaving_end it is a message to the trap reflector (hypercall/reflector.c), which
 * makes the thread go on at l4_inside_stay or, after a single step, l4_inside_left. Registers are
 * loaded and saved with their struct pt_regs as the stack: nothing else uses a stack meanwhile.
 */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/processor-flags.h>
#include <asm/registers.h>
#include <asm/segment.h>
#include "../ukl/options.h"

	.text
/*
 * Runs a program, from its registers in rdi on, until it is not in the server any more. Linux
 * serves its calls and what else stops it in l4_inside_call() and l4_inside_event(), which return
 * its registers when it is to go on, or NULL.
 */
SYM_CODE_START(l4_inside_run)
	push_preserved
l4_inside_go:
	movq	%rsp, %gs:l4_inside_ksp
	movq	%rdi, %gs:l4_inside_regs
SYM_INNER_LABEL(l4_inside_leaving, SYM_L_GLOBAL)
	/* Store, then test, as l4_serve() does. */
	movq	$L4_WAITING_INSIDE, %gs:l4_waiting
	cmpq	$0, %gs:l4_irq_pending
	jne	l4_inside_stay
	movq	RIP(%rdi), %rax
	movq	%rax, %gs:l4_inside_ip
	movq	%rdi, %rsp
	POP_REGS
	addq	$(EFLAGS - ORIG_RAX), %rsp	/* rsp is the word after the flags */
	popfq
	popq	%rsp
	jmp	*%gs:l4_inside_ip
SYM_INNER_LABEL(l4_inside_leaving_end, SYM_L_GLOBAL)

/* Of a program with a gate of its own, as follows, or by its bypass (ukl/bypass_entry.S). */
SYM_INNER_LABEL(l4_bypass_gate, SYM_L_GLOBAL)
	UKL_BYPASS
/*
 * A system call of the program, by a jump: rax = number, rcx = where it goes on, rdi, rsi, rdx,
 * r10, r8, r9 = arguments. Linux's code needs DF and AC clear.
 */
SYM_INNER_LABEL(l4_inside_gate, SYM_L_GLOBAL)
	movq	%rsp, %r11
	movq	%gs:l4_inside_regs, %rsp
	addq	$FRAME_SIZE, %rsp
	pushq	$__USER_DS
	pushq	%r11
	pushfq
	pushq	$__USER_CS
	pushq	%rcx
	pushq	%rax
	PUSH_REGS
	testl	$(X86_EFLAGS_DF | X86_EFLAGS_AC), EFLAGS(%rsp)
	movq	%gs:l4_inside_ksp, %rsp
	jz	1f
	pushq	$X86_EFLAGS_FIXED
	popfq
1:	movq	$0, %gs:l4_waiting
	call	l4_inside_call
2:	movq	%rax, %rdi
	testq	%rax, %rax
	jnz	l4_inside_go
	pop_preserved
	ret

/*
 * An upcall of the micro-kernel: rdi, rsi, r8 = the message (l4_inside_upcalled). rdx and rcx are
 * the program's. All flags are clear.
 */
SYM_INNER_LABEL(l4_inside_upcall, SYM_L_GLOBAL)
	movq	$0, %gs:l4_waiting
	movq	%gs:l4_inside_ksp, %rsp
	call	l4_inside_upcalled
	jmp	2b

/* The program does not begin to run: there is work for Linux. Its flags may be loaded already. */
SYM_INNER_LABEL(l4_inside_stay, SYM_L_GLOBAL)
	xorl	%edi, %edi
	jmp	3f
/* The program was stopped; its registers, and the message about it, are stored. */
SYM_INNER_LABEL(l4_inside_left, SYM_L_GLOBAL)
	movq	%gs:this_cpu_off, %rdi
	addq	$l4_inside_message, %rdi
3:	movq	$0, %gs:l4_waiting
	movq	%gs:l4_inside_ksp, %rsp
	cld
	call	l4_inside_event
	jmp	2b
SYM_CODE_END(l4_inside_run)

/*
 * A system call of a program in supervisor mode, by a jump, in the registers as above: does itself
 * what SYSCALL would do, without its time. The program's flags are lost, as in a C function. An
 * interrupt or a single step comes before its first instruction only, when the call has not begun:
 * l4_left_gate() makes it begin at the program's instruction.
 *
 * A leaf (ukl/bypass.c) of a thread that asked for the bypass is called here, on the thread's own
 * lthread. That runs only while the server waits for its message, so `current` is its task. No
 * interrupt comes before l4_leaf_jump: the lock of RCU's readers, and what another processor wants
 * of the thread comes after it. NMIs use neither gs nor the stack. An NMI just before the jump lets
 * an interrupt in there: l4_left_gate() makes the jump.
 */
SYM_CODE_START(l4_supervisor_gate)
	cli
#ifdef CONFIG_UKL_BYPASS
	cmpq	$UKL_CALLS, %rax
	jae	1f
	cmpq	$ukl_leaf, ukl_ways(, %rax, 8)
	jne	1f
	/* The base of gs for Linux, from the processor's number. */
SYM_INNER_LABEL(l4_leaf_begin, SYM_L_GLOBAL)
	movl	$__CPUNODE_SEG, %r11d
	lsll	%r11d, %r11d
	movq	__per_cpu_offset(, %r11, 8), %r11
	movq	%rsp, l4_leaf(%r11)
	movq	current_task(%r11), %rsp
	subl	$UKL_BYPASS_ONE, TASK_TI_status(%rsp)
	jb	2f
	cmpq	$0, TASK_TI_syscall_work(%rsp)
	jne	3f
	rdgsbase %rsp
	movq	%rsp, l4_leaf + 8(%r11)
	wrgsbase %r11
	leaq	l4_leaf + L4_LEAF_SIZE(%r11), %rsp
	call	*ukl_calls(, %rax, 8)
	movq	%gs:l4_leaf + 8, %r11
	movq	%gs:l4_leaf, %rsp
	wrgsbase %r11
	sti
SYM_INNER_LABEL(l4_leaf_jump, SYM_L_GLOBAL)
	jmp	*%rcx
2:	addl	$UKL_BYPASS_ONE, TASK_TI_status(%rsp)
3:	movq	l4_leaf(%r11), %rsp
1:
#endif
	cld
	clac
	movl	$(X86_EFLAGS_IF | X86_EFLAGS_FIXED), %r11d
	jmp	*keel_entry(%rip)
SYM_CODE_END(l4_supervisor_gate)

/* The template of a stub (kernel/stubs.c). Nothing is changed but rcx and r11, and the flags. */
	.section .rodata
SYM_DATA_START(l4_stub_template)
	.quad	0		/* the address of the next instruction */
	movl	$0, %eax	/* what was before the system call */
1:	movq	L4_STUBS, %r11
	testq	%r11, %r11
	je	3f
	leaq	2f(%rip), %rcx
	jmp	*%r11
	jmp	1b		/* a restarted call begins here, two bytes early */
2:	.skip	6, 0x90		/* what was after it */
	jmp	*4f(%rip)
3:	syscall
	jmp	2b
	.org	l4_stub_template + L4_STUB_SIZE - 8
4:	.quad	0		/* where the program goes on */
SYM_DATA_END(l4_stub_template)
