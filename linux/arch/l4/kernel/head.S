/* SPDX-License-Identifier: GPL-2.0-only */
/* The first instruction of the server: rdi holds the start record's address. */
#include <linux/linkage.h>
#include <linux/init.h>
#include <asm/page_types.h>

	__HEAD
SYM_CODE_START(_start)
	leaq	init_thread_union + THREAD_SIZE(%rip), %rsp
	xorl	%ebp, %ebp
	call	l4_boot
	ud2
SYM_CODE_END(_start)
