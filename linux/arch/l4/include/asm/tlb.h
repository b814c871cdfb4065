/* SPDX-License-Identifier: GPL-2.0-only */
/* The generic gathering of freed pages; asm/tlbflush.h says why no flush is due. */
#ifndef _ASM_L4_TLB_H
#define _ASM_L4_TLB_H

#include <asm/tlbflush.h>
#include <asm-generic/tlb.h>

#endif
