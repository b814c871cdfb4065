/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs and core files are x86's, of 64 and of 32 bits. */
#include <asm/msr.h>
#include <asm/processor.h>
#include <x86/include/asm/elf.h>
