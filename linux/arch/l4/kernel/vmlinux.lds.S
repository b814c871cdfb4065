/* SPDX-License-Identifier: GPL-2.0-only */
/* The server's image: one segment, linked at the address where the root task maps it. */
#define RO_EXCEPTION_TABLE_ALIGN 16
#define RUNTIME_DISCARD_EXIT
#include <asm/page.h>
#include <asm/cache.h>
#include <asm-generic/vmlinux.lds.h>

OUTPUT_FORMAT("elf64-x86-64")
OUTPUT_ARCH(i386:x86-64)
ENTRY(_start)

PHDRS
{
	image PT_LOAD FLAGS(7);
}

SECTIONS
{
	. = CONFIG_L4_IMAGE_BASE;
	_text = .;
	_stext = .;
	.text : {
		HEAD_TEXT
		TEXT_TEXT
		SCHED_TEXT
		CPUIDLE_TEXT
		LOCK_TEXT
		KPROBES_TEXT
		IRQENTRY_TEXT
		SOFTIRQENTRY_TEXT
		/* Feature tests always run here, because no alternatives are patched. */
		*(.altinstr_aux)
	} :image
	_etext = .;

	. = ALIGN(PAGE_SIZE);
	_sdata = .;
	jiffies = jiffies_64;
	RO_DATA(PAGE_SIZE)
	RW_DATA(L1_CACHE_BYTES, PAGE_SIZE, THREAD_SIZE)
	/* The page of variables that the vDSO reads, where x86's header says. */
	. = ALIGN(PAGE_SIZE);
	__vvar_page = .;
	.vvar : {
		__vvar_begin = .;
#define EMIT_VVAR(name, offset)			\
		. = __vvar_begin + offset;	\
		*(.vvar_ ## name)
#include <asm/vvar.h>
#undef EMIT_VVAR
		. = __vvar_begin + PAGE_SIZE;
	}
	_edata = .;

	. = ALIGN(PAGE_SIZE);
	__init_begin = .;
	INIT_TEXT_SECTION(PAGE_SIZE)
	INIT_DATA_SECTION(16)
	.init.rodata : { *(.altinstructions) *(.altinstr_replacement) }
	.exit.text : { EXIT_TEXT }
	.exit.data : { EXIT_DATA }
	PERCPU_SECTION(L1_CACHE_BYTES)
	. = ALIGN(PAGE_SIZE);
	__init_end = .;

	BSS_SECTION(0, PAGE_SIZE, PAGE_SIZE)
	. = ALIGN(PAGE_SIZE);
	_end = .;

	STABS_DEBUG
	DWARF_DEBUG
	ELF_DETAILS
	DISCARDS
	/DISCARD/ : { *(.smp_locks) }
}
