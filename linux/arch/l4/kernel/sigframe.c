// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where x86's kernel/signal.c writes a signal frame (asm/signal_setup.h): to the frame itself, in
 * the direct map, if it lies in one page. Else to a copy that is written back at the end: a word of
 * the frame that nobody sets keeps its value. The copy's memory stays until the thread is gone.
 * Both run in process context and may sleep; between them is a walk section (asm/tlbflush.h) if the
 * frame lies in one page, so nothing there may.
 */
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/sigframe.h>
#include <asm/signal_setup.h>
#include <asm/tlbflush.h>

#define L4_LARGEST_FRAME \
	max3(sizeof(struct rt_sigframe), sizeof(struct sigframe_ia32), sizeof(struct rt_sigframe_ia32))

static bool l4_frame_is_in_page(const void __user *frame, unsigned long size)
{
	return offset_in_page(frame) + size <= PAGE_SIZE;
}

/* Returns the memory to write a frame of `size` bytes to, until l4_frame_end(), or NULL. */
void *l4_frame_begin(void __user *frame, unsigned long size)
{
	struct thread_struct *thread = &current->thread;

	thread->signal_frame = frame;
	if (l4_frame_is_in_page(frame, size))
		return l4_user_place(frame, size, KEEL_FPAGE_WRITE);
	if (!thread->frame_copy)
		thread->frame_copy = kmalloc(L4_LARGEST_FRAME, GFP_KERNEL);
	if (!thread->frame_copy || WARN_ON_ONCE(size > L4_LARGEST_FRAME))
		return NULL;
	return copy_from_user(thread->frame_copy, frame, size) ? NULL : thread->frame_copy;
}

/*
 * Ends what l4_frame_begin() began, which returned `memory`. Returns the frame, or NULL if it could
 * not be written.
 */
void __user *l4_frame_end(void *memory, unsigned long size)
{
	void __user *frame = current->thread.signal_frame;

	if (l4_frame_is_in_page(frame, size)) {
		l4_walk_end();
		return frame;
	}
	return copy_to_user(frame, memory, size) ? NULL : frame;
}
