/* SPDX-License-Identifier: GPL-2.0-only */
/* The server is compiled without FPU instructions and never uses them. */
#ifndef _ASM_L4_FPU_API_H
#define _ASM_L4_FPU_API_H

#include <asm/page.h>
#include <asm/fpu/types.h>

int fpu__exception_code(struct fpu *fpu, int trap_nr);
static inline void fpu_reset_from_exception_fixup(void) { }

#endif
