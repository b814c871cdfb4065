// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts. Each processor has an IRQ thread, an lthread of the server's task. Its priority is
 * above the server thread's, and that is above the user threads': the IRQ thread preempts Linux
 * between any two instructions and runs until it waits again, as an interrupt does on hardware. It
 * runs the handlers and then the softirqs (irq_exit()), on a stack of its own and with the
 * interrupted task as `current`, because it has the same per-processor base (gs). Handlers of what
 * came while interrupts were off are run by the server thread, on the kernel stack of `current`.
 * The first IRQ thread gets all device interrupts; each has its own timer. IPIs (reschedule, call a
 * function, stop) are notifications to the other processor's IRQ thread. "lthread", "server" and
 * "task" are L4's words (docs/glossary.md). This file owns l4_irq_off, l4_irq_pending and
 * l4_waiting; each is used only by the server and IRQ thread of its own processor, so no lock is
 * needed.
 */
#include <linux/bits.h>
#include <linux/entry-common.h>
#include <linux/hardirq.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/irq.h>
#include <linux/msi.h>
#include <linux/mutex.h>
#include <linux/smp.h>
#include <asm/irq_regs.h>
#include <asm/l4.h>

/*
 * The protocol. Interrupts are soft-masked: local_irq_disable() sets l4_irq_off and nothing else.
 * l4_waiting is the id of the user thread while the server is in, or about to enter, the IPC that
 * lets that thread run; L4_WAITING_IDLE while it is in the IPC of the idle loop; L4_WAITING_INSIDE
 * while the server thread runs a program itself; otherwise 0.
 * During such an IPC l4_irq_off is set, as on hardware before the return to user mode, but
 * interrupts are delivered, as after it. On an interrupt the IRQ thread does one of two things:
 *   - l4_irq_off is set and l4_waiting is 0: it sets the interrupt's bit in l4_irq_pending and
 *     returns to its wait. The server runs the handlers when it clears l4_irq_off
 *     (l4_irq_replay()). A level-triggered interrupt cannot repeat meanwhile, because it is
 *     acknowledged only after its handler. Two notifications never become pending, because the
 *     server could not serve them: the micro-kernel sends an interrupt to the thread that binds
 *     it, so the server cannot bind, and it spins until the IRQ thread has; and stopping ends it.
 *   - else it runs the handlers at once. If the server is in an IPC and has work now, the IPC has
 *     to end: the IRQ thread triggers the user thread, which then sends a message before it runs
 *     on, or notifies the idle server. The micro-kernel latches both.
 *
 * Races. The server first stores l4_waiting and then tests l4_irq_pending (kernel/dispatch.c):
 *   - an interrupt before the store has set its bit in l4_irq_pending, and the test sees it;
 *   - an interrupt between the store and the IPC latches the trigger or notification, which ends
 *     the IPC at once;
 *   - an interrupt after the IPC, but before l4_waiting is 0 again, latches a trigger for a thread
 *     that waits for the server: its next resumption yields one more message, which is harmless. A
 *     late notification of the server is dropped by whichever IPC receives it.
 * Only the two lthreads of one processor take part, so barrier() is enough to order the accesses.
 */

/*
 * An interrupt has up to four numbers: the GSI (the hardware's), its bit in l4_irq_pending, Linux's
 * number, and the id of the micro-kernel's object. Bits are first the timer's, then those of the
 * notifications that may be pending (NOTIFIED), the GSIs', and the MSIs'. Linux's number is the
 * GSI's, or for an MSI L4_FIRST_MSI plus the bit. The object's id is KEEL_ID_IRQ plus the GSI, or
 * one that the micro-kernel chooses when it allocates an MSI.
 */
#define TIMER_BIT 0
#define FIRST_GSI_BIT 4
#define NOTIFIED (L4_NOTIFY_RESCHEDULE | L4_NOTIFY_CALL | L4_NOTIFY_NATIVE)
#define SOURCES (KEEL_GSI_COUNT + KEEL_MSI_SOURCES)	/* objects with ids from KEEL_ID_IRQ on */
static_assert(!(NOTIFIED & BIT(TIMER_BIT)) && NOTIFIED < BIT(FIRST_GSI_BIT));

DEFINE_PER_CPU(unsigned long, l4_irq_off) = ARCH_IRQ_DISABLED;
DEFINE_PER_CPU(unsigned long, l4_irq_pending);
DEFINE_PER_CPU(unsigned long, l4_waiting);
EXPORT_PER_CPU_SYMBOL(l4_irq_off);
EXPORT_PER_CPU_SYMBOL(l4_irq_pending);

static DEFINE_PER_CPU_PAGE_ALIGNED(char[THREAD_SIZE], l4_irq_stack);
static unsigned long l4_bind_requests;	/* bits that the first IRQ thread has to bind */
static u8 l4_irq_bit_of[SOURCES];	/* by object id, less KEEL_ID_IRQ */

