# SPDX-License-Identifier: GPL-2.0-only
# Included before every assembler source of an application and its libc: it
# replaces instructions of ring 3 by what works in ring 0.

# The system call: registers as with the instruction, but the kernel is jumped
# to. No stack is used, so that code may keep data below its stack pointer. A
# call that is to be restarted, or that an interrupt precedes, resumes two
# bytes early, at the second jump.
	.macro	syscall
.Lukl_call_\@:
	lea	.Lukl_back_\@(%rip), %rcx
	jmp	ukl_syscall
	jmp	.Lukl_call_\@
.Lukl_back_\@:
	.endm

# In ring 3 this ends the program by a signal, and so libc uses it; in ring 0 it
# would wait for an interrupt and continue.
	.macro	hlt
	ud2
	.endm
