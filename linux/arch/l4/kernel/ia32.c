// SPDX-License-Identifier: GPL-2.0-only
/*
 * 32-bit programs: what their selectors mean. A thread's own descriptors are stored into its
 * lthread before it runs; its selectors and their bases are in the frame. Their start, system
 * calls, signals, thread areas and the arguments of calls are served by x86's own files.
 */
#include <linux/elf.h>
#include <linux/nospec.h>
#include <asm/desc.h>
#include <asm/l4.h>

#define SELECTOR_INDEX_SHIFT 3

int force_personality32;

struct l4_selectors *l4_selectors(struct task_struct *task)
{
	return (struct l4_selectors *)&task->thread.frame->segments;
}

/* Returns the base that a selector stands for; it is 0 except for a thread's own descriptors. */
unsigned long x86_fsgsbase_read_task(struct task_struct *task, unsigned short selector)
{
	unsigned int number = selector >> SELECTOR_INDEX_SHIFT;

	if (number < GDT_ENTRY_TLS_MIN || number > GDT_ENTRY_TLS_MAX)
		return 0;
	number = array_index_nospec(number - GDT_ENTRY_TLS_MIN, GDT_ENTRY_TLS_ENTRIES);
	return get_desc_base(&task->thread.tls_array[number]);
}

/*
 * Stores the descriptor of a selector that a program may use: its own, or one that covers all.
 * Returns false if there is none.
 */
bool l4_descriptor(struct desc_struct *descriptor, unsigned short selector)
{
	unsigned int number = selector >> SELECTOR_INDEX_SHIFT;

	switch (selector & SEGMENT_TI_MASK ? 0 : number) {
	case GDT_ENTRY_DEFAULT_USER32_CS:
		*descriptor = (struct desc_struct)GDT_ENTRY_INIT(0xc0fb, 0, 0xfffff);
		return true;
	case GDT_ENTRY_DEFAULT_USER_CS:
		*descriptor = (struct desc_struct)GDT_ENTRY_INIT(0xa0fb, 0, 0xfffff);
		return true;
	case GDT_ENTRY_DEFAULT_USER_DS:
		*descriptor = (struct desc_struct)GDT_ENTRY_INIT(0xc0f3, 0, 0xfffff);
		return true;
	case GDT_ENTRY_TLS_MIN ... GDT_ENTRY_TLS_MAX:
		number = array_index_nospec(number - GDT_ENTRY_TLS_MIN, GDT_ENTRY_TLS_ENTRIES);
		*descriptor = current->thread.tls_array[number];
		return true;
	}
	return false;
}

void l4_load_selector(unsigned short *which, unsigned int selector)
{
	struct keel_frame *frame = current->thread.frame;
	unsigned long base = x86_fsgsbase_read_task(current, selector);

	*which = selector;
	if (which == &l4_selectors(current)->fs)
		frame->fs_base = base;
	else if (which == &l4_selectors(current)->gs)
		frame->gs_base = base;
}

/* x86's load_gs_index() calls this. */
asmlinkage void asm_load_gs_index(unsigned int selector)
{
	loadsegment(gs, selector);
}
