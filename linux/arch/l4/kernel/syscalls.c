// SPDX-License-Identifier: GPL-2.0-only
/*
 * arch_prctl(), with Keel's own options. x86's files have its other calls, such as rt_sigreturn().
 */
#include <linux/compat.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/prctl.h>
#include <asm/proto.h>
#include "../ukl/bypass.h"

#define XFEATURES 19	/* as in x86: the components that the processor's manual numbers */

/* Sets a segment base, which must be a user address. */
static long l4_set_base(unsigned long *base, unsigned long value)
{
	if (value >= TASK_SIZE_MAX)
		return -EPERM;
	*base = value;
	return 0;
}

COMPAT_SYSCALL_DEFINE2(arch_prctl, int, option, unsigned long, arg2)
{
	switch (option) {
	case ARCH_GET_CPUID:	/* CPUID cannot be made to fault */
		return 1;
	case ARCH_SET_CPUID:
		return -ENODEV;
	case ARCH_GET_XCOMP_SUPP:
	case ARCH_GET_XCOMP_PERM:
	case ARCH_GET_XCOMP_GUEST_PERM:
		return put_user(keel_kip->fpu_mask, (u64 __user *)arg2);
	case ARCH_REQ_XCOMP_PERM:	/* no component needs a permission */
	case ARCH_REQ_XCOMP_GUEST_PERM:
		return arg2 < XFEATURES ? -EOPNOTSUPP : -EINVAL;
	}
	return -EINVAL;
}

/* The part that a debugger may also request for another task. */
long do_arch_prctl_64(struct task_struct *task, int option, unsigned long arg2)
{
	struct keel_frame *frame = task->thread.frame;
	long error;

	switch (option) {
	case ARCH_SET_FS:
		error = l4_set_base(&frame->fs_base, arg2);
		if (!error && task->thread.loaded)
			l4_inside_load_base();
		return error;
	case ARCH_SET_GS:
		/* In the server it is Linux's own. */
		if (task->mm && task->mm->context.inside)
			return -EPERM;
		return l4_set_base(&frame->gs_base, arg2);
	case ARCH_GET_FS:
		if (task == current)
			l4_inside_store_base();
		return put_user(frame->fs_base, (unsigned long __user *)arg2);
	case ARCH_GET_GS:
		return put_user(frame->gs_base, (unsigned long __user *)arg2);
	case ARCH_UKL_BYPASS:
		return IS_ENABLED(CONFIG_UKL_BYPASS) ? ukl_bypass_calls(task, arg2) : -EINVAL;
	}
	return -EINVAL;
}

SYSCALL_DEFINE2(arch_prctl, int, option, unsigned long, arg2)
{
	long result;

	if (option == KEEL_LINUX_PRCTL_PLACE)
		return l4_place_next(arg2);
	/* A program in the server has no lthread for Keel's own options. */
	switch (current->mm->context.inside ? 0 : option) {
	case KEEL_LINUX_PRCTL_DISPATCH:
		return l4_thread_dispatch(current, arg2);
	case KEEL_LINUX_PRCTL_AREA:
		return l4_native_area();
	case KEEL_LINUX_PRCTL_NATIVE:
		return l4_native_serve((void __user *)arg2);
	case KEEL_LINUX_PRCTL_PAGER:
		return l4_thread_pager(arg2);
	}
	result = do_arch_prctl_64(current, option, arg2);
	return result == -EINVAL ? __do_compat_sys_arch_prctl(option, arg2) : result;
}

SYSCALL_DEFINE0(ni_syscall)
{
	return -ENOSYS;
}
