// SPDX-License-Identifier: GPL-2.0-only
/*
 * An mm's L4 task: made when a thread of it first goes to user mode, deleted with
 * all its mappings and lthreads when the mm's pages go. Numbers come from the
 * range that the root task gave.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

/* More L4 tasks than Linux's default of processes are never needed at once. */
#define TASKS_MAX PID_MAX_DEFAULT

static DECLARE_BITMAP(numbers, TASKS_MAX);
static unsigned int next_number;
static DEFINE_MUTEX(making);	/* of tasks; they are deleted without it */

static unsigned int number_count(void)
{
	return min(1UL << host_start->task_log2, (unsigned long)TASKS_MAX);
}

/* Round robin, so that the versions of all numbers are used evenly. */
static int take_number(void)
{
	unsigned int count = number_count();
	unsigned int number = find_next_zero_bit(numbers, count, next_number);

	if (number >= count)
		number = find_first_zero_bit(numbers, count);
	if (number >= count)
		return -ENOMEM;
	set_bit(number, numbers);
	next_number = number + 1;
	return number;
}

static unsigned long number_id(unsigned int number)
{
	return (host_start->task_first + number) << KEEL_ID_TASK_SHIFT;
}

static unsigned int id_number(unsigned long id)
{
	unsigned long task = (id >> KEEL_ID_TASK_SHIFT) & ((1UL << KEEL_ID_TASK_BITS) - 1);

	return task - host_start->task_first;
}

/*
 * A number whose versions are used up (a process may do that by 2^20 threads) stays taken: the next
 * one is tried.
 */
static int make_task(struct mm_struct *mm)
{
	unsigned long flags = KEEL_TASK_NO_LTHREAD | l4_task_priority();
	unsigned long id, status;
	int number;

	do {
		number = take_number();
		if (number < 0)
			return number;
		id = number_id(number);
		status = host_task_new(&id, flags, mm->context.area);
		if (l4_no_memory(status) && l4_mm_reclaim()) {
			id = number_id(number);
			status = host_task_new(&id, flags, mm->context.area);
		}
	} while (status == HOST_STATUS(KEEL_SIDE_CALL, KEEL_ERROR_RETIRED));
	if (status) {
		pr_err("keel: no L4 task: status %ld\n", (long)status);
		clear_bit(number, numbers);
		return -ENOMEM;
	}
	mm->context.host_task = id;
	return 0;
}

int l4_mm_prepare(struct mm_struct *mm)
{
	int error = 0;

	mutex_lock(&making);
	if (!mm->context.host_task)
		error = make_task(mm);
	mutex_unlock(&making);
	return error;
}

int init_new_context(struct task_struct *task, struct mm_struct *mm)
{
	mm->context.host_task = 0;
	mm->context.area = 0;
	mm->context.queued = 0;
	spin_lock_init(&mm->context.lock);
	l4_tables_freed(mm);
	return 0;
}

/* Called early at exit and once more with the mm's last reference. */
void destroy_context(struct mm_struct *mm)
{
	unsigned long id = l4_unmap_forget(mm), status;

	if (!id)
		return;
	status = host_task_new(&id, KEEL_TASK_INACTIVE, 0);
	if (WARN_ONCE(status, "keel: task %lx stays: status %ld\n", id, (long)status))
		host_unmap_all(id);	/* if it is there still; its number is lost, but never used twice */
	else
		clear_bit(id_number(id), numbers);
}

/* Empties a space below; what is touched again is mapped again. */
static bool empty_space(struct mm_struct *mm)
{
	unsigned long id = READ_ONCE(mm->context.host_task);

	return id && !host_unmap_all(id);
}

/*
 * Gives the kernel below all memory that mappings take there: they are only a
 * cache. False if there was nothing to give. What the caller has in its record stays, for a
 * second try. A process whose first thread has ended has its mm by another one.
 */
bool l4_mm_reclaim(void)
{
	const struct keel_ex_regs record = *host_record();
	struct task_struct *process, *task;
	bool some = false;

	rcu_read_lock();
	for_each_process(process) {
		task = find_lock_task_mm(process);
		if (!task)
			continue;
		some |= empty_space(task->mm);
		task_unlock(task);
	}
	rcu_read_unlock();
	*host_record() = record;
	return some;
}

pgd_t *pgd_alloc(struct mm_struct *mm)
{
	return (pgd_t *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
}
