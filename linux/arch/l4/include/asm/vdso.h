/* SPDX-License-Identifier: GPL-2.0-only */
/* x86 files ask for this name. */
#ifndef _ASM_L4_VDSO_H
#define _ASM_L4_VDSO_H

#include <asm/page.h>

#endif