/*
 * By bit: the number in Linux, the object's id, and what a device writes to raise an MSI. The
 * object is 0 for a free bit, and while an MSI is requested for it. Entries of GSIs are written at
 * boot only. Bits of MSIs are taken and freed under l4_msi_lock, and the first IRQ thread fills in
 * an entry, and that of l4_irq_bit_of, while the owner of the lock waits for it. Handlers read
 * without a lock: whoever has the bit writes `irq` before the device learns the message.
 */
static struct {
	unsigned int irq;
	unsigned long object;
	struct msi_msg msg;
} l4_irq_sources[BITS_PER_LONG];

/* The interrupted registers where Linux itself was interrupted: user_mode() reads cs only. */
static struct pt_regs l4_server_regs = { .cs = __KERNEL_CS };

/*
 * Runs the handlers of the bits, and then softirqs. Called with l4_irq_off set, by the IRQ thread
 * or by the server when it replays; regs are the interrupted ones.
 */
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

/*
 * Runs the handlers of what is pending. Called on the server thread, by local_irq_restore() just
 * after it cleared l4_irq_off. Bits that are set during the handlers are found by the next turn.
 */
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

/*
 * Makes the server's IPC end if there is work for it. The user thread is triggered if its task has
 * to be rescheduled, has a signal, or other exit work: that is how user code is preempted.
 */
static void l4_irq_wake_server(unsigned long waiting)
{
	if (waiting == L4_WAITING_IDLE)
		keel_notify(keel_server(), 1);	/* any bit: the idle loop looks at none */
	else if (waiting && (read_thread_flags() & EXIT_TO_USER_MODE_WORK))
		keel_trigger(waiting == L4_WAITING_INSIDE ? keel_self(keel_server()) : waiting);
}

/*
 * Delivers interrupts on the IRQ thread: marks them as pending or runs the handlers, by the
 * protocol above. Handlers run with l4_irq_off set, as on hardware. Its value is restored after
 * them, because a server in an IPC had it set.
 */
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

/* Binds a GSI to the first IRQ thread, which calls this. */
static void l4_irq_bind_gsi(unsigned int bit)
{
	unsigned long mode = KEEL_IRQ_MODE_DEFAULT;

	if (keel_invoke(l4_irq_sources[bit].object, KEEL_OBJECT_BIND, &mode))
		pr_err("keel: no right over interrupt line %u\n", l4_irq_sources[bit].irq);
}

/*
 * Allocates an MSI, which the micro-kernel binds to the calling thread: the first IRQ thread. On
 * failure the entry's object stays 0.
 */
static void l4_irq_alloc_msi(unsigned int bit)
{
	struct keel_message m = { .tag = KEEL_TAG(KEEL_MSI_ALLOCATE, 0) };

	keel_call(KEEL_ID_MSI, &m);
	if (m.status || keel_label(&m))
		return;
	l4_irq_bit_of[m.words[0] - KEEL_ID_IRQ] = bit;
	l4_irq_sources[bit].object = m.words[0];
	l4_irq_sources[bit].msg.address_lo = m.words[1];
	l4_irq_sources[bit].msg.data = m.words[2];
}

/*
 * Serves all requests of l4_irq_bind(). This runs on the first IRQ thread, because the micro-kernel
 * sends an interrupt to the thread that bound it.
 */
static void l4_irq_bind_requested(void)
{
	unsigned long bits = READ_ONCE(l4_bind_requests);
	unsigned int bit;

	for_each_set_bit(bit, &bits, BITS_PER_LONG) {
		if (l4_irq_sources[bit].object)
			l4_irq_bind_gsi(bit);
		else
			l4_irq_alloc_msi(bit);
		clear_bit(bit, &l4_bind_requests);
	}
}

/*
 * Has the first IRQ thread bind a GSI or allocate an MSI for a bit, and spins until it has done so.
 * On the first processor that is at once, because the IRQ thread preempts the server. On others it
 * first finishes the handlers that it runs: the caller must not hold a lock that a handler takes.
 */
static void l4_irq_bind(unsigned int bit)
{
	set_bit(bit, &l4_bind_requests);
	keel_notify(KEEL_IRQ_THREAD, L4_NOTIFY_BIND);
	while (test_bit(bit, &l4_bind_requests))
		cpu_relax();
}

/* Allocates this processor's timer, which is then bound to the calling IRQ thread. */
static void l4_irq_bind_timer(void)
{
	unsigned long answer = 0;

	if (!keel_invoke(KEEL_ID_TIMER, KEEL_OBJECT_BIND, &answer))
		this_cpu_write(l4_timer, answer);
}

/*
 * Serves smp_send_stop(). The server thread never runs Linux again. User threads block at their
 * next system call or fault, because their handler does not reply; a running one is triggered so
 * that it blocks now.
 */
static void __noreturn l4_irq_stop_processor(void)
{
	unsigned long waiting = this_cpu_read(l4_waiting);

	set_cpu_online(raw_smp_processor_id(), false);
	if (waiting > L4_WAITING_INSIDE)
		keel_trigger(waiting);
	keel_stop_server();
	keel_sleep();
}

/* Serves the bits of a notification (L4_NOTIFY_*). */
static void l4_irq_notified(unsigned long bits)
{
	if (bits & L4_NOTIFY_STOP)
		l4_irq_stop_processor();
	if (bits & L4_NOTIFY_BIND)
		l4_irq_bind_requested();
	if (bits & NOTIFIED)
		l4_irq_deliver(bits & NOTIFIED);
}

