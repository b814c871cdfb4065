// SPDX-License-Identifier: GPL-2.0-only
/*
 * Creation of the server task's lthreads: the server threads of the other processors
 * (kernel/smp.c), and the helper threads, which never block the server: the IRQ threads
 * (kernel/irq.c), the pager thread (mm/vmalloc.c) and the trap reflectors (reflector.c).
 */
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <asm/hypercall.h>

/* The task's id: that of the server thread, with the lthread number that stands for the task. */
unsigned long keel_own_task(void)
{
	return keel_self(KEEL_SERVER) |
	       (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
}

/*
 * Starts an lthread of the server's task on a processor, with that processor's per-CPU base. On the
 * current processor it runs at once if its priority is above the server's. A trap reflector has no
 * per-CPU base: its argument is its UTCB, and the root task is its pager and handler, which reports
 * its faults. Called on a server thread; uses its record. Returns 0 or L4's status.
 */
unsigned long keel_create(enum keel_lthread lthread, void (*entry)(void), void *stack_top,
			  unsigned long priority, unsigned int cpu)
{
	bool is_reflector = lthread >= KEEL_REFLECTOR;
	/* The first reflector is started before keel_record() works: gs is not set yet. */
	struct keel_ex_regs *record = lthread == KEEL_REFLECTOR ?
				      (void *)keel_utcb(KEEL_SERVER)->record : keel_record();
	unsigned long number = (unsigned long)lthread << KEEL_ID_LTHREAD_SHIFT;
	unsigned long mask = (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
	unsigned long versions = ~0UL << KEEL_ID_VERSION_SHIFT;
	unsigned long id = (keel_own_task() & ~mask & ~versions) | number;
	/* As after a call: the stack is misaligned by the return address. */
	void (**sp)(void) = stack_top - sizeof(long);
	unsigned long status;

	record->pager = is_reflector ? keel_start->root : keel_self(KEEL_REFLECTOR + cpu);
	record->handler = record->pager;
	record->ip = (unsigned long)entry;
	if (!is_reflector) {
		*--sp = entry;
		record->ip = (unsigned long)keel_set_percpu_base;
	}
	record->sp = (unsigned long)sp;
	record->argument = is_reflector ? (unsigned long)keel_utcb(lthread) : per_cpu_offset(cpu);
	status = keel_ex_regs(&id, KEEL_EX_CREATE | KEEL_EX_IP | KEEL_EX_SP | KEEL_EX_ARGUMENT |
				   KEEL_EX_PAGER | KEEL_EX_HANDLER);
	if (!status)
		status = keel_schedule(id, priority, cpu);
	return status ?: keel_ex_regs(&id, KEEL_EX_START);
}
