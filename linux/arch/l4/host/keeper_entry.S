/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a faulting thread of the server runs on: rdi and rsp point to a struct
 * l4_trap, which begins with its registers. All of them are restored afterwards;
 * iretq to the same privilege level is allowed in user mode.
 */
#include <linux/linkage.h>
#include <asm/segment.h>
#include <asm/asm-offsets.h>

	.text
SYM_CODE_START(l4_keeper_entry)
	call	l4_kernel_trap
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	addq	$8, %rsp			/* orig_ax */
	movq	$__USER_CS, IRET_CS(%rsp)
	iretq
SYM_CODE_END(l4_keeper_entry)

/*
 * rdi = what gs shall hold. Also where lthreads of the server begin: they return to
 * what they are for. If the processor lacks the instruction the keeper does this.
 */
SYM_CODE_START(host_set_percpu_base)
	wrgsbase %rdi
SYM_INNER_LABEL(host_percpu_base_set, SYM_L_GLOBAL)
	ret
SYM_CODE_END(host_set_percpu_base)
