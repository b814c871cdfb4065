/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User memory is in another address space: every access walks the guest page tables
 * (mm/uaccess.c). Kernel memory that may not be mapped is read with a fixup.
 */
#ifndef _ASM_L4_UACCESS_H
#define _ASM_L4_UACCESS_H

#include <asm/asm.h>
#include <asm/extable.h>
#include <asm/percpu.h>

unsigned long raw_copy_from_user(void *to, const void __user *from, unsigned long n);
unsigned long raw_copy_to_user(void __user *to, const void *from, unsigned long n);
unsigned long __clear_user(void __user *to, unsigned long n);
long strncpy_from_user(char *to, const char __user *from, long count);
long strnlen_user(const char __user *from, long count);

#define __clear_user __clear_user
#include <asm-generic/uaccess.h>

/*
 * The window: in a block of unsafe accesses, the direct-map address of the page that was written
 * last. It is held by a walk section (asm/tlbflush.h) that ends when a word of another page is
 * written, when anything else is accessed, or when the block ends. A block must not sleep within
 * the section; as on x86 it contains unsafe accesses only. One window for each processor.
 */
struct l4_window {
	unsigned long page;
	void *memory;
};
DECLARE_PER_CPU(struct l4_window, l4_window);

#define L4_NO_WINDOW TASK_SIZE_MAX	/* not the address of a user page */

unsigned long l4_window_move(void __user *to, const void *from, unsigned long n);
void l4_window_end(void);

static __always_inline void l4_window_close(void)
{
	if (unlikely(this_cpu_read(l4_window.page) != L4_NO_WINDOW))
		l4_window_end();
}

/* Writes through the window. Returns the bytes that could not be written, as raw_copy_to_user(). */
static __always_inline unsigned long l4_window_put(void __user *to, const void *from,
						   unsigned long n)
{
	unsigned long offset = (unsigned long)to - this_cpu_read(l4_window.page);

	if (unlikely(offset > PAGE_SIZE - n))
		return l4_window_move(to, from, n);
	memcpy(this_cpu_read(l4_window.memory) + offset, from, n);
	return 0;
}

/*
 * Returns the direct-map address of n bytes of user memory, or NULL if they cross a page or the
 * access is not allowed. If it is not NULL, a walk section is open: the caller ends it by
 * l4_walk_end() and must not sleep before.
 */
void *l4_user_place(const void __user *address, unsigned long n, unsigned long right);

#define user_access_begin(ptr, len) access_ok(ptr, len)
#define user_access_end() l4_window_close()

/* The value is converted to the pointer's type by a cast: x86's callers rely on that. */
#define unsafe_put_user(x, ptr, label)						\
do {										\
	__typeof__(*(ptr)) upu_value = (__typeof__(*(ptr)))(x);			\
	if (l4_window_put(ptr, &upu_value, sizeof(upu_value)))			\
		goto label;							\
} while (0)

#define unsafe_get_user(x, ptr, label)						\
do {										\
	__typeof__((__typeof__(*(ptr)))0) ugu_value;				\
	l4_window_close();							\
	if (raw_copy_from_user(&ugu_value, ptr, sizeof(ugu_value)))		\
		goto label;							\
	(x) = ugu_value;							\
} while (0)

#define unsafe_copy_to_user(to, from, n, label)					\
do {										\
	l4_window_close();							\
	if (raw_copy_to_user(to, from, n))					\
		goto label;							\
} while (0)

bool l4_copy_kernel_nofault(void *to, const void *from, unsigned int size);

#define __get_kernel_nofault(to, from, type, label)				\
do {										\
	if (!l4_copy_kernel_nofault(to, from, sizeof(type)))			\
		goto label;							\
} while (0)

#define __put_kernel_nofault __get_kernel_nofault

#endif
