/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs and core files are x86's, of 64 and of 32 bits. */
#include <asm/msr.h>
#include <asm/processor.h>
#include <x86/include/asm/elf.h>

/* They are laid out in their windows, if they get some (mm/small.c). */
void l4_small_exec(void);
#undef COMPAT_SET_PERSONALITY
#define COMPAT_SET_PERSONALITY(ex)						\
	(set_personality_ia32((ex).e_machine == EM_X86_64), l4_small_exec())
/* Position-independent ones, and what is their heap then, begin there as well. */
#undef COMPAT_ELF_ET_DYN_BASE
#define COMPAT_ELF_ET_DYN_BASE (__TASK_UNMAPPED_BASE(l4_layout_32bit()) + 0x1000000)

/* There is no 32-bit code where a program was asked to run (kernel/place.c). */
#undef compat_elf_check_arch
#define compat_elf_check_arch(x)						\
	(elf_check_arch_ia32(x) &&						\
	 (current->thread.place & L4_PLACE_NEXT) <= KEEL_LINUX_PLACE_PROCESS)
/* The part of the word that says where: KEEL_LINUX_PLACE_*; the rest is in asm/l4.h. */
#define L4_PLACE_NEXT 3UL
