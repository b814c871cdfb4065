/* SPDX-License-Identifier: GPL-2.0-only */
/* cpuid is the instruction of user mode after which nothing fetched before counts. */
#ifndef _ASM_L4_SYNC_CORE_H
#define _ASM_L4_SYNC_CORE_H

#include <asm/processor.h>

static inline void sync_core(void)
{
	cpuid_eax(0);
}
#define sync_core_before_usermode sync_core

#endif
