# SPDX-License-Identifier: GPL-2.0-only
# The note by which who executes a program finds its gate, which is the note's
# description: two words, 0 in the file (arch/x86/include/asm/ukl_gate.h). A system
# call (call.s) jumps to the first one, or is the instruction if that is 0. The second
# one says whether there are shortcuts (ukl.h).
	.globl	ukl_gate
	.section .note.ukl, "aw", @note
	.balign	8
	.long	.Lname_end - .Lname
	.long	.Lgate_end - ukl_gate
	.long	1
.Lname:
	.asciz	"UKL"
.Lname_end:
	.type	ukl_gate, @object
	.size	ukl_gate, .Lgate_end - ukl_gate
ukl_gate:
	.quad	0, 0
.Lgate_end:
	.section .note.GNU-stack, "", @progbits
