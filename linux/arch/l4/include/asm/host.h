/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The only door to the micro-kernel: its calls, as Linux's side sees them. What
 * the calls mean stands in docs/abi.md. Except for host_ipc() and what is built
 * from it, everything here belongs to the server threads: each uses the UTCB of its
 * own processor, and nothing between may sleep.
 */
#ifndef _ASM_L4_HOST_H
#define _ASM_L4_HOST_H

#include <linux/threads.h>
#include <linux/types.h>
#include <asm/smp.h>
#include <keel/abi.h>

/* The lthreads of the server's task, by number; those with a span have one for each processor. */
enum host_lthread {
	HOST_SERVER,					/* runs Linux */
	HOST_TOP_HALF = HOST_SERVER + NR_CPUS,		/* receives interrupts, above the server */
	HOST_MAPPER = HOST_TOP_HALF + NR_CPUS,		/* maps the server's pages to the server */
	HOST_KEEPER,	/* the last, with a span: turns the server's faults into traps */
};

/* Those of this processor. */
static inline enum host_lthread host_server(void)
{
	return HOST_SERVER + raw_smp_processor_id();
}

static inline enum host_lthread host_top_half(void)
{
	return HOST_TOP_HALF + raw_smp_processor_id();
}

struct host_message {
	unsigned long status;
	unsigned long partner;
	unsigned long tag;
	unsigned long words[KEEL_REGISTER_WORDS];
};

extern struct keel_start *host_start;
extern const struct keel_info *host_info;

#define HOST_STATUS(side, code) (-(((unsigned long)(side) << 8) | (code)))
#define HOST_TAG(label, words) \
	(((unsigned long)(label) << KEEL_TAG_LABEL_SHIFT) | (words))

static inline unsigned long host_kind(const struct host_message *m)
{
	return (m->tag >> KEEL_TAG_KIND_SHIFT) & KEEL_TAG_KIND_MASK;
}

static inline unsigned long host_label(const struct host_message *m)
{
	return m->tag >> KEEL_TAG_LABEL_SHIFT;
}

/* Whether a message is the kernel's own, of a kind and with a label; such come with no flags between these. */
static __always_inline bool host_is(const struct host_message *m, unsigned long kind,
				    unsigned long label)
{
	unsigned long tag = kind << KEEL_TAG_KIND_SHIFT | label << KEEL_TAG_LABEL_SHIFT;

	return m->tag - tag < 1UL << KEEL_TAG_KIND_SHIFT;
}

static inline struct keel_utcb *host_utcb(enum host_lthread lthread)
{
	return (struct keel_utcb *)(host_start->area + KEEL_AREA_UTCBS +
				    (unsigned long)lthread * KEEL_PAGE_SIZE);
}

static inline struct keel_frame *host_frame(unsigned int index)
{
	return (struct keel_frame *)(host_start->area + KEEL_AREA_FRAMES +
				     (unsigned long)index * KEEL_FRAME_SIZE);
}

/* A memory fpage of 2^log2 bytes, and of one page. */
static inline unsigned long host_fpage(unsigned long address, unsigned long log2,
				       unsigned long rights)
{
	return (address & -(1UL << log2)) | log2 << KEEL_FPAGE_SIZE_SHIFT | rights;
}

static inline unsigned long host_page(unsigned long address, unsigned long rights)
{
	return host_fpage(address, KEEL_PAGE_SHIFT, rights);
}

static __always_inline void host_ipc(unsigned long flags, unsigned long to,
				     unsigned long from, struct host_message *m)
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
	*m = (struct host_message){ status, to, m->tag, { w0, w1, w2, w3, w4, w5 } };
}

/* To a thread of ours a message without words, by which it goes on; from it what it sends. */
static __always_inline void host_resume(unsigned long flags, unsigned long to,
					struct host_message *m)
{
	register unsigned long w0 asm("r8");
	register unsigned long w1 asm("r9");
	register unsigned long w2 asm("r10");
	register unsigned long w3 asm("r12");
	register unsigned long w4 asm("r13");
	register unsigned long w5 asm("r14");
	unsigned long status = KEEL_CALL_IPC | flags;

	asm volatile("syscall"
		     : "+a" (status), "+D" (to), "+S" (m->tag), "=r" (w0), "=r" (w1),
		       "=r" (w2), "=r" (w3), "=r" (w4), "=r" (w5)
		     : "d" (0UL) : "rcx", "r11", "memory");
	*m = (struct host_message){ status, to, m->tag, { w0, w1, w2, w3, w4, w5 } };
}

/* Sends and waits for the partner's answer. */
static inline void host_call(unsigned long to, struct host_message *m)
{
	host_ipc(KEEL_IPC_SEND | KEEL_IPC_RECEIVE, to, to, m);
}

void host_init(struct keel_start *start);
unsigned long host_self(enum host_lthread lthread);
bool host_is_own(unsigned long id);
unsigned long host_create(enum host_lthread lthread, void (*entry)(void), void *stack_top,
			  unsigned long priority, unsigned int cpu);
void host_set_percpu_base(unsigned long base);
extern const char host_percpu_base_set[];
int host_source(unsigned long source, unsigned long operation, unsigned long *word);
void host_notify(enum host_lthread lthread, unsigned long bits);
void host_trigger(unsigned long thread);
void host_print(const char *text, unsigned int length);
void __noreturn host_end(unsigned long how);
void __noreturn host_sleep(void);
void host_stop_server(void);
int host_account(unsigned long task, unsigned long *words);
bool host_map_ports(unsigned int port, unsigned int log2);
bool host_map_device(unsigned long phys, unsigned long virt);

unsigned long host_ex_regs(unsigned long *thread, unsigned long mask);
unsigned long host_schedule(unsigned long thread, unsigned long priority, unsigned int cpu);
unsigned long host_task_new(unsigned long *task, unsigned long flags, unsigned long area);
unsigned long host_unmap(unsigned long task, const struct keel_unmap_range *ranges,
			 unsigned int count);
unsigned long host_unmap_all(unsigned long task);
unsigned long host_move_table(unsigned long task, unsigned long from, unsigned long to);
int host_buy_frames(unsigned int first, unsigned int count);

static inline struct keel_ex_regs *host_record(void)
{
	return (struct keel_ex_regs *)host_utcb(host_server())->record;
}

#endif
