// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which function a call that bypasses entry and exit is given to.
 */
#include <linux/cache.h>
#include <linux/syscalls.h>
#include <asm/unistd.h>

#include "bypass.h"

/* Linux's own functions; these do not look at the registers that they are called with. */
asmlinkage long __x64_sys_getpid(const struct pt_regs *unused);
asmlinkage long __x64_sys_gettid(const struct pt_regs *unused);
asmlinkage long __x64_sys_getppid(const struct pt_regs *unused);

#define DIRECT(function) ((ukl_call_t *)(function))

/* By its number; ukl_bypass() has looked that it is one. */
ukl_call_t *const ukl_calls[UKL_CALLS] __cacheline_aligned = {
	[0 ... __NR_syscalls - 1] = ukl_by_registers,
#ifdef CONFIG_UKL_SHORTCUTS
	[__NR_syscalls ... UKL_CALLS - 1] = ukl_by_full_entry,
	[UKL_SOCKET_READ] = DIRECT(ukl_socket_read),
	[UKL_SOCKET_WRITE] = DIRECT(ukl_socket_write),
#endif

	[__NR_rt_sigreturn] = ukl_by_full_entry,
	[__NR_clone] = ukl_by_full_entry,
	[__NR_clone3] = ukl_by_full_entry,
	[__NR_fork] = ukl_by_full_entry,
	[__NR_vfork] = ukl_by_full_entry,
	[__NR_execve] = ukl_by_full_entry,
	[__NR_execveat] = ukl_by_full_entry,

	[__NR_read] = DIRECT(ksys_read),
	[__NR_write] = DIRECT(ksys_write),
	[__NR_getpid] = DIRECT(__x64_sys_getpid),
	[__NR_gettid] = DIRECT(__x64_sys_gettid),
	[__NR_getppid] = DIRECT(__x64_sys_getppid),
};
