/* SPDX-License-Identifier: GPL-2.0-only */
/* Software events only: the counters of the processor are not Linux's. */
#define perf_arch_fetch_caller_regs(regs, caller)			\
do {									\
	(regs)->ip = (caller);						\
	(regs)->sp = (unsigned long)__builtin_frame_address(0);		\
	(regs)->cs = __KERNEL_CS;					\
	(regs)->flags = 0;						\
} while (0)
