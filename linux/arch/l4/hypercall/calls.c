// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hypercall layer: the micro-kernel's calls, and the services of its kernel objects, of sigma0
 * and of the root task. Nothing here knows about Linux's tasks. Functions that use a UTCB (map
 * items, records, more words than registers) are for the server threads only; the IRQ threads may
 * call the others too. asm/hypercall.h has the preconditions.
 */
#include <linux/cache.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <asm/hypercall.h>
#include <asm/msr-index.h>
#include <asm/processor.h>

struct keel_start *keel_start;
const struct keel_info *keel_kip;
/* docs/abi.md: IA32_LSTAR in supervisor mode. */
unsigned long keel_entry __ro_after_init;

/* sigma0's first thread: version 1, one level deep. */
#define KEEL_SIGMA0 (1UL << KEEL_ID_VERSION_SHIFT | \
		     (unsigned long)KEEL_TASK_SIGMA0 << KEEL_ID_TASK_SHIFT | \
		     1UL << KEEL_ID_NESTING_SHIFT)
/* The size of a user space, in pages. Linux does not use the last page. */
#define USER_PAGES ((TASK_SIZE_MAX + PAGE_SIZE) >> PAGE_SHIFT)
#define PRINT_WORDS (KEEL_REGISTER_WORDS - 1)

/* Called first: l4_boot() passes the start record. */
void __init keel_init(struct keel_start *start)
{
	unsigned long low, high, cs;

	keel_start = start;
	keel_kip = (const struct keel_info *)(start->area + KEEL_AREA_KIP);
	asm("mov %%cs, %0" : "=r" (cs));
	if (!(cs & SEGMENT_RPL_MASK)) {
		asm("rdmsr" : "=a" (low), "=d" (high) : "c" (MSR_LSTAR));
		keel_entry = high << 32 | low;
	}
}

/* Returns the id of an lthread of the server's task, which the micro-kernel stores in its UTCB. */
unsigned long keel_self(enum keel_lthread lthread)
{
	return keel_utcb(lthread)->id;
}

