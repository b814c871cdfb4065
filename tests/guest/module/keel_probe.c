// SPDX-License-Identifier: GPL-2.0-only
/*
 * A test of Linux's interfaces for modules, which runs when /proc/keel_probe is read: a parameter,
 * memory of all kinds, checksums, a thread, a timer, deferred work, per-CPU data, a static branch,
 * a division, and loading and unloading without a warning.
 */
#include <linux/completion.h>
#include <linux/jump_label.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <net/checksum.h>

#define LARGE (3UL << 20)
#define LONGEST_SUM 200

static unsigned int factor = 2;
module_param(factor, uint, 0644);

static DEFINE_STATIC_KEY_FALSE(patched);
static DEFINE_PER_CPU(unsigned int, visits);
static DECLARE_COMPLETION(timer_done);
static DECLARE_COMPLETION(work_done);
static const u64 dividend = 1000000000007ULL;

static int thread_body(void *argument)
{
	*(unsigned int *)argument = factor * 21;
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 7;
}

static void on_timer(struct timer_list *timer)
{
	complete(&timer_done);
}
static DEFINE_TIMER(timer, on_timer);

static void do_work(struct work_struct *work)
{
	complete(&work_done);
}
static DECLARE_WORK(work, do_work);

static unsigned long sum_of(const u8 *memory, size_t size)
{
	unsigned long sum = 0;
	size_t i;

	for (i = 0; i < size; i++)
		sum += memory[i];
	return sum;
}

static void try_memory(struct seq_file *m)
{
	u8 *small = kmalloc(100, GFP_KERNEL), *large = vmalloc(LARGE);

	if (small && large) {
		memset(small, 1, 100);
		memset(large, 2, LARGE);
		seq_printf(m, "memory %lu %lu\n", sum_of(small, 100), sum_of(large, LARGE));
	}
	kfree(small);
	vfree(large);
}

/* Checksums of what ends where the memory does, of each length and alignment: the wrong ones. */
static void try_sums(struct seq_file *m)
{
	unsigned int wrong = 0, sums = 0;
	u8 *page = vmalloc(PAGE_SIZE);
	size_t length, i;

	if (!page)
		return;
	for (i = 0; i < PAGE_SIZE; i++)
		page[i] = i * 167 + 13;
	for (length = 1; length <= LONGEST_SUM; length++) {
		const u8 *bytes = page + PAGE_SIZE - length;
		u32 expected = 0;

		for (i = 0; i < length; i++)
			expected += i % 2 ? bytes[i] << 8 : bytes[i];
		wrong += ip_compute_csum(bytes, length) != csum_fold((__force __wsum)expected);
		sums++;
	}
	seq_printf(m, "sums %u, wrong %u\n", sums, wrong);
	vfree(page);
}

static void try_thread(struct seq_file *m)
{
	unsigned int result = 0;
	struct task_struct *task = kthread_run(thread_body, &result, "keel_probe");
	int end;

	if (IS_ERR(task))
		return;
	while (!READ_ONCE(result))
		schedule_timeout_interruptible(1);
	end = kthread_stop(task);
	seq_printf(m, "thread %u %d\n", result, end);
}

static void try_patching(struct seq_file *m)
{
	bool before = static_branch_unlikely(&patched), between, after;

	static_branch_enable(&patched);
	between = static_branch_unlikely(&patched);
	static_branch_disable(&patched);
	after = static_branch_unlikely(&patched);
	seq_printf(m, "branch %d %d %d\n", before, between, after);
}

static int show(struct seq_file *m, void *v)
{
	try_memory(m);
	try_sums(m);
	try_thread(m);
	try_patching(m);
	reinit_completion(&timer_done);
	reinit_completion(&work_done);
	mod_timer(&timer, jiffies + 1);
	schedule_work(&work);
	wait_for_completion(&timer_done);
	wait_for_completion(&work_done);
	seq_printf(m, "visits %u\n", get_cpu_var(visits)++ + 1);
	put_cpu_var(visits);
	seq_printf(m, "quotient %llu\n", div64_u64(dividend, factor));
	return 0;
}

static int __init keel_probe_init(void)
{
	if (!factor)
		return -EINVAL;
	return proc_create_single("keel_probe", 0444, NULL, show) ? 0 : -ENOMEM;
}
module_init(keel_probe_init);

static void __exit keel_probe_exit(void)
{
	remove_proc_entry("keel_probe", NULL);
	del_timer_sync(&timer);
	cancel_work_sync(&work);
}
module_exit(keel_probe_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("What modules may use, for a test");
