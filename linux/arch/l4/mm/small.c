// SPDX-License-Identifier: GPL-2.0-only
/*
 * Small address spaces. Residence (keel.place=i386=resident): the spaces of 32-bit programs show
 * the server in their upper half, which 32-bit code cannot name, so that it serves them there.
 * Windows (keel.place=i386=small): 32-bit programs in windows of the server's tables, whose lower
 * half is empty. The micro-kernel changes to them and back by segments, without a change of tables.
 * A program gets a window at exec, its forks get windows of their own, and each mm gives its back
 * with its L4 task. What is in the window is laid out for its size: the stack at its end, mappings
 * 128 MB below. Who reaches outside, by a mapping that had no room for example, goes on in its own
 * space, without being told; who finds no window free begins there. The server's task is then not
 * for programs (kernel/inside.c), which could read all windows.
 */
#include <linux/bitmap.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <asm/l4.h>

/* Windows are multiples of this; there are so many in 4 GB. The first GB has none, nor NULL. */
#define UNIT_LOG2 28
#define UNITS (1 << (KEEL_SMALL_ALL - UNIT_LOG2))
#define FIRST_UNIT 4

static bool l4_small __ro_after_init, l4_resident __ro_after_init;
static DECLARE_BITMAP(l4_units, UNITS);
static DEFINE_SPINLOCK(l4_units_lock);	/* protects that */
static unsigned int l4_small_mb = SZ_256M / SZ_1M;
static const unsigned int l4_small_least = SZ_256M / SZ_1M, l4_small_most = SZ_1G / SZ_1M;

/* Whether the server's lower half is for windows, or for nothing: no program is in its task. */
bool l4_small_is_on(void)
{
	return l4_small || l4_resident;
}

/*
 * keel.place=i386=small or =resident; returns false for another word of keel.place. Beside Linux in
 * supervisor mode its tables are those of all processes.
 */
bool __init l4_small_begin(const char *word)
{
	bool small = !strcmp(word, "i386=small") && !keel_entry;
	bool resident = !strcmp(word, "i386=resident") && !keel_entry;

	l4_small |= small;
	l4_resident |= resident;
	return small || resident;
}

/* Takes a window of 2^log2 bytes. Returns it as thread_schedule names it, or 0. */
static unsigned long l4_window_alloc(unsigned int log2)
{
	unsigned int count = 1 << (log2 - UNIT_LOG2), unit;
	unsigned long flags;

	spin_lock_irqsave(&l4_units_lock, flags);
	unit = bitmap_find_next_zero_area(l4_units, UNITS, FIRST_UNIT, count, count - 1);
	if (unit < UNITS)
		bitmap_set(l4_units, unit, count);
	spin_unlock_irqrestore(&l4_units_lock, flags);
	if (unit < UNITS)
		return (unsigned long)unit << UNIT_LOG2 | log2;
	pr_notice_once("keel: no window is free: a 32-bit program begins in a space of its own\n");
	return 0;
}

static unsigned int l4_window_log2(unsigned long window)
{
	return window & ((1UL << KEEL_SMALL_MIN_LOG2) - 1);
}

/* exec of a 32-bit program, whose mm is new. */
void l4_small_exec(void)
{
	current->mm->context.resident = l4_resident;
	if (l4_small)
		current->mm->context.window = l4_window_alloc(ilog2(l4_small_mb) + ilog2(SZ_1M));
}

/* The mm of a fork has the window of the one that it is a copy of, and gets another one. */
void l4_small_fork(struct mm_struct *mm)
{
	if (mm->context.window)
		mm->context.window = l4_window_alloc(l4_window_log2(mm->context.window));
}

/* The L4 task of an mm is deleted, and its window with it. */
void l4_small_end(struct mm_struct *mm)
{
	unsigned long window = mm->context.window, flags;

	if (!window)
		return;
	mm->context.window = 0;
	spin_lock_irqsave(&l4_units_lock, flags);
	bitmap_clear(l4_units, window >> UNIT_LOG2, 1 << (l4_window_log2(window) - UNIT_LOG2));
	spin_unlock_irqrestore(&l4_units_lock, flags);
}

/*
 * Puts a new lthread of the mm into its window. It stays in its own space where segments have no
 * limits, or where the server has no kmem for a table.
 */
void l4_small_thread(struct mm_struct *mm, unsigned long thread)
{
	unsigned long status = keel_set_reach(thread, mm->context.window);

	if (status)
		pr_notice_once("keel: 32-bit programs are in spaces of their own: %s, status %ld\n",
			       status == KEEL_STATUS(KEEL_SIDE_CALL, KEEL_ERROR_NOT_SUPPORTED) ?
			       "segments have no limits here" : "windows are refused",
			       (long)status);
}

/* The end of what a 32-bit program's stack and mappings are laid out in. */
unsigned long l4_layout_32bit(void)
{
	unsigned long window = current->mm ? current->mm->context.window : 0;

	return window ? 1UL << l4_window_log2(window) : IA32_PAGE_OFFSET;
}

static struct ctl_table l4_small_table[] = {
	{
		.procname = "small_window_mb",	/* of programs that begin from now on */
		.data = &l4_small_mb,
		.maxlen = sizeof(l4_small_mb),
		.mode = 0644,
		.proc_handler = proc_douintvec_minmax,
		.extra1 = (void *)&l4_small_least,
		.extra2 = (void *)&l4_small_most,
	},
	{ }
};

static int __init l4_small_init(void)
{
	if (l4_small)
		register_sysctl("keel", l4_small_table);
	return 0;
}
fs_initcall(l4_small_init);
