/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs and core files are x86's, of 64 and of 32 bits. */
#include <asm/msr.h>
#include <asm/processor.h>
#include <x86/include/asm/elf.h>

/* There is no 32-bit code where a program was asked to run (kernel/place.c). */
#undef compat_elf_check_arch
#define compat_elf_check_arch(x)						\
	(elf_check_arch_ia32(x) && current->thread.place <= KEEL_LINUX_PLACE_PROCESS)
