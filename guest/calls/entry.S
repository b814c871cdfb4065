/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trampoline that intercepts the system calls of unmodified code and makes messages of them
 * (keel_call.h). The µ-kernel jumps here in place of the call, with rcx and r11 as `syscall` leaves
 * them and all other registers as the program has them. The program gets back what `syscall` gives.
 * Calls from this page are not intercepted. A debugger that steps the program sees the trampoline.
 *
 * It does not touch the program's red zone. Some calls must not use the stack: sigreturn needs it
 * as it was, clone and vfork may return on another or a shared one, and a thread may unmap its own
 * before it exits (musl's detached threads do). These are made by `int 0x80` before the stack is
 * touched, as if made where rcx says, with the flags in r11.
 */
#include <sys/syscall.h>

#define RED_ZONE 128
#define OWN_BIT 31	/* of KEEL_CALL_HANDLER */

	.section .text.keel_entry, "ax"
	.p2align 12
	.globl keel_entry
	.type keel_entry, @function
keel_entry:
	cmp	$SYS_munmap, %eax
	je	hand_on
	cmp	$SYS_exit, %eax
	je	hand_on
	cmp	$SYS_rt_sigreturn, %eax
	je	hand_on
	cmp	$SYS_clone, %eax
	je	hand_on
	cmp	$SYS_vfork, %eax
	je	hand_on
	cmp	$SYS_clone3, %eax
	je	hand_on
	lea	-RED_ZONE(%rsp), %rsp
	push	%r11	/* the flags */
	push	%r11
	push	%rcx
	push	%r12
	push	%r13
	push	%r14
	mov	%r10, %r12
	mov	%r8, %r13
	mov	%r9, %r14
	mov	%rdi, %r8
	mov	%rsi, %r9
	mov	%rdx, %r10
	bts	$OWN_BIT, %eax
	syscall
	/* The server has put the arguments where the instruction has them. */
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rcx
	pop	%r11
	popfq
	lea	RED_ZONE(%rsp), %rsp
	jmp	*%rcx
hand_on:
	int	$0x80
	ud2
	.p2align 12
	.section .note.GNU-stack, "", @progbits
