/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86's kernel/signal.c is compiled with this (x86/Makefile). Its functions that set a frame up
 * call user_access_begin() and user_access_end() once each, with their local variable `frame`, and
 * write the words in between. Here `frame` points meanwhile to memory that plain stores reach: the
 * frame itself in the direct map, or a buffer that is copied at the end.
 */
#ifndef _ASM_L4_SIGNAL_SETUP_H
#define _ASM_L4_SIGNAL_SETUP_H

#include <linux/uaccess.h>

void *l4_frame_begin(void __user *frame, unsigned long size);
void __user *l4_frame_end(void *memory, unsigned long size);

#undef user_access_begin
#define user_access_begin(frame, size)						\
	(access_ok(frame, size) &&						\
	 ((frame) = (__force void __user *)l4_frame_begin(frame, size)) != NULL)

/* The function fails, as natively it does at the first word that cannot be written. */
#undef user_access_end
#define user_access_end()							\
do {										\
	frame = l4_frame_end((__force void *)frame, sizeof(*frame));		\
	if (!frame)								\
		return -EFAULT;							\
} while (0)

#undef unsafe_put_user
#define unsafe_put_user(x, ptr, label)						\
do {										\
	*(__force __typeof__(*(ptr)) *)(ptr) = (__typeof__(*(ptr)))(x);		\
	if (0)									\
		goto label;							\
} while (0)

#endif
