/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs and core files are x86-64's. */
#ifndef _ASM_L4_ELF_H
#define _ASM_L4_ELF_H

#include <asm/ptrace.h>
#include <asm/auxvec.h>
#include <asm/processor.h>
#include <x86/include/asm/user.h>

typedef unsigned long elf_greg_t;
#define ELF_NGREG (sizeof(struct user_regs_struct) / sizeof(elf_greg_t))
typedef elf_greg_t elf_gregset_t[ELF_NGREG];
typedef struct user_i387_struct elf_fpregset_t;

#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define ELF_ARCH EM_X86_64
#define elf_check_arch(x) ((x)->e_machine == EM_X86_64)

#define R_X86_64_NONE 0
#define R_X86_64_64 1
#define R_X86_64_PC32 2
#define R_X86_64_PLT32 4
#define R_X86_64_32 10
#define R_X86_64_32S 11
#define R_X86_64_PC64 24

#define CORE_DUMP_USE_REGSET
#define ELF_EXEC_PAGESIZE PAGE_SIZE
#define ELF_ET_DYN_BASE (DEFAULT_MAP_WINDOW / 3 * 2)

extern u32 elf_hwcap2;
#define ELF_HWCAP (boot_cpu_data.x86_capability[CPUID_1_EDX])
#define ELF_HWCAP2 (elf_hwcap2)
#define ELF_PLATFORM ("x86_64")

struct keel_frame;
void l4_clear_registers(struct task_struct *task);
#define ELF_PLAT_INIT(regs, load_addr) l4_clear_registers(current)

#define SET_PERSONALITY(ex) do { } while (0)
#define elf_read_implies_exec(ex, executable_stack) false

/* The width of the random stack offset in pages, as on x86-64. */
#define __STACK_RND_MASK(is32bit) ((is32bit) ? 0x7ff : 0x3fffff)
#define STACK_RND_MASK __STACK_RND_MASK(0)

static inline int mmap_is_ia32(void)
{
	return 0;
}

static inline bool in_32bit_syscall(void)
{
	return false;
}

unsigned long task_size_32bit(void);
unsigned long task_size_64bit(int full_addr_space);
unsigned long get_mmap_base(int is_legacy);
bool mmap_address_hint_valid(unsigned long addr, unsigned long len);
unsigned long get_sigframe_size(void);

extern unsigned int vdso64_enabled;
#define ARCH_DLINFO							\
do {									\
	if (vdso64_enabled)						\
		NEW_AUX_ENT(AT_SYSINFO_EHDR,				\
			    (unsigned long)current->mm->context.vdso);	\
	NEW_AUX_ENT(AT_MINSIGSTKSZ, get_sigframe_size());		\
} while (0)

#define ARCH_HAS_SETUP_ADDITIONAL_PAGES 1
struct linux_binprm;
int arch_setup_additional_pages(struct linux_binprm *bprm, int uses_interp);

/* x86's mmap code aligns for one old processor unless flags is negative. */
enum align_flags {
	ALIGN_VA_32 = BIT(0),
	ALIGN_VA_64 = BIT(1),
};

struct va_alignment {
	int flags;
	unsigned long mask;
	unsigned long bits;
} ____cacheline_aligned;

extern struct va_alignment va_align;
unsigned long align_vdso_addr(unsigned long addr);

#endif