/* Returns true if the id is that of an lthread of the server's task. */
bool keel_is_own(unsigned long id)
{
	unsigned long mask = (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;

	return !((id ^ keel_self(KEEL_SERVER)) & ((1UL << KEEL_ID_VERSION_SHIFT) - 1) & ~mask);
}

/*
 * Invokes an operation of a kernel object, with *word as its argument; *word becomes word 0 of the
 * reply. word may be NULL. Returns 0 or -EIO.
 */
int keel_invoke(unsigned long object, unsigned long operation, unsigned long *word)
{
	struct keel_message m = {
		.tag = KEEL_TAG(operation, 1),
		.words = { word ? *word : 0 },
	};

	keel_call(object, &m);
	if (m.status)
		return -EIO;
	if (word)
		*word = m.words[0];
	return keel_label(&m) ? -EIO : 0;
}

/*
 * Notifies an lthread of the server's task. Does not block; bits are latched until it receives
 * them.
 */
void keel_notify(enum keel_lthread lthread, unsigned long bits)
{
	struct keel_message m = { .words = { bits } };

	keel_ipc(KEEL_IPC_SEND | KEEL_IPC_NOTIFY, keel_self(lthread), 0, &m);
}

/* Prints through the root task, with as many bytes in a message as fit into registers. */
void keel_print(const char *text, unsigned int length)
{
	while (length) {
		struct keel_message m = { .tag = KEEL_TAG(KEEL_ROOT_PRINT, KEEL_REGISTER_WORDS) };
		unsigned int part = min_t(unsigned int, length, PRINT_WORDS * sizeof(long));

		m.words[0] = part;
		memcpy(&m.words[1], text, part);
		keel_call(keel_start->root, &m);
		text += part;
		length -= part;
	}
}

/* Asks the root task to shut down: `how` is KEEL_SHUTDOWN_*. */
void __noreturn keel_shutdown(unsigned long how)
{
	struct keel_message m = { .tag = KEEL_TAG(KEEL_ROOT_SHUTDOWN, 1), .words = { how } };

	keel_call(keel_start->root, &m);
	keel_sleep();	/* until the machine powers off */
}

/* Blocks the calling lthread: the nil thread never sends a message. */
void __noreturn keel_sleep(void)
{
	struct keel_message m = { };

	for (;;)
		keel_ipc(KEEL_IPC_RECEIVE, 0, KEEL_ID_NIL, &m);
}

/*
 * Makes this processor's server thread sleep, wherever it is. Called by the IRQ thread, whose own
 * record is used, because the server may be using its.
 */
void keel_stop_server(void)
{
	struct keel_ex_regs *record = (void *)keel_utcb(keel_irq_thread())->record;
	unsigned long server = keel_self(keel_server());

	record->ip = (unsigned long)keel_sleep;
	keel_ex_regs(&server, KEEL_EX_IP | KEEL_EX_CANCEL);
}

/* Reads the kmem quota of a task (0: the server's) as KEEL_ACCOUNT_WORDS words; 0 or -EIO. */
int keel_account(unsigned long task, unsigned long *words)
{
	struct keel_message m = { .tag = KEEL_TAG(KEEL_QUOTA_READ, 1), .words = { task } };
	struct keel_utcb *utcb = keel_utcb(keel_server());

	keel_call(KEEL_ID_QUOTA, &m);
	if (m.status || keel_label(&m))
		return -EIO;
	memcpy(words, m.words, sizeof(m.words));
	memcpy(words + KEEL_REGISTER_WORDS, utcb->words + KEEL_REGISTER_WORDS,
	       (KEEL_ACCOUNT_WORDS - KEEL_REGISTER_WORDS) * sizeof(long));
	return 0;
}

/* Buys pages of frames, from the first-th on, for the kmem quota; 0 or -ENOMEM. */
int keel_buy_frames(unsigned int first, unsigned int count)
{
	struct keel_message m = {
		.tag = KEEL_TAG(KEEL_QUOTA_BUY_FRAMES, 2),
		.words = { first, count },
	};

	keel_call(KEEL_ID_QUOTA, &m);
	return m.status || keel_label(&m) ? -ENOMEM : 0;
}

/*
 * Asks sigma0 to map an fpage to a receive window of the server's; returns true if it was mapped.
 */
static bool keel_sigma0_map(unsigned long fpage, unsigned long window)
{
	struct keel_message m = { .tag = KEEL_TAG(KEEL_SIGMA0_MAP, 1), .words = { fpage } };
	struct keel_utcb *utcb = keel_utcb(keel_server());
	unsigned long maps;

	utcb->receive_fpage = window;
	keel_call(KEEL_SIGMA0, &m);
	utcb->receive_fpage = KEEL_FPAGE_NIL;
	maps = (m.tag >> KEEL_TAG_MAPS_SHIFT) & 0xff;
	return !m.status && maps && utcb->maps[1] != KEEL_FPAGE_NIL;
}

/* Asks sigma0 for 2^log2 aligned I/O ports; returns true if they were granted. */
bool keel_map_ports(unsigned int port, unsigned int log2)
{
	unsigned long rights = KEEL_FPAGE_IO | KEEL_FPAGE_READ | KEEL_FPAGE_WRITE;
	unsigned long all = rights | 16UL << KEEL_FPAGE_SIZE_SHIFT;

	return keel_sigma0_map((unsigned long)port << KEEL_FPAGE_PORT_SHIFT |
			       (unsigned long)log2 << KEEL_FPAGE_SIZE_SHIFT | rights, all);
}

/*
 * Asks sigma0 to map a page of device memory at a kernel address; returns true if it did. Pages of
 * the firmware are granted read-only, so a second request asks for less.
 */
bool keel_map_device(unsigned long phys, unsigned long virt)
{
	unsigned long page = keel_page(phys, KEEL_FPAGE_READ) |
			     (unsigned long)KEEL_CACHE_UNCACHED << KEEL_FPAGE_CACHE_SHIFT;
	unsigned long window = keel_page(virt, KEEL_FPAGE_READ | KEEL_FPAGE_WRITE);

	return keel_sigma0_map(page | KEEL_FPAGE_WRITE, window) || keel_sigma0_map(page, window);
}

/*
 * Makes a system call with r[] in rdi, rsi, rdx, r8, r9, r10, r12 and r13. Returns the status; rdi,
 * rsi and rdx are stored back.
 */
static unsigned long keel_syscall(unsigned long call, unsigned long r[8])
{
	register unsigned long r8 asm("r8") = r[3];
	register unsigned long r9 asm("r9") = r[4];
	register unsigned long r10 asm("r10") = r[5];
	register unsigned long r12 asm("r12") = r[6];
	register unsigned long r13 asm("r13") = r[7];

	asm volatile("cmpq $0, keel_entry(%%rip)\n\t"
		     "je 2f\n\t"
		     KEEL_JUMP
		     : "+a" (call), "+D" (r[0]), "+S" (r[1]), "+d" (r[2]), "+r" (r8), "+r" (r9),
		       "+r" (r10), "+r" (r12), "+r" (r13)
		     : KEEL_JUMP_FLAGS : "rcx", "r11", "memory");
	return call;
}

/*
 * lthread_ex_regs, with the values in keel_record() that the mask (KEEL_EX_*) names. *thread
 * becomes the lthread's full id. Returns the status.
 */
unsigned long keel_ex_regs(unsigned long *thread, unsigned long mask)
{
	unsigned long registers[8] = { *thread, mask };
	unsigned long status = keel_syscall(KEEL_CALL_LTHREAD_EX_REGS, registers);

	*thread = registers[0];
	return status;
}

/* Makes an alien thread send its handler a message before it next executes user code. */
void keel_trigger(unsigned long thread)
{
	keel_ex_regs(&thread, KEEL_EX_TRIGGER);
}

/* Sets the priority and the processor of a thread. */
unsigned long keel_schedule(unsigned long thread, unsigned long priority, unsigned int cpu)
{
	unsigned long mask = KEEL_SCHEDULE_PRIORITY | KEEL_SCHEDULE_PROCESSOR;
	unsigned long registers[8] = { thread, mask, priority, [5] = cpu };

	return keel_syscall(KEEL_CALL_THREAD_SCHEDULE, registers);
}

/* Puts a thread of a process into a window of the server's tables. Returns the status. */
unsigned long keel_set_reach(unsigned long thread, unsigned long reach)
{
	unsigned long registers[8] = { thread, KEEL_SCHEDULE_SMALL, [7] = reach };

	return keel_syscall(KEEL_CALL_THREAD_SCHEDULE, registers);
}

/*
 * Returns true if an lthread of the server's task waits for a message of anybody, or just gets one
 * in pieces: with its own reply it is ready.
 */
bool keel_waits(enum keel_lthread lthread)
{
	unsigned long registers[8] = { keel_self(lthread) };

	if (keel_syscall(KEEL_CALL_THREAD_SCHEDULE, registers))
		return false;
	return registers[1] == KEEL_STATE_TRANSFERRING ||
	       (registers[1] == KEEL_STATE_RECEIVING && registers[2] == KEEL_ID_NIL);
}

/*
 * Creates a task without lthreads, with a kernel-shared region at `area` (0: none); for
 * KEEL_TASK_INACTIVE deletes the task and keeps its number. *task becomes the new id.
 */
unsigned long keel_task_new(unsigned long *task, unsigned long flags, unsigned long area)
{
	unsigned long registers[8] = { *task, flags, keel_self(KEEL_SERVER), 0, 0,
				       KEEL_TASK_SHARED_QUOTA, area };
	unsigned long status = keel_syscall(KEEL_CALL_TASK_NEW, registers);

	*task = registers[0];
	return status;
}

/* Unmaps ranges in a task, except for the rights in the low bits of their addresses. */
unsigned long keel_unmap(unsigned long task, const struct keel_unmap_range *ranges,
			 unsigned int count)
{
	unsigned long registers[8] = { 0, KEEL_UNMAP_TASK, task, count };

	memcpy(keel_utcb(keel_server())->record, ranges, count * sizeof(*ranges));
	return keel_syscall(KEEL_CALL_FPAGE_UNMAP, registers);
}

/* Moves what a task has mapped in the 2 MB at `from` to `to`, or unmaps it. */
unsigned long keel_move_table(unsigned long task, unsigned long from, unsigned long to)
{
	const struct keel_unmap_range range = { .address = from, .pages = SZ_2M >> PAGE_SHIFT };
	unsigned long registers[8] = { 0, KEEL_UNMAP_TASK | KEEL_UNMAP_MOVE, task, 1, to };

	memcpy(keel_utcb(keel_server())->record, &range, sizeof(range));
	return keel_syscall(KEEL_CALL_FPAGE_UNMAP, registers);
}

/*
 * Unmaps everything in a task. No mapping is split, so this needs no kmem and cannot fail for it.
 */
unsigned long keel_unmap_all(unsigned long task)
{
	const struct keel_unmap_range all = { .pages = USER_PAGES };

	return keel_unmap(task, &all, 1);
}
