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
#define FIRST_LINE_BIT 4
#define NOTIFIED (L4_NOTIFY_RESCHEDULE | L4_NOTIFY_CALL | L4_NOTIFY_NATIVE)
#define SOURCES (KEEL_GSI_COUNT + KEEL_MSI_SOURCES)	/* all ids from KEEL_ID_IRQ on */

DEFINE_PER_CPU(unsigned long, l4_irq_off) = ARCH_IRQ_DISABLED;
DEFINE_PER_CPU(unsigned long, l4_irq_pending);
DEFINE_PER_CPU(unsigned long, l4_waiting);
EXPORT_PER_CPU_SYMBOL(l4_irq_off);
EXPORT_PER_CPU_SYMBOL(l4_irq_pending);

static DEFINE_PER_CPU_PAGE_ALIGNED(char[THREAD_SIZE], top_half_stack);
static unsigned long attach;	/* sources that the first top half is asked to attach */
static u8 bit_of[SOURCES];

/* By bit: its number in Linux, its source (0: none), and what a device sends to raise it. */
static struct {
	unsigned int irq;
	unsigned long source;
	struct msi_msg message;
} sources[BITS_PER_LONG];

/* What was interrupted, where it was Linux itself: only cs is looked at. */
static struct pt_regs server_regs = { .cs = __KERNEL_CS };

static void handle(unsigned long bits, struct pt_regs *regs)
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
		generic_handle_irq(sources[bit].irq);
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
		handle(bits, &server_regs);
		barrier();
		this_cpu_write(l4_irq_off, ARCH_IRQ_ENABLED);
		barrier();
	}
}
EXPORT_SYMBOL(l4_irq_replay);

static void wake_server(unsigned long waiting)
{
	if (waiting == L4_WAITING_IDLE)
		keel_notify(keel_server(), 1);
	else if (waiting && (read_thread_flags() & EXIT_TO_USER_MODE_WORK))
		keel_trigger(waiting);
}

static void deliver(unsigned long bits)
{
	unsigned long waiting = this_cpu_read(l4_waiting), off = this_cpu_read(l4_irq_off);
	bool user = waiting && waiting != L4_WAITING_IDLE;

	if (off && !waiting) {
		this_cpu_or(l4_irq_pending, bits);
		return;
	}
	this_cpu_write(l4_irq_off, ARCH_IRQ_DISABLED);
	barrier();
	handle(bits, user ? task_pt_regs(current) : &server_regs);
	barrier();
	this_cpu_write(l4_irq_off, off);
	wake_server(waiting);
}

static void attach_line(unsigned int bit)
{
	unsigned long mode = KEEL_IRQ_MODE_DEFAULT;

	if (keel_source(sources[bit].source, KEEL_OBJECT_BIND, &mode))
		pr_err("keel: no right over interrupt line %u\n", sources[bit].irq);
}

static void attach_message(unsigned int bit)
{
	struct keel_message m = { .tag = KEEL_TAG(KEEL_MSI_ALLOCATE, 0) };

	keel_call(KEEL_ID_MSI, &m);
	if (m.status || keel_label(&m))
		return;
	bit_of[m.words[0] - KEEL_ID_IRQ] = bit;
	sources[bit].source = m.words[0];
	sources[bit].message.address_lo = m.words[1];
	sources[bit].message.data = m.words[2];
}

/* Sources are attached here because the attaching thread is who receives them. */
static void attach_sources(void)
{
	unsigned long bits = READ_ONCE(attach);
	unsigned int bit;

	for_each_set_bit(bit, &bits, BITS_PER_LONG) {
		if (sources[bit].source)
			attach_line(bit);
		else
			attach_message(bit);
		clear_bit(bit, &attach);
	}
}

/*
 * Returns when the first top half has done it: at once on that processor, whose server it is above.
 * On the others it has to come to its next message, so nothing that a handler wants may be held.
 */
static void ask_to_attach(unsigned int bit)
{
	set_bit(bit, &attach);
	keel_notify(KEEL_IRQ_THREAD, L4_NOTIFY_ATTACH);
	while (test_bit(bit, &attach))
		cpu_relax();
}

static void attach_timer(void)
{
	unsigned long answer = 0;

	if (!keel_source(KEEL_ID_TIMER, KEEL_OBJECT_BIND, &answer))
		this_cpu_write(l4_timer, answer);
}

/* The server does not run again, its user threads stop where they next have something to say. */
static void __noreturn stop_processor(void)
{
	unsigned long waiting = this_cpu_read(l4_waiting);

	set_cpu_online(raw_smp_processor_id(), false);
	if (waiting && waiting != L4_WAITING_IDLE)
		keel_trigger(waiting);
	keel_stop_server();
	keel_sleep();
}

