/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86's atomic operations, on the word in the direct map: `uaddr` points there meanwhile, and a
 * walk section keeps the page. Linux's futex code has disabled page faults and handles the fault
 * itself. It makes no other accesses in blocks, for which the two macros would not be right.
 */
#include <linux/uaccess.h>
#include <asm/tlbflush.h>

#undef user_access_begin
#undef user_access_end
#define user_access_begin(uaddr, size)						\
	(access_ok(uaddr, size) &&						\
	 ((uaddr) = (__force void __user *)l4_user_place(uaddr, size, KEEL_FPAGE_WRITE)) != NULL)
#define user_access_end() l4_walk_end()

#include <x86/include/asm/futex.h>
