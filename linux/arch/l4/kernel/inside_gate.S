/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a program in the server's own task (kernel/inside.c) leaves Linux and comes back. The server
 * thread itself runs it: gs is Linux's all the time, and the stack that Linux had is in
 * l4_inside_ksp. Interrupts are soft-masked on both sides, while l4_waiting says that the program
 * runs (kernel/irq.c). Whoever comes while the program runs sends the server thread to its trap
 * reflector (hypercall/reflector.c), which makes it go on at l4_inside_left or, if it is
 * between l4_inside_leaving and l4_inside_leaving_end, at l4_inside_stay.
 */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/processor-flags.h>

	.text
/*
 * rdi = the program's registers -> eax = L4_INSIDE_*: why Linux goes on. All registers of the
 * program are loaded; its ip is a user's.
 */
SYM_CODE_START(l4_inside_run)
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, %gs:l4_inside_ksp
	movq	%rdi, %gs:l4_inside_regs
SYM_INNER_LABEL(l4_inside_leaving, SYM_L_GLOBAL)
	/* Store, then test, as l4_serve() does. */
	movq	$L4_WAITING_INSIDE, %gs:l4_waiting
	cmpq	$0, %gs:l4_irq_pending
	jne	l4_inside_stay
	movq	REGS_IP(%rdi), %rax
	movq	%rax, %gs:l4_inside_ip
	pushq	REGS_FLAGS(%rdi)
	popfq
	movq	REGS_R15(%rdi), %r15
	movq	REGS_R14(%rdi), %r14
	movq	REGS_R13(%rdi), %r13
	movq	REGS_R12(%rdi), %r12
	movq	REGS_BP(%rdi), %rbp
	movq	REGS_BX(%rdi), %rbx
	movq	REGS_R11(%rdi), %r11
	movq	REGS_R10(%rdi), %r10
	movq	REGS_R9(%rdi), %r9
	movq	REGS_R8(%rdi), %r8
	movq	REGS_AX(%rdi), %rax
	movq	REGS_CX(%rdi), %rcx
	movq	REGS_DX(%rdi), %rdx
	movq	REGS_SI(%rdi), %rsi
	movq	REGS_SP(%rdi), %rsp
	movq	REGS_DI(%rdi), %rdi
	jmp	*%gs:l4_inside_ip
SYM_INNER_LABEL(l4_inside_leaving_end, SYM_L_GLOBAL)
SYM_CODE_END(l4_inside_run)

/*
 * A system call of the program, by a jump: rax = number, rcx = where it goes on, rdi, rsi, rdx,
 * r10, r8, r9 = arguments. Linux's code needs DF and AC clear.
 */
SYM_CODE_START(l4_inside_gate)
	movq	%gs:l4_inside_regs, %r11
	movq	%rsp, REGS_SP(%r11)
	movq	%gs:l4_inside_ksp, %rsp
	pushfq
	popq	REGS_FLAGS(%r11)
	movq	%r15, REGS_R15(%r11)
	movq	%r14, REGS_R14(%r11)
	movq	%r13, REGS_R13(%r11)
	movq	%r12, REGS_R12(%r11)
	movq	%rbp, REGS_BP(%r11)
	movq	%rbx, REGS_BX(%r11)
	movq	%r10, REGS_R10(%r11)
	movq	%r9, REGS_R9(%r11)
	movq	%r8, REGS_R8(%r11)
	movq	%rcx, REGS_CX(%r11)
	movq	%rcx, REGS_IP(%r11)
	movq	%rdx, REGS_DX(%r11)
	movq	%rsi, REGS_SI(%r11)
	movq	%rdi, REGS_DI(%r11)
	movq	%rax, REGS_ORIG_AX(%r11)
	testl	$(X86_EFLAGS_DF | X86_EFLAGS_AC), REGS_FLAGS(%r11)
	jnz	2f
1:	movl	$L4_INSIDE_CALL, %eax
	jmp	l4_inside_return
2:	pushq	$X86_EFLAGS_FIXED
	popfq
	jmp	1b
SYM_CODE_END(l4_inside_gate)

/* The program does not begin to run: there is work for Linux. Its flags may be loaded already. */
SYM_CODE_START(l4_inside_stay)
	movl	$L4_INSIDE_WORK, %eax
	jmp	l4_inside_return
SYM_CODE_END(l4_inside_stay)

/* The program was stopped; its registers, and the message about it, are stored. */
SYM_CODE_START(l4_inside_left)
	movl	$L4_INSIDE_MESSAGE, %eax
l4_inside_return:
	movq	$0, %gs:l4_waiting
	movq	%gs:l4_inside_ksp, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
SYM_CODE_END(l4_inside_left)
