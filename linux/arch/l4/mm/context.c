// SPDX-License-Identifier: GPL-2.0-only
/*
 * The L4 task of an mm, and the reclaim of kmem. A task is created when a thread of the mm first
 * goes to user mode, and deleted with all its mappings and lthreads before the mm's pages are
 * freed. Task numbers are taken from the range that the root task gave to the server. l4_task_mutex
 * serialises creation; deletion takes context.lock of the mm. Functions run in process context;
 * those of the reclaim do not sleep, but take RCU and task locks and walk page tables in sections
 * (asm/tlbflush.h).
 */
#include <linux/bitmap.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/pgtable.h>
#include <linux/prandom.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

/* There are never more L4 tasks than processes, and pid_max is this by default. */
#define TASKS_MAX PID_MAX_DEFAULT

static DECLARE_BITMAP(l4_task_numbers, TASKS_MAX);
static unsigned int l4_next_number;
static DEFINE_MUTEX(l4_task_mutex);	/* serialises creation, not deletion */

/* Allocates a task number, round-robin, so that the versions of all numbers are used evenly. */
static int l4_number_alloc(void)
{
	unsigned int count = min(1UL << keel_start->task_log2, (unsigned long)TASKS_MAX);
	unsigned int number = find_next_zero_bit(l4_task_numbers, count, l4_next_number);

	if (number >= count)
		number = find_first_zero_bit(l4_task_numbers, count);
	if (number >= count)
		return -ENOMEM;
	set_bit(number, l4_task_numbers);
	l4_next_number = number + 1;
	return number;
}

static unsigned long l4_number_to_id(unsigned int number)
{
	return (keel_start->task_first + number) << KEEL_ID_TASK_SHIFT;
}

static unsigned int l4_id_to_number(unsigned long id)
{
	unsigned long task = (id >> KEEL_ID_TASK_SHIFT) & ((1UL << KEEL_ID_TASK_BITS) - 1);

	return task - keel_start->task_first;
}

/*
 * Creates the L4 task of an mm; 0 or -ENOMEM. Called with l4_task_mutex held. A number whose
 * versions are used up, which a process can cause by 2^20 threads, stays allocated: the next one is
 * tried. If kmem is used up, mappings are reclaimed.
 */
static int l4_task_make(struct mm_struct *mm)
{
	unsigned long flags = KEEL_TASK_NO_LTHREAD | l4_task_priority();
	unsigned long id, status;
	bool again = true;
	int number;

	if (mm->context.supervisor)
		flags |= KEEL_TASK_SUPERVISOR;
	if (mm->context.resident)
		flags |= KEEL_TASK_RESIDENT;
	do {
		number = l4_number_alloc();
		if (number < 0)
			return number;
		id = l4_number_to_id(number);
		status = keel_task_new(&id, flags, mm->context.area);
		while (l4_no_memory(status) && again) {
			again = l4_mm_reclaim();
			id = l4_number_to_id(number);
			status = keel_task_new(&id, flags, mm->context.area);
		}
	} while (status == KEEL_STATUS(KEEL_SIDE_CALL, KEEL_ERROR_RETIRED));
	if (status == KEEL_STATUS(KEEL_SIDE_CALL, KEEL_ERROR_DENIED) && mm->context.resident) {
		pr_notice_once("keel: 32-bit programs' spaces do not show Linux, whose task is not resident\n");
		mm->context.resident = false;
		clear_bit(number, l4_task_numbers);
		return l4_task_make(mm);
	}
	if (status) {
		pr_err("keel: no L4 task: status %ld\n", (long)status);
		clear_bit(number, l4_task_numbers);
		return -ENOMEM;
	}
	mm->context.keel_task = id;
	return 0;
}

/* Creates the mm's L4 task if it has none. Returns 0 or an error. May sleep. */
int l4_mm_prepare(struct mm_struct *mm)
{
	int error = 0;

	mutex_lock(&l4_task_mutex);
	if (!mm->context.keel_task)
		error = l4_task_make(mm);
	mutex_unlock(&l4_task_mutex);
	return error;
}

/*
 * A new mm has no L4 task; that of a fork is in supervisor mode as the one that it is a copy of.
 * The call of l4_tables_freed() gives it its first generation.
 */
int init_new_context(struct task_struct *task, struct mm_struct *mm)
{
	mm->context.keel_task = 0;
	mm->context.inside = false;
	l4_small_fork(mm);
	mm->context.area = 0;
	mm->context.last = 0;
	mm->context.queued = 0;
	mm->context.move_to = 0;
	mm->context.unmaps = 0;
	spin_lock_init(&mm->context.lock);
	l4_tables_freed(mm);
	return 0;
}

/* Deletes a task. If that fails the number stays allocated, so it is never used for two tasks. */
static void l4_task_delete(unsigned long id)
{
	unsigned long status = keel_task_new(&id, KEEL_TASK_INACTIVE, 0);

	if (WARN_ONCE(status, "keel: task %lx stays: status %ld\n", id, (long)status))
		keel_unmap_all(id);
	else
		clear_bit(l4_id_to_number(id), l4_task_numbers);
}

/*
 * Deletes the mm's L4 task: called early at exit (arch_exit_mmap()) and once more with the mm's
 * last reference. The space is deleted as a whole, so its queue need not be served. Code that takes
 * a page from the mm meanwhile waits for the lock, because a native lthread may still run in the
 * space and use that page.
 */