static void notified(unsigned long bits)
{
	if (bits & L4_NOTIFY_STOP)
		stop_processor();
	if (bits & L4_NOTIFY_ATTACH)
		attach_sources();
	if (bits & NOTIFIED)
		deliver(bits & NOTIFIED);
}

static void top_half(void)
{
	struct keel_message m = { };

	attach_timer();
	for (;;) {
		keel_ipc(KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, 0, 0, &m);
		if (m.status)
			continue;
		if (keel_kind(&m) == KEEL_KIND_NOTIFY)
			notified(m.words[0]);
		else if (keel_kind(&m) == KEEL_KIND_INTERRUPT && m.partner == this_cpu_read(l4_timer))
			deliver(BIT(TIMER_BIT));
		else if (keel_kind(&m) == KEEL_KIND_INTERRUPT)
			deliver(BIT(bit_of[m.partner - KEEL_ID_IRQ]));
	}
}

/* Called before a line has its first handler. Linux notes what comes before, for irq_startup(). */
static int line_attach(struct irq_data *data)
{
	ask_to_attach(bit_of[data->irq]);
	return 0;
}

/* After its last handler is gone. */
static void line_detach(struct irq_data *data)
{
	keel_source(KEEL_ID_IRQ + data->irq, KEEL_OBJECT_UNBIND, NULL);
}

/* A line that fired stays silent until it is acknowledged; one still active then fires again. */
static void line_mask(struct irq_data *data)
{
}

static void line_unmask(struct irq_data *data)
{
	keel_source(KEEL_ID_IRQ + data->irq, KEEL_OBJECT_ACK, NULL);
}

static struct irq_chip line_chip = {
	.name = "keel",
	.irq_request_resources = line_attach,
	.irq_release_resources = line_detach,
	.irq_mask = line_mask,
	.irq_unmask = line_unmask,
};

static struct irq_chip message_chip = {
	.name = "keel-msi",
	.irq_mask = pci_msi_mask_irq,
	.irq_unmask = pci_msi_unmask_irq,
};

/* Who takes a bit for a message or gives one back. */
static DEFINE_MUTEX(messages);

/* A bit for one more interrupt by message, or BITS_PER_LONG. */
static unsigned int new_message(void)
{
	unsigned int bit = FIRST_LINE_BIT + keel_start->irq_count;

	mutex_lock(&messages);
	while (bit < BITS_PER_LONG && sources[bit].source)
		bit++;
	if (bit < BITS_PER_LONG)
		ask_to_attach(bit);
	if (bit < BITS_PER_LONG && !sources[bit].source)
		bit = BITS_PER_LONG;	/* refused: it is free for the next one */
	mutex_unlock(&messages);
	return bit;
}

int arch_setup_msi_irq(struct pci_dev *dev, struct msi_desc *desc)
{
	unsigned int bit = new_message(), irq;

	if (bit == BITS_PER_LONG)
		return -ENOSPC;
	irq = sources[bit].irq = L4_FIRST_MESSAGE + bit;
	irq_set_msi_desc(irq, desc);
	irq_set_chip_and_handler(irq, &message_chip, handle_simple_irq);
	pci_write_msi_msg(irq, &sources[bit].message);
	return 0;
}

void arch_teardown_msi_irq(unsigned int irq)
{
	unsigned int bit = irq - L4_FIRST_MESSAGE;

	mutex_lock(&messages);
	keel_source(sources[bit].source, KEEL_OBJECT_UNBIND, NULL);
	irq_set_msi_desc(irq, NULL);
	sources[bit].source = 0;	/* last: the bit is another's from here on */
	mutex_unlock(&messages);
}

/* Starts this processor's top half; for the first one the rest is init_IRQ()'s. */
void l4_irq_init(void)
{
	keel_create(keel_irq_thread(), top_half, this_cpu_ptr(top_half_stack) + THREAD_SIZE,
		    keel_start->priority + 2, raw_smp_processor_id());
	if (!this_cpu_read(l4_timer))
		panic("keel: no timer");
}

void __init init_IRQ(void)
{
	unsigned int i, bit = FIRST_LINE_BIT;

	for (i = 0; i < keel_start->irq_count; i++, bit++) {
		bit_of[keel_start->irqs[i]] = bit;
		sources[bit].irq = keel_start->irqs[i];
		sources[bit].source = KEEL_ID_IRQ + keel_start->irqs[i];
		irq_set_chip_and_handler(sources[bit].irq, &line_chip, handle_level_irq);
	}
	l4_irq_init();
}
