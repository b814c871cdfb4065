/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What applications at level 0 can ask of their kernel. In an ordinary program,
 * or on a kernel without the option, each function fails with EINVAL.
 */
#ifndef UKL_H
#define UKL_H

#include <sys/syscall.h>
#include <unistd.h>

/* arch_prctl's; the kernel's side is arch/x86/ukl/bypass.h. */
#define UKL_OPTION_BYPASS 0x554b
#define UKL_BYPASS_MOST 0xffffff

/*
 * For its next `calls` system calls, UKL_BYPASS_MOST at most, this thread leaves
 * out what the kernel does on entry and exit for tracers, filters and audit; where
 * it has one, it is not let off. 0 ends it. What is left is inherited by children
 * and kept by exec. The direction flag must be clear at a call, as the C ABI has it.
 */
static inline int ukl_bypass(unsigned int calls)
{
	return syscall(SYS_arch_prctl, UKL_OPTION_BYPASS, (unsigned long)calls);
}

#endif
