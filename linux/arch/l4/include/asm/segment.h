/* SPDX-License-Identifier: GPL-2.0-only */
/* While Linux runs, a program's selectors are in its frame, where x86's code finds them. */
#ifndef _ASM_L4_SEGMENT_H
#define _ASM_L4_SEGMENT_H

#include <x86/include/asm/segment.h>

#ifndef __ASSEMBLY__

struct task_struct;

/* The frame's word of selectors. */
struct l4_selectors {
	unsigned short ds, es, fs, gs;
};
struct l4_selectors *l4_selectors(struct task_struct *task);
/* Does what a load of the register does: the base becomes that of the descriptor. */
void l4_load_selector(unsigned short *which, unsigned int selector);

#undef savesegment
#undef loadsegment
#define savesegment(seg, value) ((value) = l4_selectors(current)->seg)
#define loadsegment(seg, value) l4_load_selector(&l4_selectors(current)->seg, value)

#endif
#endif