void destroy_context(struct mm_struct *mm)
{
	mm_context_t *context = &mm->context;

	spin_lock(&context->lock);
	if (context->inside)
		l4_inside_end(mm);
	else if (context->keel_task)
		l4_task_delete(context->keel_task);
	WRITE_ONCE(context->keel_task, 0);
	l4_small_end(mm);
	context->queued = 0;
	WRITE_ONCE(context->last, 0);
	spin_unlock(&context->lock);
}

/*
 * The reclaim. Mappings are a cache that page faults refill. When they have used up the kmem quota
 * a part of them is unmapped: the regions of 2 MB whose hash is in a pseudo-random window. Eviction
 * by age would be worse: a program that cycles through more pages than the quota holds would then
 * miss on each of them.
 */
/* The part of all regions that one window has. */
#define SHARES 16
#define SHARE (U32_MAX / SHARES + 1)
/* A reclaim ends when one MARGIN-th of the quota is free. */
#define MARGIN 32
/* Pages of kmem: more than any one call allocates. */
#define ENOUGH 16
/* Ranges in one call of keel_unmap(). */
#define RANGES 64
#define USER_END (PGD_KERNEL_START * PGDIR_SIZE)

/*
 * Returns the first entry of a PMD table from *at on, or NULL, and sets *at to its address. The
 * caller is in a walk section.
 */
static pmd_t *l4_next_regions(struct mm_struct *mm, unsigned long *at)
{
	unsigned long size;
	p4d_t p4d;
	pud_t pud;

	for (; *at < USER_END; *at = round_up(*at + 1, size)) {
		size = PGDIR_SIZE;
		p4d = READ_ONCE(*p4d_offset(pgd_offset(mm, *at), *at));
		if (!p4d_present(p4d))
			continue;
		size = PUD_SIZE;
		pud = READ_ONCE(*pud_offset(&p4d, *at));
		if (pud_present(pud))
			return pmd_offset(&pud, *at);
	}
	return NULL;
}

/*
 * Unmaps the regions of a space whose hash is in the window. A walk section covers at most 1 GB,
 * because other processors may wait for its end.
 */
static void l4_empty_window(struct mm_struct *mm, unsigned long task, u32 window)
{
	struct keel_unmap_range ranges[RANGES];
	unsigned long at = 0, end;
	unsigned int count;
	pmd_t *pmd;

	do {
		count = 0;
		l4_walk_begin();
		pmd = l4_next_regions(mm, &at);
		end = pmd ? round_up(at + 1, PUD_SIZE) : at;
		for (; at < end && count < RANGES; at += PMD_SIZE, pmd++)
			if (pmd_present(READ_ONCE(*pmd)) &&
			    (u32)(hash_64(task ^ at, 32) - window) < SHARE)
				ranges[count++] = (struct keel_unmap_range){ at, PTRS_PER_PTE };
		l4_walk_end();
		if (count)
			keel_unmap(task, ranges, count);
	} while (at < USER_END);
}

/*
 * Unmaps the window in each space with at least `least` bytes of page tables, and everything in
 * each space with more than `most`, which takes less time than a search. Returns half of the
 * average bytes of page tables. find_lock_task_mm() also finds the mm of a process whose first
 * thread has ended.
 */
static unsigned long l4_empty_spaces(u32 window, unsigned long least, unsigned long most)
{
	unsigned long id, tables, sum = 0, count = 1;
	struct task_struct *process, *task;

	rcu_read_lock();
	for_each_process(process) {
		task = find_lock_task_mm(process);
		if (!task)
			continue;
		id = READ_ONCE(task->mm->context.keel_task);
		tables = mm_pgtables_bytes(task->mm);
		task->mm->context.unmaps++;
		if (id && tables > most)
			keel_unmap_all(id);
		else if (id && tables >= least)
			l4_empty_window(task->mm, id, window);
		sum += tables;
		count++;
		task_unlock(task);
	}
	rcu_read_unlock();
	return sum / count / 2;
}

/* Returns the pages of the kmem quota that are free, and stores the quota. */
static unsigned long l4_quota_unused(unsigned long *limit)
{
	unsigned long words[KEEL_ACCOUNT_WORDS] = { };

	keel_account(KEEL_ID_NIL, words);
	*limit = words[KEEL_ACCOUNT_LIMIT];
	return *limit - words[KEEL_ACCOUNT_USED];
}

/* Unmaps everything in all processes. */
void l4_mm_empty(void)
{
	l4_empty_spaces(0, 0, 0);
}

/*
 * Frees kmem that mappings use: first in spaces with many page tables, window by window, then in
 * all spaces, and finally all mappings. Returns true if there is enough for any call now, although
 * other processors may take it again. Returns false if not: then the caller may try its call once
 * more, but another reclaim is useless. The caller's record in the UTCB is preserved for that try.
 */
bool l4_mm_reclaim(void)
{
	const struct keel_ex_regs record = *keel_record();
	unsigned long limit, before, free = l4_quota_unused(&limit);
	static unsigned long least;	/* of the last round; in a race either value is good */
	static u32 window;
	unsigned int i;

	window = next_pseudo_random32(window);
	for (i = 0; i <= 2 * SHARES && free < limit / MARGIN + ENOUGH; i++) {
		before = free;
		least = l4_empty_spaces(window + i * SHARE, i < SHARES ? least : 0,
					i < 2 * SHARES ? 2 * limit * PAGE_SIZE : 0);
		free = l4_quota_unused(&limit);
		if (free <= before && i < SHARES)
			i = SHARES - 1;
	}
	*keel_record() = record;
	return free >= ENOUGH;
}

pgd_t *pgd_alloc(struct mm_struct *mm)
{
	return (pgd_t *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
}
