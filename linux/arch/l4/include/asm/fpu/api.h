/* SPDX-License-Identifier: GPL-2.0-only */
/* The server is compiled without FPU instructions and never uses them. */
#ifndef _ASM_L4_FPU_API_H
#define _ASM_L4_FPU_API_H

#include <asm/fpu/types.h>

static inline void fpu_reset_from_exception_fixup(void) { }

#endif
