/* SPDX-License-Identifier: GPL-2.0-only */
/* No state component is ever enabled on demand. */
#ifndef _ASM_L4_FPU_XSTATE_H
#define _ASM_L4_FPU_XSTATE_H

#include <asm/fpu/types.h>
#include <asm/user.h>

void update_regset_xstate_info(unsigned int size, u64 xstate_mask);

#endif
