// SPDX-License-Identifier: GPL-2.0-only
/* Loading of modules: their memory, below 2 GB, and their relocations. */
#include <linux/elf.h>
#include <linux/kernel.h>
#include <linux/moduleloader.h>
#include <linux/vmalloc.h>
#include <asm/pgtable.h>

void *module_alloc(unsigned long size)
{
	return __vmalloc_node_range(size, 1, MODULES_VADDR, MODULES_END, GFP_KERNEL,
				    PAGE_KERNEL_EXEC, 0, NUMA_NO_NODE,
				    __builtin_return_address(0));
}

/* Stores a relocated value; false if it does not fit. */
static bool relocate(void *place, unsigned int type, s64 value)
{
	switch (type) {
	case R_X86_64_NONE:
		return true;
	case R_X86_64_64:
		*(u64 *)place = value;
		return true;
	case R_X86_64_PC64:
		*(u64 *)place = value - (u64)place;
		return true;
	case R_X86_64_32:
		*(u32 *)place = value;
		return value == (u32)value;
	case R_X86_64_32S:
		*(s32 *)place = value;
		return value == (s32)value;
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		value -= (u64)place;
		*(s32 *)place = value;
		return value == (s32)value;
	}
	return false;
}

int apply_relocate_add(Elf64_Shdr *sections, const char *strings, unsigned int symbols,
		       unsigned int section, struct module *module)
{
	const Elf64_Rela *rela = (void *)sections[section].sh_addr;
	const Elf64_Rela *end = rela + sections[section].sh_size / sizeof(*rela);
	void *base = (void *)sections[sections[section].sh_info].sh_addr;
	const Elf64_Sym *table = (void *)sections[symbols].sh_addr;

	for (; rela < end; rela++) {
		const Elf64_Sym *symbol = &table[ELF64_R_SYM(rela->r_info)];
		unsigned int type = ELF64_R_TYPE(rela->r_info);

		if (!relocate(base + rela->r_offset, type,
			      symbol->st_value + rela->r_addend)) {
			pr_err("%s: relocation %u of symbol %s cannot be done\n",
			       module->name, type, strings + symbol->st_name);
			return -ENOEXEC;
		}
	}
	return 0;
}
