/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of a thread besides its frame, and what programs may see of the processor. */
#ifndef _ASM_L4_PROCESSOR_H
#define _ASM_L4_PROCESSOR_H

/* x86's threads are not used, and all processors are alike. */
#define thread_struct x86_thread_struct
#define arch_thread_struct_whitelist x86_thread_struct_whitelist
#include <x86/include/asm/processor.h>
#include <asm/ptrace.h>
#undef thread_struct
#undef arch_thread_struct_whitelist
#undef cpu_data
#undef INIT_THREAD
#undef task_pt_regs

#define cpu_data(cpu) boot_cpu_data

#define L4_DR7 (HBP_NUM + 1)			/* after dr6 */
#define L4_DEBUG_REGISTERS (L4_DR7 + 1)
#define L4_NO_CPU UINT_MAX

/* How the server loop has to resume an lthread (kernel/dispatch.c). */
enum l4_resume_action {
	L4_RESUME_REPLY,	/* an empty reply */
	L4_RESUME_START,	/* KEEL_EX_START: it does not wait for a reply */
	L4_RESUME_MAPPINGS,	/* a reply that maps fault_address */
};

/* A page fault that had been served before, and how often the same one came in a row. */
struct l4_served_fault {
	unsigned long ip, address, right;
	unsigned long unmaps;		/* of the mm at that time */
	unsigned int count;
};

struct thread_struct {
	struct_group(own, /* of no other task: 0 in a new one */
		struct keel_frame *frame;	/* shared with the micro-kernel */
		unsigned long keel_thread;	/* lthread's id, 0: none */
		unsigned long keel_task;	/* L4 task that it lives in */
		unsigned long pager;		/* pager before the server, 0: none */
		struct l4_native *native;	/* that it serves (kernel/native.c) */
		struct fpu fpu;
		unsigned long loaded;		/* FPU state and fs base are the server's */
		void *frame_copy;		/* of signal_frame in two pages; kept */
		unsigned long debug[L4_DEBUG_REGISTERS];
		struct perf_event *ptrace_bps[HBP_NUM];
		unsigned long place;		/* of the next exec, and of this one (asm/l4.h) */
	);
	unsigned long ksp;		/* kernel stack pointer while not running */
	unsigned int keel_cpu;		/* the processor whose server thread is its handler */
	unsigned int ready_cpu;		/* keel_cpu if nothing is to be prepared, else L4_NO_CPU */
	enum l4_resume_action resume_action;
	bool reclaimed;			/* a reclaim was made for it since it last ran */
	unsigned long dispatch;		/* KEEL_DISPATCH_*, or the entry that gets its calls */
	unsigned long fault_address;
	unsigned long fault_rights;
	struct l4_served_fault served_fault;
	unsigned long cr2;		/* these three: as in x86's signal frame */
	unsigned long trap_nr;
	unsigned long error_code;
	void __user *signal_frame;	/* that is being built (kernel/sigframe.c) */
	/* By x86's names: the selectors and bases that a new program starts with. */
	unsigned short es, ds, fsindex, gsindex;
	unsigned long fsbase, gsbase;
	struct desc_struct tls_array[GDT_ENTRY_TLS_ENTRIES];
	unsigned long virtual_dr6, ptrace_dr7;
	struct io_bitmap *io_bitmap;	/* none: ports are the server's */
	bool debug_stale;		/* debug or tls_array is newer than the lthread's */
};

extern struct keel_frame l4_init_frame;
#define INIT_THREAD { .frame = &l4_init_frame }

#define task_pt_regs(task) ((struct pt_regs *)&(task)->thread.frame->r15)
#define KSTK_ESP(task) (task_pt_regs(task)->sp)

#endif
