# SPDX-License-Identifier: GPL-2.0-only
# Put before every assembler source of an application and its libc: what
# they would do by instructions of ring 3 they do in a way that ring 0 has.

# The system call: registers as with the instruction, but the kernel is jumped
# to. No stack is used, so that code may keep data below its stack pointer. A
# call that is to be restarted, or that an interrupt comes before, goes on two
# bytes early, which is the second jump.
	.macro	syscall
.Lukl_call_\@:
	lea	.Lukl_back_\@(%rip), %rcx
	jmp	ukl_syscall
	jmp	.Lukl_call_\@
.Lukl_back_\@:
	.endm

# In ring 3 this ends the program by a signal, and so libc uses it; in ring 0 it
# would wait for an interrupt and go on.
	.macro	hlt
	ud2
	.endm
