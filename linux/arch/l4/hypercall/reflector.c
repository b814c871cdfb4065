// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trap reflectors: pagers and exception handlers of the server task's lthreads. Linux's code
 * faults only where a fixup exists or where it is broken. Both are decided on the faulting thread
 * itself, as on hardware: the reflector pushes the registers on that thread's stack and resumes it
 * in l4_reflector_entry, which calls l4_kernel_trap(). A thread whose stack pointer is not Linux's
 * gets the last stack, on which Linux ends. A reflector uses nothing of Linux but its page tables
 * (l4_map_again()) and never faults. On processors without WRGSBASE it also sets a thread's gs
 * base. Each processor has one, with a priority above the server: while the IRQ thread waits for
 * the reply to a fault in an interrupt handler, the server must not run.
 */
#include <linux/atomic.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/hypercall.h>
#include <asm/l4.h>
#include <asm/page.h>
#include <asm/processor.h>
#include <asm/trap_pf.h>
#include <asm/trapnr.h>
#include "reflector.h"

#define FRAME_WORDS (sizeof(struct keel_frame) / sizeof(long))
#define REPLY_WORDS (KEEL_REGISTER_WORDS + FRAME_WORDS)

char l4_last_stack[THREAD_SIZE] __aligned(16);
static unsigned long l4_last_stack_taken;

static char l4_reflector_stacks[NR_CPUS][PAGE_SIZE] __aligned(PAGE_SIZE);

/* Completes the frame for a page fault: vector, error code and address, as hardware has them. */
static void l4_page_fault_words(struct keel_frame *frame, const struct keel_message *m)
{
	frame->vector = X86_TRAP_PF;
	frame->error_code = keel_label(m) & KEEL_FPAGE_WRITE ? X86_PF_WRITE :
			    keel_label(m) & KEEL_FPAGE_EXEC ? X86_PF_INSTR : 0;
	frame->cr2 = m->words[0];
}

/* Returns true if a stack of Linux's may be there: they are in its image or in its RAM. */
static bool l4_may_be_stack(unsigned long address)
{
	return l4_virt_addr_valid(address) &&
	       (address >= CONFIG_L4_IMAGE_BASE || l4_is_ram(virt_to_pfn(address)));
}

/*
 * Pushes a struct l4_trap on the faulting thread's stack and makes it resume in l4_reflector_entry.
 * Without a stack of Linux's the thread gets the last one. Returns false if that is taken: the
 * thread that has it ends Linux.
 */
static bool l4_push_trap(struct keel_frame *frame)
{
	unsigned long sp = frame->sp;
	struct l4_trap *trap;

	if (!l4_may_be_stack(sp - sizeof(long)) || !l4_may_be_stack(sp - 2 * sizeof(*trap))) {
		if (xchg(&l4_last_stack_taken, 1))
			return false;
		sp = (unsigned long)l4_last_stack + sizeof(l4_last_stack);
	}
	trap = (void *)((sp & ~15UL) - sizeof(*trap));
	memcpy(&trap->regs, &frame->r15, sizeof(trap->regs));
	trap->vector = frame->vector;
	trap->error_code = frame->error_code;
	trap->address = frame->cr2;
	trap->regs.orig_ax = -1;
	trap->regs.cs = __KERNEL_CS;	/* for user_mode(): the server runs in ring 3 */
	frame->ip = (unsigned long)l4_reflector_entry;
	frame->sp = (unsigned long)trap;
	frame->di = (unsigned long)trap;
	frame->flags &= ~(X86_EFLAGS_TF | X86_EFLAGS_DF);
	return true;
}

/* Emulates the WRGSBASE of keel_set_percpu_base(), on processors where it is an invalid opcode. */
static bool l4_emulate_wrgsbase(struct keel_frame *frame)
{
	if (frame->vector != X86_TRAP_UD || frame->ip != (unsigned long)keel_set_percpu_base)
		return false;
	frame->gs_base = frame->di;
	frame->ip = (unsigned long)keel_percpu_base_set;
	return true;
}

/*
 * Makes the frame that of a thread that goes on, in its handler or where it was. Returns false if
 * it cannot, or if the message is none that is served.
 */
static bool l4_reflect(struct keel_utcb *utcb, struct keel_frame *frame,
		       const struct keel_message *m)
{
	if (keel_kind(m) == KEEL_KIND_PAGE_FAULT) {
		/* The last word says that a page is there, without the right. */
		if (!m->words[3] && l4_map_again(m->words[0], keel_label(m), utcb))
			return true;
		l4_page_fault_words(frame, m);
	} else if (keel_kind(m) == KEEL_KIND_EXCEPTION) {
		frame->vector = keel_label(m);
	} else {
		return false;
	}
	return l4_emulate_wrgsbase(frame) || l4_push_trap(frame);
}

/* The loop of a trap reflector. Only faults of the server's own lthreads are served. */
static void l4_reflector_loop(struct keel_utcb *utcb)
{
	struct keel_frame *frame = (void *)&utcb->words[KEEL_REGISTER_WORDS];
	unsigned long flags = KEEL_IPC_RECEIVE | KEEL_IPC_OPEN;
	unsigned int cpu = utcb - keel_utcb(KEEL_REFLECTOR);
	struct keel_message m = { };

	for (;;) {
		keel_ipc(flags, m.partner, 0, &m);
		flags = KEEL_IPC_RECEIVE | KEEL_IPC_OPEN;
		if (m.status || !keel_is_own(m.partner))
			continue;
		if (!l4_inside_reflect(frame, &m, cpu) && !l4_reflect(utcb, frame, &m))
			continue;
		m.tag = KEEL_TAG(0, REPLY_WORDS);
		flags |= KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO;
	}
}

/* Starts a processor's reflector, before the lthreads that it serves. Returns 0 or L4's status. */
unsigned long l4_reflector_create(unsigned int cpu)
{
	return keel_create(KEEL_REFLECTOR + cpu, (void (*)(void))l4_reflector_loop,
			   l4_reflector_stacks[cpu] + PAGE_SIZE, keel_start->priority + 1, cpu);
}

/* Starts the first reflector and makes it pager and handler of the first server thread. */
void __init l4_reflector_init(void)
{
	struct keel_ex_regs *record = (void *)keel_utcb(KEEL_SERVER)->record;
	unsigned long server = keel_self(KEEL_SERVER);

	if (l4_reflector_create(0))
		panic("keel: no trap reflector");
	record->pager = keel_self(KEEL_REFLECTOR);
	record->handler = keel_self(KEEL_REFLECTOR);
	if (keel_ex_regs(&server, KEEL_EX_PAGER | KEEL_EX_HANDLER))
		panic("keel: the server keeps its old pager");
}
