/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The hypercall layer: all system calls to the micro-kernel, as Linux sees them. docs/abi.md
 * defines the calls. keel_ipc(), keel_resume(), keel_call() without map items and what is built of
 * those use registers only, and any lthread of the server's task may call them. The other functions
 * use the UTCB of the current processor's server thread: call them on that thread only, and do not
 * sleep between the first access to the UTCB and the end of the call (Linux is built without
 * preemption). No function calls schedule(); each may block the whole server thread in IPC.
 */
#ifndef _ASM_L4_HYPERCALL_H
#define _ASM_L4_HYPERCALL_H

#include <linux/threads.h>
#include <linux/types.h>
#include <asm/processor-flags.h>
#include <asm/smp.h>
#include <keel/abi.h>

/*
 * The lthreads of the server's task, by number. There are NR_CPUS of each kind, one for each
 * processor, except for the pager thread, of which there is one.
 */
enum keel_lthread {
	KEEL_SERVER,				/* runs Linux */
	KEEL_IRQ_THREAD = KEEL_SERVER + NR_CPUS,	/* receives interrupts, above the server */
	KEEL_PAGER = KEEL_IRQ_THREAD + NR_CPUS,	/* pager thread, of native lthreads */
	KEEL_REFLECTOR,				/* trap reflectors, for the server's own faults */
};

/* The server thread and the IRQ thread of the current processor. */
static inline enum keel_lthread keel_server(void)
{
	return KEEL_SERVER + raw_smp_processor_id();
}

static inline enum keel_lthread keel_irq_thread(void)
{
	return KEEL_IRQ_THREAD + raw_smp_processor_id();
}

struct keel_message {
	unsigned long status;
	unsigned long partner;
	unsigned long tag;
	unsigned long words[KEEL_REGISTER_WORDS];
};

extern struct keel_start *keel_start;
extern const struct keel_info *keel_kip;

#define KEEL_STATUS(side, code) (-(((unsigned long)(side) << 8) | (code)))
#define KEEL_TAG(label, words) \
	(((unsigned long)(label) << KEEL_TAG_LABEL_SHIFT) | (words))

static inline unsigned long keel_kind(const struct keel_message *m)
{
	return (m->tag >> KEEL_TAG_KIND_SHIFT) & KEEL_TAG_KIND_MASK;
}

static inline unsigned long keel_label(const struct keel_message *m)
{
	return m->tag >> KEEL_TAG_LABEL_SHIFT;
}

/*
 * Returns true for a kernel-generated message of this kind and label. The comparison is exact,
 * because the micro-kernel sets no flags between the two fields in its own messages.
 */
static __always_inline bool keel_is(const struct keel_message *m, unsigned long kind,
				    unsigned long label)
{
	unsigned long tag = kind << KEEL_TAG_KIND_SHIFT | label << KEEL_TAG_LABEL_SHIFT;

	return m->tag - tag < 1UL << KEEL_TAG_KIND_SHIFT;
}

static inline struct keel_utcb *keel_utcb(enum keel_lthread lthread)
{
	return (struct keel_utcb *)(keel_start->area + KEEL_AREA_UTCBS +
				    (unsigned long)lthread * KEEL_PAGE_SIZE);
}

static inline struct keel_frame *keel_frame(unsigned int index)
{
	return (struct keel_frame *)(keel_start->area + KEEL_AREA_FRAMES +
				     (unsigned long)index * KEEL_FRAME_SIZE);
}

/* What fpages and ranges have of an address: the upper bits are copies of the highest of these. */
static inline unsigned long keel_number(unsigned long address)
{
	return address & ((1UL << KEEL_SPACE_SHIFT) - 1);
}

/* An fpage of memory: of 2^log2 bytes, and of one page. The address is rounded down. */
static inline unsigned long keel_fpage(unsigned long address, unsigned long log2,
				       unsigned long rights)
{
	return (keel_number(address) & -(1UL << log2)) | log2 << KEEL_FPAGE_SIZE_SHIFT | rights;
}

static inline unsigned long keel_page(unsigned long address, unsigned long rights)
{
	return keel_fpage(address, KEEL_PAGE_SHIFT, rights);
}

/* Where SYSCALL enters the micro-kernel, if Linux runs in supervisor mode; otherwise 0. */
extern unsigned long keel_entry;

/*
 * In place of SYSCALL in supervisor mode: jumps to keel_entry and does itself what SYSCALL would
 * do, without its time. A restarted call begins at the SYSCALL.
 */
#define KEEL_JUMP						\
	"leaq 1f(%%rip), %%rcx\n\t"				\
	"movl %[fixed], %%r11d\n\t"				\
	"cli\n\t"						\
	"jmp *keel_entry(%%rip)\n"				\
	"2:\tsyscall\n"						\
	"1:"
