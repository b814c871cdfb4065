# SPDX-License-Identifier: GPL-2.0-only
# The note that makes an executable an application: the address that its system calls
# jump to, for the kernel to compare with its own (arch/x86/ukl/exec.c).
	.section .note.ukl, "a", @note
	.balign	4
	.long	.Lname_end - .Lname
	.long	.Lentry_end - .Lentry
	.long	1
.Lname:
	.asciz	"UKL"
.Lname_end:
.Lentry:
	.quad	ukl_syscall
.Lentry_end:
	.section .note.GNU-stack, "", @progbits
