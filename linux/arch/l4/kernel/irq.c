// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts. The top half is an lthread above the server's priority, so it is to
 * the server what an interrupt is to a processor: it runs between any two
 * instructions and to its end. It runs the handlers, and the softirqs after them,
 * itself.
 *
 * Protocol. "Interrupts off" is l4_irq_off. l4_waiting is not zero while the
 * server is in, or about to enter, the ipc that lets a user thread run (then it is
 * that thread's id) or that idles; interrupts are off then only in Linux's books.
 *   - off and not waiting: the top half notes the source in l4_irq_pending and does
 *     nothing else. The server replays it when it clears the flag; a source is not
 *     acknowledged before its handler ran.
 *   - otherwise: it runs the handlers. If the server waits and there is work, the
 *     user thread is triggered, or the idling server is notified. Both are latched.
 * Races: before the server sets l4_waiting the top half sets pending, which the
 * server tests afterwards; between this test and the ipc the latched trigger or
 * notification ends the ipc at once; after it and before l4_waiting is zero again
 * it latches on a thread that waits for us, whose next resumption yields one
 * harmless trigger. A late notification is dropped by who receives it.
 */
#include <linux/bits.h>
#include <linux/entry-common.h>
#include <linux/hardirq.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/kernel_stat.h>
#include <asm/irq_regs.h>
#include <asm/l4.h>

#define TIMER_BIT 0
#define LINE_BIT(index) ((index) + 1)	/* index in host_start->irqs */

volatile unsigned long l4_irq_off = ARCH_IRQ_DISABLED;
volatile unsigned long l4_irq_pending;
volatile unsigned long l4_waiting;
EXPORT_SYMBOL(l4_irq_off);
EXPORT_SYMBOL(l4_irq_pending);

static char top_half_stack[THREAD_SIZE] __aligned(THREAD_SIZE);
static unsigned long attach;	/* lines that the top half is asked to attach */

/* What was interrupted, where it was Linux itself: only cs is looked at. */
static struct pt_regs server_regs = { .cs = __KERNEL_CS };

static unsigned int line_index(unsigned int line)
{
	unsigned int i;

	for (i = 0; i < host_start->irq_count; i++)
		if (host_start->irqs[i] == line)
			break;
	return i;
}

static void handle(unsigned long sources, struct pt_regs *regs)
{
	struct pt_regs *old = set_irq_regs(regs);
	unsigned int bit;

	irq_enter();
	if (sources & BIT(TIMER_BIT))
		l4_timer_interrupt();
	sources &= ~BIT(TIMER_BIT);
	for_each_set_bit(bit, &sources, BITS_PER_LONG)
		generic_handle_irq(host_start->irqs[bit - 1]);
	irq_exit();
	set_irq_regs(old);
}

/* Interrupts were just enabled in Linux and something had come. */
void l4_irq_replay(void)
{
	unsigned long sources;

	while (l4_irq_pending) {
		l4_irq_off = ARCH_IRQ_DISABLED;
		barrier();
		sources = xchg(&l4_irq_pending, 0);	/* one instruction */
		handle(sources, &server_regs);
		barrier();
		l4_irq_off = ARCH_IRQ_ENABLED;
		barrier();
	}
}
EXPORT_SYMBOL(l4_irq_replay);

static void wake_server(unsigned long waiting)
{
	if (waiting == L4_WAITING_IDLE)
		host_notify(HOST_SERVER, 1);
	else if (waiting && (read_thread_flags() & EXIT_TO_USER_MODE_WORK))
		host_trigger(waiting);
}

static void deliver(unsigned long source)
{
	unsigned long waiting = l4_waiting, off = l4_irq_off;
	bool user = waiting && waiting != L4_WAITING_IDLE;

	if (off && !waiting) {
		l4_irq_pending |= source;
		return;
	}
	l4_irq_off = ARCH_IRQ_DISABLED;
	barrier();
	handle(source, user ? task_pt_regs(current) : &server_regs);
	barrier();
	l4_irq_off = off;
	wake_server(waiting);
}

/* Lines are attached here because the attaching thread is who receives them. */
static void attach_lines(void)
{
	unsigned long lines = xchg(&attach, 0), mode;
	unsigned int i;

	for_each_set_bit(i, &lines, BITS_PER_LONG) {
		mode = KEEL_IRQ_MODE_DEFAULT;
		if (host_source(KEEL_ID_IRQ + host_start->irqs[i], KEEL_SOURCE_ATTACH, &mode))
			pr_err("keel: no right over interrupt line %lu\n",
			       host_start->irqs[i]);
	}
}

static void attach_timer(void)
{
	unsigned long answer = 0;

	if (!host_source(KEEL_ID_TIMER, KEEL_SOURCE_ATTACH, &answer))
		l4_timer = answer;
}

static void top_half(void)
{
	struct host_message m = { };

	attach_timer();
	for (;;) {
		host_ipc(KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, 0, 0, &m);
		if (m.status)
			continue;
		if (host_kind(&m) == KEEL_KIND_NOTIFY)
			attach_lines();
		else if (host_kind(&m) == KEEL_KIND_INTERRUPT && m.partner == l4_timer)
			deliver(BIT(TIMER_BIT));
		else if (host_kind(&m) == KEEL_KIND_INTERRUPT)
			deliver(BIT(LINE_BIT(line_index(m.partner - KEEL_ID_IRQ))));
	}
}

static unsigned int line_startup(struct irq_data *data)
{
	set_bit(line_index(data->irq), &attach);
	host_notify(HOST_TOP_HALF, 1);
	return 0;
}

static void line_shutdown(struct irq_data *data)
{
	host_source(KEEL_ID_IRQ + data->irq, KEEL_SOURCE_DETACH, NULL);
}

/* A line that fired stays silent until it is acknowledged. */
static void line_mask(struct irq_data *data)
{
}

static void line_unmask(struct irq_data *data)
{
	host_source(KEEL_ID_IRQ + data->irq, KEEL_SOURCE_ACK, NULL);
}

static struct irq_chip line_chip = {
	.name = "keel",
	.irq_startup = line_startup,
	.irq_shutdown = line_shutdown,
	.irq_mask = line_mask,
	.irq_unmask = line_unmask,
};

void __init init_IRQ(void)
{
	unsigned long i;

	for (i = 0; i < host_start->irq_count; i++)
		irq_set_chip_and_handler(host_start->irqs[i], &line_chip, handle_level_irq);
	host_create(HOST_TOP_HALF, top_half, top_half_stack + sizeof(top_half_stack),
		    host_start->priority + 2);
	if (!l4_timer)
		panic("keel: no timer");
}
