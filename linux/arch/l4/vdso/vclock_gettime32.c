// SPDX-License-Identifier: GPL-2.0-only
/* The clocks of 32-bit programs, without kernel headers that need 64 bits. */
#define _ASM_L4_IO_H
#define _ASM_L4_IRQFLAGS_H
#include <asm-generic/irqflags.h>
#include "../../x86/entry/vdso/vdso32/vclock_gettime.c"
