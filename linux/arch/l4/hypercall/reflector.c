// SPDX-License-Identifier: GPL-2.0-only
/*
 * The keepers: pagers and exception handlers of the server's lthreads. Linux's code
 * faults only where a fixup is planned or where it is broken, and both are
 * decided on the faulting thread itself, as on bare hardware: the keeper pushes
 * the registers on its stack and lets it run on in keeper_entry, which calls
 * l4_kernel_trap(). A keeper knows nothing about Linux and cannot fault. Where
 * the processor has no instruction for it, it sets a thread's gs base.
 *
 * Each processor has a keeper, above the server in priority: while a top half waits
 * for the answer to a fault in an interrupt handler, the server does not run.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <asm/hypercall.h>
#include <asm/page.h>
#include <asm/processor.h>
#include <asm/trap_pf.h>
#include <asm/trapnr.h>
#include "reflector.h"

#define FRAME_WORDS (sizeof(struct keel_frame) / sizeof(long))
#define REPLY_WORDS (KEEL_REGISTER_WORDS + FRAME_WORDS)

static char l4_reflector_stacks[NR_CPUS][PAGE_SIZE] __aligned(PAGE_SIZE);

/* Vector 14 with the hardware's error code, made from what L4 tells. */
static void l4_page_fault_words(struct keel_frame *frame, const struct keel_message *m)
{
	frame->vector = X86_TRAP_PF;
	frame->error_code = keel_label(m) & KEEL_FPAGE_WRITE ? X86_PF_WRITE :
			    keel_label(m) & KEEL_FPAGE_EXEC ? X86_PF_INSTR : 0;
	frame->cr2 = m->words[0];
}

static void l4_push_trap(struct keel_frame *frame)
{
	struct l4_trap *trap = (void *)((frame->sp & ~15UL) - sizeof(*trap));

	memcpy(&trap->regs, &frame->r15, sizeof(trap->regs));
	trap->vector = frame->vector;
	trap->error_code = frame->error_code;
	trap->address = frame->cr2;
	trap->regs.orig_ax = -1;
	trap->regs.cs = __KERNEL_CS;	/* so that Linux knows its own code */
	frame->ip = (unsigned long)l4_reflector_entry;
	frame->sp = (unsigned long)trap;
	frame->di = (unsigned long)trap;
	frame->flags &= ~(X86_EFLAGS_TF | X86_EFLAGS_DF);
}

/* An exception of wrgsbase in keel_set_percpu_base() asks for what that would do. */
static bool l4_emulate_wrgsbase(struct keel_frame *frame)
{
	if (frame->vector != X86_TRAP_UD || frame->ip != (unsigned long)keel_set_percpu_base)
		return false;
	frame->gs_base = frame->di;
	frame->ip = (unsigned long)keel_percpu_base_set;
	return true;
}

static void l4_reflector_loop(struct keel_utcb *utcb)
{
	struct keel_frame *frame = (void *)&utcb->words[KEEL_REGISTER_WORDS];
	unsigned long flags = KEEL_IPC_RECEIVE | KEEL_IPC_OPEN;
	struct keel_message m = { };

	for (;;) {
		keel_ipc(flags, m.partner, 0, &m);
		flags = KEEL_IPC_RECEIVE | KEEL_IPC_OPEN;
		if (m.status || !keel_is_own(m.partner))
			continue;
		if (keel_kind(&m) == KEEL_KIND_PAGE_FAULT)
			l4_page_fault_words(frame, &m);
		else if (keel_kind(&m) == KEEL_KIND_EXCEPTION)
			frame->vector = keel_label(&m);
		else
			continue;
		if (!l4_emulate_wrgsbase(frame))
			l4_push_trap(frame);
		m.tag = KEEL_TAG(0, REPLY_WORDS);
		flags |= KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO;
	}
}

/* Starts a processor's keeper, before the lthreads that it serves; 0 or L4's status. */
unsigned long l4_reflector_create(unsigned int cpu)
{
	return keel_create(KEEL_REFLECTOR + cpu, (void (*)(void))l4_reflector_loop,
			   l4_reflector_stacks[cpu] + PAGE_SIZE, keel_start->priority + 1, cpu);
}

/* Starts the first keeper, which serves the first server thread from then on. */
void __init l4_reflector_init(void)
{
	struct keel_ex_regs *record = (void *)keel_utcb(KEEL_SERVER)->record;
	unsigned long server = keel_self(KEEL_SERVER);

	if (l4_reflector_create(0))
		panic("keel: no keeper");
	record->pager = keel_self(KEEL_REFLECTOR);
	record->handler = keel_self(KEEL_REFLECTOR);
	if (keel_ex_regs(&server, KEEL_EX_PAGER | KEEL_EX_HANDLER))
		panic("keel: the server keeps its old pager");
}
