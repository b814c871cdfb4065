// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which executables are applications in ring 0, and what their entries need.
 */
#define pr_fmt(fmt) "ukl: " fmt

#include <linux/capability.h>
#include <linux/elf.h>
#include <linux/fs.h>
#include <linux/sched/signal.h>
#include <asm/cpu_entry_area.h>
#include <asm/cpufeature.h>
#include <asm/desc.h>
#include <asm/ukl.h>
#include <asm/vdso.h>

/* The note of an application: the entry that it was linked against. */
#define UKL_NOTE_NAME	"UKL"
#define UKL_NOTE_TYPE	1
/* All notes are in one segment; ours is searched in this many bytes of it. */
#define UKL_NOTES_SIZE	256

struct ukl_note {
	Elf64_Nhdr header;
	char name[sizeof(UKL_NOTE_NAME)];
	u64 entry;
} __packed __aligned(4);

static bool is_ours(const struct ukl_note *note)
{
	return note->header.n_namesz == sizeof(note->name) &&
	       note->header.n_descsz == sizeof(note->entry) &&
	       note->header.n_type == UKL_NOTE_TYPE &&
	       memcmp(note->name, UKL_NOTE_NAME, sizeof(note->name)) == 0;
}

int arch_elf_pt_proc(void *ehdr, void *phdr, struct file *elf, bool is_interp,
		     struct arch_elf_state *state)
{
	const struct elf_phdr *segment = phdr;
	char notes[UKL_NOTES_SIZE] __aligned(4);
	loff_t pos = segment->p_offset;
	ssize_t length;
	u64 at = 0;

	/* The 32-bit headers differ after these two words. */
	if (((char *)ehdr)[EI_CLASS] != ELFCLASS64 || segment->p_type != PT_NOTE || is_interp)
		return 0;
	length = kernel_read(elf, notes, min_t(u64, segment->p_filesz, sizeof(notes)), &pos);
	while (length >= 0 && at + sizeof(struct ukl_note) <= length) {
		const struct ukl_note *note = (void *)notes + at;

		if (is_ours(note))
			state->entry = note->entry;
		at += sizeof(note->header) + ALIGN((u64)note->header.n_namesz, 4) +
		      ALIGN((u64)note->header.n_descsz, 4);
	}
	return 0;
}

/* Exec can still refuse: 0, or why this file must not run in ring 0. */
int arch_check_elf(void *ehdr, bool has_interpreter, void *interp_ehdr,
		   struct arch_elf_state *state)
{
	if (!state->entry)
		return 0;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (state->entry != (unsigned long)ukl_syscall) {
		pr_notice("the application was built for another kernel\n");
		return -ENOEXEC;
	}
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

/*
 * An application has executed SYSCALL: the vDSO may, when it has no faster
 * method; other code has not been built for ring 0. The registers are wrong
 * for SYSRET, so the return is by IRET, which restores the ring.
 */
int ukl_syscall_instruction(struct pt_regs *regs, int nr)
{
	const struct vdso_image *image = current->mm->context.vdso_image;
	unsigned long vdso = (unsigned long)current->mm->context.vdso;

	regs->r11 = 0;
	if (image && regs->ip - vdso < image->size)
		return nr;
	pr_notice("%s[%d] executed SYSCALL at %lx; build it with ./keel ukl build\n",
		  current->comm, task_pid_nr(current), regs->ip);
	force_fatal_sig(SIGSYS);
	return -1;
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
