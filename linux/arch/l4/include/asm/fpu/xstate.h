/* SPDX-License-Identifier: GPL-2.0-only */
/* What x86's register sets ask for. No state component is enabled on demand. */
#ifndef _ASM_L4_FPU_XSTATE_H
#define _ASM_L4_FPU_XSTATE_H

#include <linux/regset.h>
#include <asm/fpu/types.h>
#include <asm/hypercall.h>
#include <asm/user.h>

#define mxcsr_feature_mask 0xffff

enum { XSTATE_COPY_FP, XSTATE_COPY_FX, XSTATE_COPY_XSAVE };

void update_regset_xstate_info(unsigned int size, u64 xstate_mask);
void l4_put_xstate(struct membuf to, struct task_struct *task, int format);
int l4_get_xstate(struct fpu *fpu, const struct xregs_state *from);

#endif
