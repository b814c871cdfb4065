/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a faulting thread of the server resumes: rdi and rsp point to a struct l4_trap, which
 * begins with its registers. All of them are restored after l4_kernel_trap(). IRETQ is not used,
 * because before QEMU 9.1 it faults in user mode on processors with SMAP: the instruction pointer
 * is stored below the thread's stack pointer, over the last word of the trap, and RET pops it.
 */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/registers.h>

	.text
SYM_CODE_START(l4_reflector_entry)
	call	l4_kernel_trap
	movq	RSP(%rsp), %rax
	subq	$8, %rax
	movq	RIP(%rsp), %rdx
	movq	%rdx, (%rax)
	movq	%rax, RSP(%rsp)
	POP_REGS
	addq	$(EFLAGS - ORIG_RAX), %rsp
	popfq
	popq	%rsp
	ret
SYM_CODE_END(l4_reflector_entry)

/*
 * rdi = the new gs base. The server's lthreads start here too, and return to their entry function.
 * If the processor lacks the instruction, the trap reflector emulates it.
 */
SYM_CODE_START(keel_set_percpu_base)
	wrgsbase %rdi
SYM_INNER_LABEL(keel_percpu_base_set, SYM_L_GLOBAL)
	ret
SYM_CODE_END(keel_set_percpu_base)
