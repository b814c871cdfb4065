// SPDX-License-Identifier: GPL-2.0-only
/*
 * SMP. Linux's processor n is the micro-kernel's processor n. It has a server thread, which runs
 * Linux's kernel stacks there, and an IRQ thread with a higher priority. The gs base of both is the
 * processor's per-CPU offset. An IPI is a notification of the other processor's IRQ thread.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/sched/mm.h>
#include <linux/sched/task_stack.h>
#include <linux/smp.h>
#include <asm/l4.h>
#include "../hypercall/reflector.h"

#define START_TIMEOUT_US (10 * USEC_PER_SEC)
#define STOP_TIMEOUT_US USEC_PER_SEC

DEFINE_PER_CPU_READ_MOSTLY(unsigned long, this_cpu_off);
EXPORT_PER_CPU_SYMBOL(this_cpu_off);
DEFINE_PER_CPU_READ_MOSTLY(int, cpu_number);
EXPORT_PER_CPU_SYMBOL(cpu_number);

/* Marks as possible as many processors as the start record has. */
void __init l4_smp_init(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < NR_CPUS; cpu++)
		set_cpu_possible(cpu, cpu < max(keel_start->processors, 1UL));
}

/* Switches the first processor to its own copy of the per-CPU variables. */
void __init smp_prepare_boot_cpu(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu(this_cpu_off, cpu) = per_cpu_offset(cpu);
		per_cpu(cpu_number, cpu) = cpu;
	}
	keel_set_percpu_base(per_cpu_offset(0));
}

void __init smp_prepare_cpus(unsigned int max_cpus)
{
	if (max_cpus)
		init_cpu_present(cpu_possible_mask);
}

void __init smp_cpus_done(unsigned int max_cpus)
{
}

/* The first function of another processor's server thread, on the stack of its idle task. */
static void l4_start_secondary(void)
{
	unsigned int cpu = raw_smp_processor_id();

	mmgrab(&init_mm);
	current->active_mm = &init_mm;
	l4_fpu_borrow();
	l4_irq_init();
	notify_cpu_starting(cpu);
	l4_timer_init();
	set_cpu_online(cpu, true);
	local_irq_enable();
	cpu_startup_entry(CPUHP_AP_ONLINE_IDLE);
}

/*
 * Starts a processor's trap reflector and server thread, and waits until it is online. Returns 0,
 * -ENOMEM or -EIO.
 */
int __cpu_up(unsigned int cpu, struct task_struct *idle)
{
	unsigned int us;

	per_cpu(current_task, cpu) = idle;
	if (l4_reflector_create(cpu) ||
	    keel_create(KEEL_SERVER + cpu, l4_start_secondary, task_stack_page(idle) + THREAD_SIZE,
			keel_start->priority, cpu))
		return -ENOMEM;
	for (us = 0; us < START_TIMEOUT_US && !cpu_online(cpu); us++)
		udelay(1);
	return cpu_online(cpu) ? 0 : -EIO;
}

void smp_send_reschedule(int cpu)
{
	keel_notify(KEEL_IRQ_THREAD + cpu, L4_NOTIFY_RESCHEDULE);
}

void arch_send_call_function_single_ipi(int cpu)
{
	keel_notify(KEEL_IRQ_THREAD + cpu, L4_NOTIFY_CALL);
}

/* The IRQ thread of this processor runs irq_work, as after an IPI. */
void arch_irq_work_raise(void)
{
	arch_send_call_function_single_ipi(raw_smp_processor_id());
}

void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	unsigned int cpu;

	for_each_cpu(cpu, mask)
		arch_send_call_function_single_ipi(cpu);
}

/* Stops the other processors at once, whatever they run: their IRQ threads do it. */
void smp_send_stop(void)
{
	unsigned int cpu, us;

	for_each_online_cpu(cpu)
		if (cpu != raw_smp_processor_id())
			keel_notify(KEEL_IRQ_THREAD + cpu, L4_NOTIFY_STOP);
	for (us = 0; us < STOP_TIMEOUT_US && num_online_cpus() > 1; us++)
		udelay(1);
}
