// SPDX-License-Identifier: GPL-2.0-only
/*
 * Making the server's helper lthreads. They share its space and never block it:
 * the top half (kernel/irq.c), the mapper (mm/vmalloc.c), the keeper (keeper.c).
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <asm/host.h>

/* The task's id: the server thread's, with the number that stands for the task. */
static unsigned long own_task(void)
{
	return host_self(HOST_SERVER) |
	       (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
}

/*
 * Starts an lthread of the server's task. It runs at once if its priority is
 * above the server's. A fault of a helper is the root task's to report.
 */
void __init host_create(enum host_lthread lthread, void (*entry)(void),
			void *stack_top, unsigned long priority)
{
	struct keel_ex_regs *record = host_record();
	unsigned long number = (unsigned long)lthread << KEEL_ID_LTHREAD_SHIFT;
	unsigned long mask = (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
	unsigned long versions = ~0UL << KEEL_ID_VERSION_SHIFT;
	unsigned long id = (own_task() & ~mask & ~versions) | number;
	unsigned long keeper = lthread == HOST_KEEPER ? host_start->root :
							host_self(HOST_KEEPER);
	unsigned long status;

	record->ip = (unsigned long)entry;
	/* As after a call: the stack is misaligned by the return address. */
	record->sp = (unsigned long)stack_top - sizeof(long);
	record->pager = keeper;
	record->handler = keeper;
	status = host_ex_regs(&id, KEEL_EX_CREATE | KEEL_EX_IP | KEEL_EX_SP |
				   KEEL_EX_PAGER | KEEL_EX_HANDLER | KEEL_EX_START);
	if (status)
		panic("keel: lthread %u: status %ld", lthread, (long)status);
	status = host_schedule(id, priority);
	if (status)
		panic("keel: priority %lu of lthread %u: status %ld", priority, lthread,
		      (long)status);
}
