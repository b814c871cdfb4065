/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs and core files are x86's, of 64 and of 32 bits. */
#ifndef _ASM_L4_ELF_H
#define _ASM_L4_ELF_H

#include <asm/msr.h>
#include <asm/processor.h>
#include <x86/include/asm/elf.h>

#endif
