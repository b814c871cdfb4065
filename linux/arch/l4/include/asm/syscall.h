/* SPDX-License-Identifier: GPL-2.0-only */
/* Arguments and results are in the frame, in the layout of x86's pt_regs. */
#include <x86/include/asm/syscall.h>

bool arch_syscall_is_vdso_sigreturn(struct pt_regs *regs);
