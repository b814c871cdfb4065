// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which executables are applications in ring 0, and what their entries need.
 */
#define pr_fmt(fmt) "ukl: " fmt

#include <linux/capability.h>
#include <linux/elf.h>
#include <linux/fs.h>
#include <asm/cpu_entry_area.h>
#include <asm/cpufeature.h>
#include <asm/desc.h>
#include <asm/ukl.h>
#include <asm/ukl_gate.h>

/* A file is an application if one of its segments is the note of a gate. */
int arch_elf_pt_proc(void *ehdr, void *phdr, struct file *elf, bool is_interp,
		     struct arch_elf_state *state)
{
	/* The 32-bit headers differ. */
	if (((char *)ehdr)[EI_CLASS] == ELFCLASS64 && !is_interp)
		state->gate = ukl_gate_of(elf, phdr) ?: state->gate;
	return 0;
}

/* Exec can still refuse: 0, or why this file must not run in ring 0. */
int arch_check_elf(void *ehdr, bool has_interpreter, void *interp_ehdr,
		   struct arch_elf_state *state)
{
	if (!state->gate)
		return 0;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (has_interpreter) {
		pr_notice("an application must be linked statically\n");
		return -ENOEXEC;
	}
	if (boot_cpu_has(X86_FEATURE_SMEP) || boot_cpu_has(X86_FEATURE_SMAP)) {
		pr_notice("applications need clearcpuid=smep,smap on the command line\n");
		return -ENOEXEC;
	}
	return 0;
}

/* The program is mapped, `bias` above its addresses in the file: 0, or exec fails. */
int ukl_exec(const struct arch_elf_state *state, unsigned long bias)
{
	if (!state->gate)
		return 0;
	return ukl_gate_open(state->gate + bias, ukl_syscall, UKL_HAS_SHORTCUTS);
}

/* Runs when all gates are set and the processor has its stacks: makes each gate name a stack. */
void __init ukl_setup_gates(gate_desc *table)
{
	int i;

	BUILD_BUG_ON(IST_INDEX_UKL <= IST_INDEX_VC);
	for (i = 0; i < IDT_ENTRIES; i++)
		if (!table[i].bits.ist)
			table[i].bits.ist = IST_INDEX_UKL + 1;
}

void ukl_setup_stack(struct tss_struct *tss)
{
	struct entry_stack *stack = cpu_entry_stack(raw_smp_processor_id());

	tss->x86_tss.ist[IST_INDEX_UKL] = (unsigned long)(stack + 1) - UKL_STACK_DEPTH;
}
