// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts. A processor's top half is an lthread above its server's priority, so
 * it is to the server what an interrupt is to a processor: it runs between any two
 * instructions and to its end. It runs the handlers, and the softirqs after them,
 * itself. Devices interrupt the first processor, timers each their own.
 *
 * Protocol. "Interrupts off" is l4_irq_off. l4_waiting is not zero while the
 * server is in, or about to enter, the ipc that lets a user thread run (then it is
 * that thread's id) or that idles; interrupts are off then only in Linux's books.
 *   - off and not waiting: the top half notes the source in l4_irq_pending and does
 *     nothing else. The server replays it when it clears the flag; a source is not
 *     acknowledged before its handler ran. Only two notifications are served even so:
 *     to attach sources, for which the server waits, and to stop.
 *   - otherwise: it runs the handlers. If the server waits and there is work, the
 *     user thread is triggered, or the idling server is notified. Both are latched.
 * Races: before the server sets l4_waiting the top half sets pending, which the
 * server tests afterwards; between this test and the ipc the latched trigger or
 * notification ends the ipc at once; after it and before l4_waiting is zero again
 * it latches on a thread that waits for us, whose next resumption yields one
 * harmless trigger. A late notification is dropped by who receives it.
 * All of this is between the lthreads of one processor. What another one wants is
 * told to the top half, and so an interrupt like any other.
 */
#include <linux/bits.h>
#include <linux/entry-common.h>
#include <linux/hardirq.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/irq.h>
#include <linux/kernel_stat.h>
#include <linux/msi.h>
#include <linux/mutex.h>
#include <linux/smp.h>
#include <asm/irq_regs.h>
#include <asm/l4.h>

/*
 * Each source has a bit: the timer, what other lthreads notify (asm/l4.h), the
 * lines, then what comes by message.
 */
#define TIMER_BIT 0
#define FIRST_GSI_BIT 4
#define NOTIFIED (L4_NOTIFY_RESCHEDULE | L4_NOTIFY_CALL | L4_NOTIFY_NATIVE)
#define SOURCES (KEEL_GSI_COUNT + KEEL_MSI_SOURCES)	/* all ids from KEEL_ID_IRQ on */

DEFINE_PER_CPU(unsigned long, l4_irq_off) = ARCH_IRQ_DISABLED;
DEFINE_PER_CPU(unsigned long, l4_irq_pending);
DEFINE_PER_CPU(unsigned long, l4_waiting);
EXPORT_PER_CPU_SYMBOL(l4_irq_off);
EXPORT_PER_CPU_SYMBOL(l4_irq_pending);

static DEFINE_PER_CPU_PAGE_ALIGNED(char[THREAD_SIZE], l4_irq_stack);
static unsigned long l4_bind_requests;	/* sources that the first top half is asked to attach */
static u8 l4_irq_bit_of[SOURCES];

/* By bit: its number in Linux, its source (0: none), and what a device sends to raise it. */
static struct {
	unsigned int irq;
	unsigned long source;
	struct msi_msg message;
} l4_irq_sources[BITS_PER_LONG];

/* What was interrupted, where it was Linux itself: only cs is looked at. */
static struct pt_regs l4_server_regs = { .cs = __KERNEL_CS };

static void l4_irq_handle(unsigned long bits, struct pt_regs *regs)
{
	struct pt_regs *old = set_irq_regs(regs);
	unsigned int bit;

	irq_enter();
	if (bits & BIT(TIMER_BIT))
		l4_timer_interrupt();
	if (bits & L4_NOTIFY_RESCHEDULE)
		scheduler_ipi();
	if (bits & L4_NOTIFY_CALL) {
		generic_smp_call_function_interrupt();
		irq_work_run();
	}
	if (bits & L4_NOTIFY_NATIVE)
		wake_up(&l4_service_threads);
	bits &= ~(BIT(TIMER_BIT) | NOTIFIED);
	for_each_set_bit(bit, &bits, BITS_PER_LONG)
		generic_handle_irq(l4_irq_sources[bit].irq);
	irq_exit();
	set_irq_regs(old);
}

/* Interrupts were just enabled in Linux and something had come. */
void l4_irq_replay(void)
{
	unsigned long bits;

	while (this_cpu_read(l4_irq_pending)) {
		this_cpu_write(l4_irq_off, ARCH_IRQ_DISABLED);
		barrier();
		bits = this_cpu_xchg(l4_irq_pending, 0);
		l4_irq_handle(bits, &l4_server_regs);
		barrier();
		this_cpu_write(l4_irq_off, ARCH_IRQ_ENABLED);
		barrier();
	}
}
EXPORT_SYMBOL(l4_irq_replay);

static void l4_irq_wake_server(unsigned long waiting)
{
	if (waiting == L4_WAITING_IDLE)
		keel_notify(keel_server(), 1);
	else if (waiting && (read_thread_flags() & EXIT_TO_USER_MODE_WORK))
		keel_trigger(waiting);
}

static void l4_irq_deliver(unsigned long bits)
{
	unsigned long waiting = this_cpu_read(l4_waiting), off = this_cpu_read(l4_irq_off);
	bool user = waiting && waiting != L4_WAITING_IDLE;

	if (off && !waiting) {
		this_cpu_or(l4_irq_pending, bits);
		return;
	}
	this_cpu_write(l4_irq_off, ARCH_IRQ_DISABLED);
	barrier();
	l4_irq_handle(bits, user ? task_pt_regs(current) : &l4_server_regs);
	barrier();
	this_cpu_write(l4_irq_off, off);
	l4_irq_wake_server(waiting);
}

static void l4_irq_bind_gsi(unsigned int bit)
{
	unsigned long mode = KEEL_IRQ_MODE_DEFAULT;

	if (keel_invoke(l4_irq_sources[bit].source, KEEL_OBJECT_BIND, &mode))
		pr_err("keel: no right over interrupt line %u\n", l4_irq_sources[bit].irq);
}

static void l4_irq_alloc_msi(unsigned int bit)
{
	struct keel_message m = { .tag = KEEL_TAG(KEEL_MSI_ALLOCATE, 0) };

	keel_call(KEEL_ID_MSI, &m);
	if (m.status || keel_label(&m))
		return;
	l4_irq_bit_of[m.words[0] - KEEL_ID_IRQ] = bit;
	l4_irq_sources[bit].source = m.words[0];
	l4_irq_sources[bit].message.address_lo = m.words[1];
	l4_irq_sources[bit].message.data = m.words[2];
}

/* Sources are attached here because the attaching thread is who receives them. */
static void l4_irq_bind_requested(void)
{
	unsigned long bits = READ_ONCE(l4_bind_requests);
	unsigned int bit;

	for_each_set_bit(bit, &bits, BITS_PER_LONG) {
		if (l4_irq_sources[bit].source)
			l4_irq_bind_gsi(bit);
		else
			l4_irq_alloc_msi(bit);
		clear_bit(bit, &l4_bind_requests);
	}
}

/*
 * Returns when the first top half has done it: at once on that processor, whose server it is above.
 * On the others it has to come to its next message, so nothing that a handler wants may be held.
 */
static void l4_irq_bind(unsigned int bit)
{
	set_bit(bit, &l4_bind_requests);
	keel_notify(KEEL_IRQ_THREAD, L4_NOTIFY_BIND);
	while (test_bit(bit, &l4_bind_requests))
		cpu_relax();
}

static void l4_irq_bind_timer(void)
{
	unsigned long answer = 0;

	if (!keel_invoke(KEEL_ID_TIMER, KEEL_OBJECT_BIND, &answer))
		this_cpu_write(l4_timer, answer);
}

/* The server does not run again, its user threads stop where they next have something to say. */
static void __noreturn l4_irq_stop_processor(void)
{
	unsigned long waiting = this_cpu_read(l4_waiting);

	set_cpu_online(raw_smp_processor_id(), false);
	if (waiting && waiting != L4_WAITING_IDLE)
		keel_trigger(waiting);
	keel_stop_server();
	keel_sleep();
}

static void l4_irq_notified(unsigned long bits)
{
	if (bits & L4_NOTIFY_STOP)
		l4_irq_stop_processor();
	if (bits & L4_NOTIFY_BIND)
		l4_irq_bind_requested();
	if (bits & NOTIFIED)
		l4_irq_deliver(bits & NOTIFIED);
}

static void l4_irq_thread(void)
{
	struct keel_message m = { };

	l4_irq_bind_timer();
	for (;;) {
		keel_ipc(KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, 0, 0, &m);
		if (m.status)
			continue;
		if (keel_kind(&m) == KEEL_KIND_NOTIFY)
			l4_irq_notified(m.words[0]);
		else if (keel_kind(&m) == KEEL_KIND_INTERRUPT && m.partner == this_cpu_read(l4_timer))
			l4_irq_deliver(BIT(TIMER_BIT));
		else if (keel_kind(&m) == KEEL_KIND_INTERRUPT)
			l4_irq_deliver(BIT(l4_irq_bit_of[m.partner - KEEL_ID_IRQ]));
	}
}

/* Called before a line has its first handler. Linux notes what comes before, for irq_startup(). */
static int l4_gsi_request(struct irq_data *data)
{
	l4_irq_bind(l4_irq_bit_of[data->irq]);
	return 0;
}

/* After its last handler is gone. */
static void l4_gsi_release(struct irq_data *data)
{
	keel_invoke(KEEL_ID_IRQ + data->irq, KEEL_OBJECT_UNBIND, NULL);
}

/* A line that fired stays silent until it is acknowledged; one still active then fires again. */
static void l4_gsi_mask(struct irq_data *data)
{
}

static void l4_gsi_unmask(struct irq_data *data)
{
	keel_invoke(KEEL_ID_IRQ + data->irq, KEEL_OBJECT_ACK, NULL);
}

static struct irq_chip l4_gsi_chip = {
	.name = "keel",
	.irq_request_resources = l4_gsi_request,
	.irq_release_resources = l4_gsi_release,
	.irq_mask = l4_gsi_mask,
	.irq_unmask = l4_gsi_unmask,
};

static struct irq_chip l4_msi_chip = {
	.name = "keel-msi",
	.irq_mask = pci_msi_mask_irq,
	.irq_unmask = pci_msi_unmask_irq,
};

/* Who takes a bit for a message or gives one back. */
static DEFINE_MUTEX(l4_msi_lock);

/* A bit for one more interrupt by message, or BITS_PER_LONG. */
static unsigned int l4_msi_alloc(void)
{
	unsigned int bit = FIRST_GSI_BIT + keel_start->irq_count;

	mutex_lock(&l4_msi_lock);
	while (bit < BITS_PER_LONG && l4_irq_sources[bit].source)
		bit++;
	if (bit < BITS_PER_LONG)
		l4_irq_bind(bit);
	if (bit < BITS_PER_LONG && !l4_irq_sources[bit].source)
		bit = BITS_PER_LONG;	/* refused: it is free for the next one */
	mutex_unlock(&l4_msi_lock);
	return bit;
}

int arch_setup_msi_irq(struct pci_dev *dev, struct msi_desc *desc)
{
	unsigned int bit = l4_msi_alloc(), irq;

	if (bit == BITS_PER_LONG)
		return -ENOSPC;
	irq = l4_irq_sources[bit].irq = L4_FIRST_MSI + bit;
	irq_set_msi_desc(irq, desc);
	irq_set_chip_and_handler(irq, &l4_msi_chip, handle_simple_irq);
	pci_write_msi_msg(irq, &l4_irq_sources[bit].message);
	return 0;
}

void arch_teardown_msi_irq(unsigned int irq)
{
	unsigned int bit = irq - L4_FIRST_MSI;

	mutex_lock(&l4_msi_lock);
	keel_invoke(l4_irq_sources[bit].source, KEEL_OBJECT_UNBIND, NULL);
	irq_set_msi_desc(irq, NULL);
	l4_irq_sources[bit].source = 0;	/* last: the bit is another's from here on */
	mutex_unlock(&l4_msi_lock);
}

/* Starts this processor's top half; for the first one the rest is init_IRQ()'s. */
void l4_irq_init(void)
{
	keel_create(keel_irq_thread(), l4_irq_thread, this_cpu_ptr(l4_irq_stack) + THREAD_SIZE,
		    keel_start->priority + 2, raw_smp_processor_id());
	if (!this_cpu_read(l4_timer))
		panic("keel: no timer");
}

void __init init_IRQ(void)
{
	unsigned int i, bit = FIRST_GSI_BIT;

	for (i = 0; i < keel_start->irq_count; i++, bit++) {
		l4_irq_bit_of[keel_start->irqs[i]] = bit;
		l4_irq_sources[bit].irq = keel_start->irqs[i];
		l4_irq_sources[bit].source = KEEL_ID_IRQ + keel_start->irqs[i];
		irq_set_chip_and_handler(l4_irq_sources[bit].irq, &l4_gsi_chip, handle_level_irq);
	}
	l4_irq_init();
}
