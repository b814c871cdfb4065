/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bypass: for a number of its calls a thread skips the work of entry and exit
 * for tracers, filters and audit, and work that was not requested. The count is
 * above the flags in the thread's own status word, which only the thread writes.
 */
#ifndef _UKL_BYPASS_H
#define _UKL_BYPASS_H

#define UKL_BYPASS_SHIFT	8
#define UKL_BYPASS_MOST		0xffffff
/* The word is this or more while calls are left. */
#define UKL_BYPASS_ONE		(1 << UKL_BYPASS_SHIFT)

/* The option of arch_prctl, which ukl.h has for applications. */
#define ARCH_UKL_BYPASS		0x554b

/*
 * Calls that only applications have, and only in a call that bypasses. Linux's own numbers end far
 * below; those in between take the full entry, which knows none of them.
 */
#define UKL_SOCKET_READ		1000
#define UKL_SOCKET_WRITE	1001
#define UKL_SOCKET_WRITEV	1002
#ifdef CONFIG_UKL_SHORTCUTS
#define UKL_CALLS		1003
#else
#define UKL_CALLS		__NR_syscalls
#endif

#ifndef __ASSEMBLY__

#include <linux/sched.h>
#include "bypass_host.h"

/* How a call that bypasses goes to its function, or that it does not. */
typedef void ukl_way_t(void);
ukl_way_t ukl_by_registers, ukl_by_arguments, ukl_leaf, ukl_full;

long ukl_socket_read(unsigned int fd, char __user *buffer, size_t count);
long ukl_socket_write(unsigned int fd, const char __user *buffer, size_t count);
long ukl_socket_writev(unsigned int fd, const struct iovec __user *pieces, size_t count);

static inline long ukl_bypass_calls(struct task_struct *task, unsigned long calls)
{
	unsigned int *status = &task_thread_info(task)->status;

	if (task != current || calls > UKL_BYPASS_MOST || !ukl_is_application(task))
		return -EINVAL;
	*status = (*status & (UKL_BYPASS_ONE - 1)) | calls << UKL_BYPASS_SHIFT;
	return 0;
}

#endif
#endif /* _UKL_BYPASS_H */
