// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which function a call that bypasses entry and exit is given to.
 */
#include <linux/cache.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/syscalls.h>
#include <asm/unistd.h>

#include "bypass.h"

/* In the first name space of processes, the one that a thread's numbers are kept for. */
static __always_inline bool has_own_numbers(void)
{
	return task_pid(current)->level == 0;
}

static long direct_getpid(void)
{
	return likely(has_own_numbers()) ? current->tgid : task_tgid_vnr(current);
}

static long direct_gettid(void)
{
	return likely(has_own_numbers()) ? current->pid : task_pid_vnr(current);
}

static long direct_getppid(void)
{
	struct task_struct *parent;
	long number;

	rcu_read_lock();
	parent = rcu_dereference(current->real_parent);
	number = likely(has_own_numbers()) ? parent->tgid : task_tgid_vnr(parent);
	rcu_read_unlock();
	return number;
}

#define DIRECT(function) ((ukl_call_t *)(function))

/* By its number; ukl_bypass() has looked that it is one. */
ukl_call_t *const ukl_calls[__NR_syscalls] __cacheline_aligned = {
	[0 ... __NR_syscalls - 1] = ukl_by_registers,

	[__NR_rt_sigreturn] = ukl_by_full_entry,
	[__NR_clone] = ukl_by_full_entry,
	[__NR_clone3] = ukl_by_full_entry,
	[__NR_fork] = ukl_by_full_entry,
	[__NR_vfork] = ukl_by_full_entry,
	[__NR_execve] = ukl_by_full_entry,
	[__NR_execveat] = ukl_by_full_entry,

	[__NR_read] = DIRECT(ksys_read),
	[__NR_write] = DIRECT(ksys_write),
	[__NR_getpid] = DIRECT(direct_getpid),
	[__NR_gettid] = DIRECT(direct_gettid),
	[__NR_getppid] = DIRECT(direct_getppid),
};
