// SPDX-License-Identifier: GPL-2.0-only
/*
 * Small address spaces. Residence (keel.place=i386=resident): the spaces of 32-bit programs show
 * the server in their upper half, which 32-bit code cannot name, so that it serves them there.
 * Windows (keel.place=i386=small): 32-bit programs in windows of the server's tables, whose lower
 * half is empty. The micro-kernel changes to them and back by segments, without a change of tables.
 * A program gets a window at exec, its forks get windows of their own, and each mm gives its back
 * with its L4 task. What is in the window is laid out for its size: the stack at its end, mappings
 * 128 MB below. Who reaches outside, by a mapping that had no room for example, goes on in its own
 * space, without being told. If no window is free the program that has not run for longest goes on
 * in its own space, too; its forks get windows again. The server's task is then not for programs
 * (kernel/inside.c), which could read all windows.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <asm/l4.h>

/* Windows are multiples of this; there are so many in 4 GB. The first GB has none, nor NULL. */
#define UNIT_LOG2 28
#define UNITS (1 << (KEEL_SMALL_ALL - UNIT_LOG2))
#define FIRST_UNIT 4

static bool l4_small __ro_after_init, l4_resident __ro_after_init;
static struct mm_struct *l4_owners[UNITS];	/* who has each unit in its window, or NULL */
static DEFINE_SPINLOCK(l4_windows_lock);	/* protects that, and the windows of all mms */
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

/* Makes the mm the owner of all units of another's, NULL for free ones, from `unit` to `end`. */
static void l4_units_pass(unsigned int unit, unsigned int end, struct mm_struct *from,
			  struct mm_struct *to)
{
	for (; unit < end; unit++)
		if (l4_owners[unit] == from)
			l4_owners[unit] = to;
}

/*
 * Returns the owner whose threads have not run for longest. One that has not run comes last: it is
 * about to, as a fork is. There is an owner.
 */
static struct mm_struct *l4_window_idle(void)
{
	struct task_struct *process, *task;
	struct mm_struct *mm, *idle = NULL;
	u64 ran[UNITS] = { }, oldest = U64_MAX;
	unsigned int unit;

	for_each_process_thread(process, task) {
		mm = READ_ONCE(task->mm);
		for (unit = FIRST_UNIT; mm && unit < UNITS; unit++)
			if (l4_owners[unit] == mm)
				ran[unit] = max(ran[unit], READ_ONCE(task->se.exec_start));
	}
	/* A time of 0 is the latest of all: 0 - 1 wraps around to the largest number on purpose. */
	for (unit = FIRST_UNIT; unit < UNITS; unit++)
		if (l4_owners[unit] && ran[unit] - 1 <= oldest) {
			oldest = ran[unit] - 1;
			idle = l4_owners[unit];
		}
	return idle;
}

/*
 * Takes the window of an mm. Its lthreads go on in their own space, those of threads that exit
 * and have no mm any more, too. A lthread that is just made waits for the lock, and gets no window.
 */
static void l4_window_revoke(struct mm_struct *mm)
{
	struct task_struct *process, *task;

	for_each_process_thread(process, task)
		if (mm->context.keel_task && task->thread.keel_thread &&
		    task->thread.keel_task == mm->context.keel_task) {
			pr_notice_once("keel: no window is free: %s[%d] goes on in a space of its own\n",
				       task->comm, task_pid_nr(task));
			keel_set_reach(task->thread.keel_thread, KEEL_SMALL_NONE);
		}
	mm->context.window = 0;
	l4_units_pass(FIRST_UNIT, UNITS, mm, NULL);
}

/* Gives the mm a window of 2^log2 bytes, another's if none is free. */
static void l4_window_alloc(struct mm_struct *mm, unsigned int log2)
{
	unsigned int count = 1 << (log2 - UNIT_LOG2), unit = FIRST_UNIT;
	unsigned long flags;

	spin_lock_irqsave(&l4_windows_lock, flags);
	rcu_read_lock();
	while (memchr_inv(&l4_owners[unit], 0, count * sizeof(*l4_owners))) {
		unit += count;
		if (unit == UNITS) {
			l4_window_revoke(l4_window_idle());
			unit = FIRST_UNIT;
		}
	}
	l4_units_pass(unit, unit + count, NULL, mm);
	mm->context.window = (unsigned long)unit << UNIT_LOG2 | log2;
	mm->context.layout = log2;
	rcu_read_unlock();
	spin_unlock_irqrestore(&l4_windows_lock, flags);
}

/* exec of a 32-bit program, whose mm is new. */
void l4_small_exec(void)
{
	current->mm->context.resident = l4_resident;
	if (l4_small)
		l4_window_alloc(current->mm, ilog2(l4_small_mb) + ilog2(SZ_1M));
}

/* The mm of a fork is laid out as the one that it is a copy of, and gets a window of its own. */
void l4_small_fork(struct mm_struct *mm)
{
	mm->context.window = 0;
	if (mm->context.layout)
		l4_window_alloc(mm, mm->context.layout);
}

/* The L4 task of an mm is deleted, and its window with it. */
void l4_small_end(struct mm_struct *mm)
{
	unsigned long flags;

	if (!mm->context.layout)
		return;
	spin_lock_irqsave(&l4_windows_lock, flags);
	mm->context.window = 0;
	l4_units_pass(FIRST_UNIT, UNITS, mm, NULL);
	spin_unlock_irqrestore(&l4_windows_lock, flags);
}

/*
 * Puts a new lthread of the mm into its window. It stays in its own space where segments have no
 * limits, or where the server has no kmem for a table. The task has the lthread's id already, so
 * that who takes the window finds it.
 */
void l4_small_thread(struct mm_struct *mm, unsigned long thread)
{
	unsigned long status, flags;

	spin_lock_irqsave(&l4_windows_lock, flags);
	status = keel_set_reach(thread, mm->context.window);
	spin_unlock_irqrestore(&l4_windows_lock, flags);
	if (status)
		pr_notice_once("keel: 32-bit programs are in spaces of their own: %s, status %ld\n",
			       status == KEEL_STATUS(KEEL_SIDE_CALL, KEEL_ERROR_NOT_SUPPORTED) ?
			       "segments have no limits here" : "windows are refused",
			       (long)status);
}

/*
 * The current thread goes on in 64-bit code, for which it leaves its window. Returns false if there
 * is none in its space, because that shows Linux.
 */
bool l4_small_leave(void)
{
	struct mm_struct *mm = current->mm;
	unsigned long flags;

	if (mm->context.window && current->thread.keel_thread) {
		spin_lock_irqsave(&l4_windows_lock, flags);
		keel_set_reach(current->thread.keel_thread, KEEL_SMALL_NONE);
		spin_unlock_irqrestore(&l4_windows_lock, flags);
	}
	return !mm->context.resident;
}

/* The end of what a 32-bit program's stack and mappings are laid out in. */
unsigned long l4_layout_32bit(void)
{
	unsigned int layout = current->mm ? current->mm->context.layout : 0;

	return layout ? 1UL << layout : IA32_PAGE_OFFSET;
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
