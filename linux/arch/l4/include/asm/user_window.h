/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structures in user memory that are written word by word, or used in place. x86's files that
 * build signal frames are compiled with this (x86/Makefile).
 */
#ifndef _ASM_L4_USER_WINDOW_H
#define _ASM_L4_USER_WINDOW_H

#include <linux/uaccess.h>
#include <linux/sched/signal.h>
#include <asm/percpu.h>

/*
 * Where n bytes at a user address lie, if they are in one page that may be accessed; else NULL.
 * The access is a walk (asm/tlbflush.h) that l4_walk_end() ends: until then nobody sleeps.
 */
void *l4_user_place(const void __user *address, unsigned long n, unsigned long right);

/*
 * The page of the last word that unsafe_put_user() wrote. It stays accessible, as part of a walk
 * that goes on, until a word of another page is written or user_access_end() ends the walk.
 */
struct l4_window {
	unsigned long page;
	void *memory;
};
DECLARE_PER_CPU(struct l4_window, l4_window);

#define L4_NO_WINDOW TASK_SIZE_MAX	/* no user's page */

unsigned long l4_window_move(void __user *to, const void *from, unsigned long n);
void l4_window_close(void);

/* What could not be written, as raw_copy_to_user() has it. */
static __always_inline unsigned long l4_window_put(void __user *to, const void *from,
						   unsigned long n)
{
	unsigned long offset = (unsigned long)to - this_cpu_read(l4_window.page);

	if (unlikely(offset > PAGE_SIZE - n))
		return l4_window_move(to, from, n);
	memcpy(this_cpu_read(l4_window.memory) + offset, from, n);
	return 0;
}

#undef user_access_end
#define user_access_end() l4_window_close()

#undef unsafe_put_user
#define unsafe_put_user(x, ptr, label)						\
do {										\
	__typeof__(*(ptr)) upu_value = (__typeof__(*(ptr)))(x);			\
	if (l4_window_put(ptr, &upu_value, sizeof(upu_value)))			\
		goto label;							\
} while (0)

/* The FPU state of a frame that cannot be completed is the thread's again. */
void l4_signal_setup_done(int failed, struct ksignal *ksig, int stepping);
#define signal_setup_done(failed, ksig, stepping)				\
	l4_signal_setup_done(failed, ksig, stepping)

#endif