#define KEEL_JUMP_FLAGS [fixed] "i" (X86_EFLAGS_IF | X86_EFLAGS_FIXED)

/*
 * One IPC: sends to `to` and receives from `from` as `flags` (KEEL_IPC_*) say. *m is the message to
 * send, and the received one afterwards; m->status is 0 or a KEEL_STATUS().
 */
static __always_inline void keel_ipc(unsigned long flags, unsigned long to,
				     unsigned long from, struct keel_message *m)
{
	register unsigned long w0 asm("r8") = m->words[0];
	register unsigned long w1 asm("r9") = m->words[1];
	register unsigned long w2 asm("r10") = m->words[2];
	register unsigned long w3 asm("r12") = m->words[3];
	register unsigned long w4 asm("r13") = m->words[4];
	register unsigned long w5 asm("r14") = m->words[5];
	unsigned long status = KEEL_CALL_IPC | flags;

	asm volatile("syscall"
		     : "+a" (status), "+D" (to), "+S" (m->tag), "+r" (w0),
		       "+r" (w1), "+r" (w2), "+r" (w3), "+r" (w4), "+r" (w5)
		     : "d" (from)
		     : "rcx", "r11", "memory");
	*m = (struct keel_message){ status, to, m->tag, { w0, w1, w2, w3, w4, w5 } };
}

#define KEEL_RESUME(call)							\
	asm volatile(call							\
		     : "+a" (status), "+D" (to), "+S" (m->tag), "=r" (w0), "=r" (w1), \
		       "=r" (w2), "=r" (w3), "=r" (w4), "=r" (w5)		\
		     : "d" (0UL), KEEL_JUMP_FLAGS : "rcx", "r11", "memory")

/*
 * keel_ipc() with an empty message, which resumes a thread that waits for the server's reply, and
 * with an open wait for the next message. No words are loaded into registers first. With
 * `supervisor` it uses KEEL_JUMP.
 */
static __always_inline void keel_resume(unsigned long flags, unsigned long to,
					struct keel_message *m, bool supervisor)
{
	register unsigned long w0 asm("r8");
	register unsigned long w1 asm("r9");
	register unsigned long w2 asm("r10");
	register unsigned long w3 asm("r12");
	register unsigned long w4 asm("r13");
	register unsigned long w5 asm("r14");
	unsigned long status = KEEL_CALL_IPC | flags;

	if (supervisor)
		KEEL_RESUME(KEEL_JUMP);
	else
		KEEL_RESUME("syscall");
	*m = (struct keel_message){ status, to, m->tag, { w0, w1, w2, w3, w4, w5 } };
}

/* Sends to `to` and waits for its reply only. */
static inline void keel_call(unsigned long to, struct keel_message *m)
{
	keel_ipc(KEEL_IPC_SEND | KEEL_IPC_RECEIVE, to, to, m);
}

void keel_init(struct keel_start *start);
unsigned long keel_self(enum keel_lthread lthread);
bool keel_is_own(unsigned long id);
unsigned long keel_own_task(void);
unsigned long keel_create(enum keel_lthread lthread, void (*entry)(void), void *stack_top,
			  unsigned long priority, unsigned int cpu);
void keel_set_percpu_base(unsigned long base);
extern const char keel_percpu_base_set[];
int keel_invoke(unsigned long source, unsigned long operation, unsigned long *word);
void keel_notify(enum keel_lthread lthread, unsigned long bits);
void keel_trigger(unsigned long thread);
void keel_print(const char *text, unsigned int length);
void __noreturn keel_shutdown(unsigned long how);
void __noreturn keel_sleep(void);
void keel_stop_server(void);
int keel_account(unsigned long task, unsigned long *words);
bool keel_map_ports(unsigned int port, unsigned int log2);
bool keel_map_device(unsigned long phys, unsigned long virt);

unsigned long keel_ex_regs(unsigned long *thread, unsigned long mask);
unsigned long keel_schedule(unsigned long thread, unsigned long priority, unsigned int cpu);
unsigned long keel_set_reach(unsigned long thread, unsigned long reach);
bool keel_waits(enum keel_lthread lthread);
unsigned long keel_task_new(unsigned long *task, unsigned long flags, unsigned long area);
unsigned long keel_unmap(unsigned long task, const struct keel_unmap_range *ranges,
			 unsigned int count);
unsigned long keel_unmap_all(unsigned long task);
unsigned long keel_move_table(unsigned long task, unsigned long from, unsigned long to);
int keel_buy_frames(unsigned int first, unsigned int count);

/* The record in the UTCB of this processor's server thread, by which keel_ex_regs() is called. */
static inline struct keel_ex_regs *keel_record(void)
{
	return (struct keel_ex_regs *)keel_utcb(keel_server())->record;
}

#endif
