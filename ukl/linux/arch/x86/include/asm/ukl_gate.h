/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The gate of a program that is linked with ukl/'s libc: two words of its memory, which who
 * executes it fills in. Its system calls jump to the first one, or are the instruction if that is
 * 0. So one file is an ordinary process, an application in ring 0 and a program in the server on
 * Keel.
 *
 * A note in the file says where they are: they are the note's own description (ukl/libc/note.s).
 * No other note can be written to, so it has a segment of its own.
 */
#ifndef _ASM_UKL_GATE_H
#define _ASM_UKL_GATE_H

#include <linux/elf.h>
#include <linux/fs.h>
#include <linux/uaccess.h>

#define UKL_HAS_SHORTCUTS IS_ENABLED(CONFIG_UKL_SHORTCUTS)

struct ukl_gate {
	u64 entry;	/* the address of the entry, or 0 */
	u64 shortcuts;	/* 1: the shortcuts of ukl.h are there */
};

struct ukl_note {
	Elf64_Nhdr header;
	char name[4];
	struct ukl_gate gate;
};

/* Returns the address of the gate before relocation if this segment is its note; 0 otherwise. */
static inline unsigned long ukl_gate_of(struct file *file, const struct elf64_phdr *segment)
{
	static const struct ukl_note ours = {
		.header = { sizeof(ours.name), sizeof(ours.gate), 1 }, .name = "UKL"
	};
	loff_t at = segment->p_offset;
	struct ukl_note note;

	if (segment->p_type != PT_NOTE || !(segment->p_flags & PF_W) ||
	    kernel_read(file, &note, sizeof(note), &at) != sizeof(note) ||
	    memcmp(&note, &ours, offsetof(struct ukl_note, gate)))
		return 0;
	return segment->p_vaddr + offsetof(struct ukl_note, gate);
}

/* Fills in the gate of the current process; 0 or -EFAULT. The address is the file's: any. */
static inline int ukl_gate_open(unsigned long address, void (*entry)(void), bool shortcuts)
{
	struct ukl_gate gate = { (unsigned long)entry, shortcuts };

	return copy_to_user((void __user *)address, &gate, sizeof(gate)) ? -EFAULT : 0;
}

#endif