/*
 * The loop of an IRQ thread. A receive that failed is repeated. Interrupts do not nest: softirqs
 * clear l4_irq_off, but the micro-kernel delivers the next interrupt only when this thread waits.
 */
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
		else if (keel_kind(&m) == KEEL_KIND_INTERRUPT &&
			 m.partner == this_cpu_read(l4_timer))
			l4_irq_deliver(BIT(TIMER_BIT));
		else if (keel_kind(&m) == KEEL_KIND_INTERRUPT)
			l4_irq_deliver(BIT(l4_irq_bit_of[m.partner - KEEL_ID_IRQ]));
	}
}

/*
 * Called before a GSI gets its first handler, with request_mutex of the descriptor held and not its
 * spinlock: l4_irq_bind() spins. If the interrupt fires before irq_startup(), the flow handler
 * marks it as pending and irq_startup() resends it.
 */
static int l4_gsi_request(struct irq_data *data)
{
	l4_irq_bind(l4_irq_bit_of[data->irq]);
	return 0;
}

/* Called after the last handler was removed. */
static void l4_gsi_release(struct irq_data *data)
{
	keel_invoke(KEEL_ID_IRQ + data->irq, KEEL_OBJECT_UNBIND, NULL);
}

/*
 * Nothing to do: a GSI that fired is not delivered again until it is acknowledged, which unmask
 * does after the handler. If it is still asserted then, it fires again.
 */
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

/*
 * An MSI is masked in the device. The micro-kernel neither masks it nor waits for an
 * acknowledgement: it is edge-triggered.
 */
static struct irq_chip l4_msi_chip = {
	.name = "keel-msi",
	.irq_mask = pci_msi_mask_irq,
	.irq_unmask = pci_msi_unmask_irq,
};

/* Serialises the allocation and the release of MSIs' bits. */
static DEFINE_MUTEX(l4_msi_lock);

/* Allocates an MSI; returns its bit, or BITS_PER_LONG if there is none. May sleep. */
static unsigned int l4_msi_alloc(void)
{
	unsigned int bit = FIRST_GSI_BIT + keel_start->irq_count;

	mutex_lock(&l4_msi_lock);
	while (bit < BITS_PER_LONG && l4_irq_sources[bit].object)
		bit++;
	if (bit < BITS_PER_LONG)
		l4_irq_bind(bit);
	if (bit < BITS_PER_LONG && !l4_irq_sources[bit].object)
		bit = BITS_PER_LONG;	/* the micro-kernel refused: the bit stays free */
	mutex_unlock(&l4_msi_lock);
	return bit;
}

/* The generic MSI code calls this for each MSI of a device; process context. */
int arch_setup_msi_irq(struct pci_dev *dev, struct msi_desc *desc)
{
	unsigned int bit = l4_msi_alloc(), irq;

	if (bit == BITS_PER_LONG)
		return -ENOSPC;
	irq = l4_irq_sources[bit].irq = L4_FIRST_MSI + bit;
	irq_set_msi_desc(irq, desc);
	irq_set_chip_and_handler(irq, &l4_msi_chip, handle_simple_irq);
	pci_write_msi_msg(irq, &l4_irq_sources[bit].msg);
	return 0;
}

/*
 * Releases an MSI: unbinds the object, which the device no longer raises, and frees the bit. May
 * sleep.
 */
void arch_teardown_msi_irq(unsigned int irq)
{
	unsigned int bit = irq - L4_FIRST_MSI;

	mutex_lock(&l4_msi_lock);
	keel_invoke(l4_irq_sources[bit].object, KEEL_OBJECT_UNBIND, NULL);
	irq_set_msi_desc(irq, NULL);
	l4_irq_sources[bit].object = 0;	/* last, because from here on the bit is free */
	mutex_unlock(&l4_msi_lock);
}

/*
 * Starts this processor's IRQ thread, which runs at once, binds its timer and waits. Called on the
 * processor itself, with interrupts off.
 */
void l4_irq_init(void)
{
	keel_create(keel_irq_thread(), l4_irq_thread, this_cpu_ptr(l4_irq_stack) + THREAD_SIZE,
		    keel_start->priority + 2, raw_smp_processor_id());
	if (!this_cpu_read(l4_timer))
		panic("keel: no timer");
}

/*
 * Gives a bit to each GSI that the start record lists, and starts the first IRQ thread. A GSI is
 * bound when it gets a handler.
 */
void __init init_IRQ(void)
{
	unsigned int i, bit = FIRST_GSI_BIT;

	for (i = 0; i < keel_start->irq_count; i++, bit++) {
		l4_irq_bit_of[keel_start->irqs[i]] = bit;
		l4_irq_sources[bit].irq = keel_start->irqs[i];
		l4_irq_sources[bit].object = KEEL_ID_IRQ + keel_start->irqs[i];
		irq_set_chip_and_handler(l4_irq_sources[bit].irq, &l4_gsi_chip, handle_level_irq);
	}
	l4_irq_init();
}
