// SPDX-License-Identifier: GPL-2.0-only
/*
 * A test of interrupt handlers on two processors, which runs when files of /proc/keel_interrupts
 * are read. `faults`: a handler that faults completes before the code that it interrupted resumes.
 * `requests`: an interrupt can be requested while handlers on another processor lock its
 * descriptor.
 */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#define PERIOD_NS 100000
#define FAULTS 200
#define REQUESTS 2000
/* No device of the test's machine uses this interrupt. */
#define LINE 5
/* An address where nothing is mapped. */
#define NOWHERE ((void *)PAGE_SIZE)

static struct hrtimer timer;
static bool is_stopped, is_within;
static unsigned int faults, seen_within;

static enum hrtimer_restart again(void)
{
	hrtimer_forward_now(&timer, PERIOD_NS);
	return READ_ONCE(is_stopped) ? HRTIMER_NORESTART : HRTIMER_RESTART;
}

/* The handler of `faults`: a warning and a fixup are two faults of the kernel's own code. */
static enum hrtimer_restart fault(struct hrtimer *unused)
{
	char byte;

	WRITE_ONCE(is_within, true);
	WARN_ON_ONCE(true);
	__get_kernel_nofault(&byte, NOWHERE, char, bad);
bad:
	WRITE_ONCE(is_within, false);
	WRITE_ONCE(faults, faults + 1);
	return again();
}

/* The handler of `requests`: takes the lock of the interrupt's descriptor. */
static enum hrtimer_restart look_at_line(struct hrtimer *unused)
{
	bool state;

	irq_get_irqchip_state(LINE, IRQCHIP_STATE_PENDING, &state);
	return again();
}

static long start_timer(void *function)
{
	WRITE_ONCE(is_stopped, false);
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer.function = function;
	hrtimer_start(&timer, PERIOD_NS, HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static void stop_timer(void)
{
	WRITE_ONCE(is_stopped, true);
	hrtimer_cancel(&timer);
}

/* Runs on the processor that is interrupted. Returns how often it ran within a handler: 0. */
static long watch(void *unused)
{
	start_timer(fault);
	while (READ_ONCE(faults) < FAULTS) {
		if (READ_ONCE(is_within))
			seen_within++;
		cond_resched();
	}
	stop_timer();
	return seen_within;
}

static irqreturn_t on_line(int line, void *device)
{
	return IRQ_NONE;
}

static long request(void *unused)
{
	unsigned int i;
	int error = 0;

	for (i = 0; i < REQUESTS && !error; i++) {
		error = request_irq(LINE, on_line, 0, "keel_interrupts", NULL);
		if (!error)
			free_irq(LINE, NULL);
	}
	return error;
}

static int show_faults(struct seq_file *m, void *v)
{
	faults = seen_within = 0;
	seq_printf(m, "faults: %ld\n", work_on_cpu(1, watch, NULL));
	return 0;
}

static int show_requests(struct seq_file *m, void *v)
{
	work_on_cpu(0, start_timer, look_at_line);
	seq_printf(m, "requests: %ld\n", work_on_cpu(1, request, NULL));
	stop_timer();
	return 0;
}

static int __init keel_interrupts_init(void)
{
	struct proc_dir_entry *directory = proc_mkdir("keel_interrupts", NULL);

	proc_create_single("faults", 0444, directory, show_faults);
	proc_create_single("requests", 0444, directory, show_requests);
	return 0;
}
module_init(keel_interrupts_init);

static void __exit keel_interrupts_exit(void)
{
	remove_proc_subtree("keel_interrupts", NULL);
}
module_exit(keel_interrupts_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Interrupt handlers beside other processors, for a test");
