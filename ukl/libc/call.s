# SPDX-License-Identifier: GPL-2.0-only
# Included before every assembler source of an application and its libc. It
# replaces instructions of ring 3 by what is right in ring 0, too.

# The system call: a jump through the gate (note.s), or the instruction if that is 0. As with
# the instruction, rcx and r11 are lost, and no stack is used, so code may keep data below its
# stack pointer. By a jump the flags are lost, too. The gate is read once: in a signal handler
# a child may be forked whose gate is closed. A restarted call begins two bytes before the
# place where it returns to: at the instruction, which also works in ring 0.
	.macro	syscall
	mov	ukl_gate(%rip), %r11
	mov	%r11, %rcx
	jrcxz	.Lukl_instruction_\@
	lea	.Lukl_back_\@(%rip), %rcx
	jmp	*%r11
.Lukl_instruction_\@:
	.byte	0x0f, 0x05
.Lukl_back_\@:
	.endm

# In ring 3 this ends the program by a signal, which libc uses; in ring 0 it
# would wait for an interrupt and continue.
	.macro	hlt
	ud2
	.endm
