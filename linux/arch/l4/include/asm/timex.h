/* SPDX-License-Identifier: GPL-2.0-only */
/* Cycles are those of the time stamp counter, as on x86. */
#include <x86/include/asm/timex.h>
/* Its frequency is known: no other timer measures it. */
#undef ARCH_HAS_READ_CURRENT_TIMER
