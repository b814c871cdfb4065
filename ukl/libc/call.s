# SPDX-License-Identifier: GPL-2.0-only
# Included before every assembler source of an application and its libc. It
# replaces instructions of ring 3 by equivalents for ring 0.

# The system call: the registers are those of the instruction, but this jumps
# to the kernel. No stack is used, so code may keep data below its stack pointer.
# A restarted call, or one after an interrupt at the jump, resumes two
# bytes early, at the second jump.
	.macro	syscall
.Lukl_call_\@:
	lea	.Lukl_back_\@(%rip), %rcx
	jmp	ukl_syscall
	jmp	.Lukl_call_\@
.Lukl_back_\@:
	.endm

# In ring 3 this ends the program by a signal, which libc uses; in ring 0 it
# would wait for an interrupt and continue.
	.macro	hlt
	ud2
	.endm
