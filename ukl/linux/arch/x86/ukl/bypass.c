// SPDX-License-Identifier: GPL-2.0-only
/*
 * The path and the function of each call that bypasses entry and exit.
 */
#include <linux/cache.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/syscalls.h>
#include <asm/unistd.h>

#include "bypass.h"

/* Indexed by the call number, which ukl_bypass() has checked. */
ukl_way_t *const ukl_ways[UKL_CALLS] __cacheline_aligned = {
	[0 ... __NR_syscalls - 1] = ukl_by_registers,
#ifdef CONFIG_UKL_SHORTCUTS
	[__NR_syscalls ... UKL_CALLS - 1] = ukl_full,
	[UKL_SOCKET_READ] = ukl_by_arguments,
	[UKL_SOCKET_WRITE] = ukl_by_arguments,
	[UKL_SOCKET_WRITEV] = ukl_by_arguments,
#endif

	/* These read or set all saved registers. */
	[__NR_rt_sigreturn] = ukl_full,
	[__NR_clone] = ukl_full,
	[__NR_clone3] = ukl_full,
	[__NR_fork] = ukl_full,
	[__NR_vfork] = ukl_full,
	[__NR_execve] = ukl_full,
	[__NR_execveat] = ukl_full,
	/* These show them to a tracer without checking the thread's flags first. */
	[__NR_exit] = ukl_full,
	[__NR_exit_group] = ukl_full,

	[__NR_read] = ukl_by_arguments,
	[__NR_write] = ukl_by_arguments,
	[__NR_getpid] = ukl_leaf,
	[__NR_gettid] = ukl_leaf,
	[__NR_getppid] = ukl_leaf,
};

/*
 * The number of a process or thread in the name space of this one, as __task_pid_nr_ns() has
 * it, without the cases that these calls never have.
 */
static __always_inline long ukl_number(struct pid *pid)
{
	struct pid_namespace *ns = ns_of_pid(task_pid(current));
	struct upid *here;

	if (!pid || pid->level < ns->level)
		return 0;
	here = &pid->numbers[ns->level];
	return here->ns == ns ? here->nr : 0;
}

/* As ukl_leaf requires; interrupts are off or soft-masked, which makes them RCU readers. */
#define LEAF static noinstr __attribute__((no_caller_saved_registers)) long

LEAF ukl_getpid(void)
{
	return ukl_number(task_tgid(current));
}

LEAF ukl_gettid(void)
{
	return ukl_number(task_pid(current));
}

LEAF ukl_getppid(void)
{
	return ukl_number(task_tgid(rcu_dereference_sched(current->real_parent)));
}

/* The functions of the paths that do not use Linux's table. */
const void *const ukl_calls[UKL_CALLS] __cacheline_aligned = {
#ifdef CONFIG_UKL_SHORTCUTS
	[UKL_SOCKET_READ] = ukl_socket_read,
	[UKL_SOCKET_WRITE] = ukl_socket_write,
	[UKL_SOCKET_WRITEV] = ukl_socket_writev,
#endif
	[__NR_read] = ksys_read,
	[__NR_write] = ksys_write,
	[__NR_getpid] = ukl_getpid,
	[__NR_gettid] = ukl_gettid,
	[__NR_getppid] = ukl_getppid,
};
