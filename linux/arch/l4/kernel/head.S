/* SPDX-License-Identifier: GPL-2.0-only */
/* The first instruction of the server: rdi holds the start record's address. */
#include <linux/linkage.h>
#include <linux/init.h>
#include <asm/page.h>

	__HEAD
SYM_CODE_START(_start)
	leaq	init_thread_union + THREAD_SIZE(%rip), %rsp
	xorl	%ebp, %ebp
	call	l4_boot
	ud2
SYM_CODE_END(_start)

	.balign PAGE_SIZE
	.pushsection .bss..page_aligned, "aw", @nobits
	.balign PAGE_SIZE
SYM_DATA(empty_zero_page, .skip PAGE_SIZE)
SYM_DATA(swapper_pg_dir, .skip PAGE_SIZE)
	.popsection
