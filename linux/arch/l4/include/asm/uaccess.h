/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User memory lies in another space: every access walks the logical page tables
 * (mm/uaccess.c). Kernel memory that may be missing is read with a fixup.
 */
#ifndef _ASM_L4_UACCESS_H
#define _ASM_L4_UACCESS_H

#include <asm/asm.h>
#include <asm/extable.h>

unsigned long raw_copy_from_user(void *to, const void __user *from, unsigned long n);
unsigned long raw_copy_to_user(void __user *to, const void *from, unsigned long n);
unsigned long __clear_user(void __user *to, unsigned long n);
long strncpy_from_user(char *to, const char __user *from, long count);
long strnlen_user(const char __user *from, long count);

#define __clear_user __clear_user
#include <asm-generic/uaccess.h>

/* There is nothing to open: a block of unsafe accesses is one of plain ones. */
#define user_access_begin(ptr, len) access_ok(ptr, len)
#define user_access_end() do { } while (0)
#define user_access_save() 0UL
#define user_access_restore(flags) do { } while (0)

/* The value is converted as by assignment through a cast: x86's callers rely on it. */
#define unsafe_put_user(x, ptr, label)						\
do {										\
	__typeof__(*(ptr)) upu_value = (__typeof__(*(ptr)))(x);			\
	if (raw_copy_to_user(ptr, &upu_value, sizeof(upu_value)))		\
		goto label;							\
} while (0)

#define unsafe_get_user(x, ptr, label)						\
do {										\
	__typeof__((__typeof__(*(ptr)))0) ugu_value;				\
	if (raw_copy_from_user(&ugu_value, ptr, sizeof(ugu_value)))		\
		goto label;							\
	(x) = ugu_value;							\
} while (0)

#define unsafe_copy_to_user(to, from, n, label)					\
do {										\
	if (raw_copy_to_user(to, from, n))					\
		goto label;							\
} while (0)

#define unsafe_copy_from_user(to, from, n, label)				\
do {										\
	if (raw_copy_from_user(to, from, n))					\
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
