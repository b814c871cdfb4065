/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of a thread besides its frame, and what programs may see of the processor. */
#ifndef _ASM_L4_PROCESSOR_H
#define _ASM_L4_PROCESSOR_H

#include <asm/page.h>
#include <asm/ptrace.h>
#include <asm/segment.h>
#include <asm/cpufeatures.h>
#include <asm/desc_defs.h>
#include <asm/fpu/types.h>
#include <asm/vdso/processor.h>
#include <uapi/asm/processor-flags.h>
#include <uapi/asm/sigcontext.h>
#include <linux/cache.h>
#include <linux/math64.h>
#include <linux/personality.h>

struct task_struct;
struct perf_event;
struct io_bitmap;
/* Only x86's headers name these. */
struct math_emu_info;
struct x86_hw_tss;
struct keel_frame;

/* The fields that x86's headers and files expect of the type of this name. */
struct cpuinfo_x86 {
	__u8 x86, x86_vendor, x86_model, x86_stepping;
	__u32 x86_capability[NCAPINTS + NBUGINTS];
	__u8 x86_phys_bits;
	int x86_cache_alignment;
	char x86_vendor_id[16];
	char x86_model_id[64];
};

extern struct cpuinfo_x86 boot_cpu_data;
#define cpu_data(cpu) boot_cpu_data

#define HBP_NUM 4
#define L4_DR7 (HBP_NUM + 1)			/* after dr6 */
#define L4_DEBUG_REGISTERS (L4_DR7 + 1)
#define IO_BITMAP_BYTES 8192
#define IO_BITMAP_LONGS (IO_BITMAP_BYTES / sizeof(long))
#define L4_NO_CPU UINT_MAX

/* How the server loop has to resume an lthread (kernel/dispatch.c). */
enum l4_resume_action {
	L4_RESUME_REPLY,	/* an empty reply */
	L4_RESUME_START,	/* KEEL_EX_START: it does not wait for a reply */
	L4_RESUME_MAPPINGS,	/* a reply that maps fault_address */
};

struct thread_struct {
	unsigned long ksp;		/* kernel stack pointer while not running */
	struct keel_frame *frame;	/* shared with the micro-kernel */
	unsigned long keel_thread;	/* lthread's id, 0: none */
	unsigned long keel_task;	/* L4 task that it lives in */
	unsigned int keel_cpu;		/* the processor whose server thread is its handler */
	unsigned int ready_cpu;		/* keel_cpu if nothing is to be prepared, else L4_NO_CPU */
	enum l4_resume_action resume_action;
	bool reclaimed;			/* a reclaim was made for it since it last ran */
	unsigned long dispatch;		/* KEEL_DISPATCH_*, or the entry that gets its calls */
	unsigned long pager;		/* pager before the server, 0: none */
	struct l4_native *native;	/* the native lthread that it serves (kernel/native.c) */
	unsigned long fault_address;
	unsigned long fault_rights;
	unsigned long cr2;		/* these three: as in x86's signal frame */
	unsigned long trap_nr;
	unsigned long error_code;
	struct fpu fpu;
	unsigned long loaded;		/* in the server: it has FPU state and fs base (kernel/inside.c) */
	void __user *signal_frame;	/* that is being built (kernel/sigframe.c) */
	/* By x86's names: the selectors and bases that a new program starts with. */
	unsigned short es, ds, fsindex, gsindex;
	unsigned long fsbase, gsbase;
	struct desc_struct tls_array[GDT_ENTRY_TLS_ENTRIES];
	struct perf_event *ptrace_bps[HBP_NUM];
	unsigned long virtual_dr6, ptrace_dr7;
	struct io_bitmap *io_bitmap;	/* none: ports are the server's */
	unsigned long debug[L4_DEBUG_REGISTERS];
	bool debug_stale;		/* debug or tls_array is newer than the lthread's */
};

extern struct keel_frame l4_init_frame;
#define INIT_THREAD { .frame = &l4_init_frame }

#define TASK_SIZE_MAX ((1UL << 47) - PAGE_SIZE)
#define DEFAULT_MAP_WINDOW TASK_SIZE_MAX
#define IA32_PAGE_OFFSET (current->personality & ADDR_LIMIT_3GB ? 0xc0000000 : 0xffffe000)
#define TASK_SIZE_OF(task) \
	(test_tsk_thread_flag(task, TIF_ADDR32) ? IA32_PAGE_OFFSET : TASK_SIZE_MAX)
#define TASK_SIZE TASK_SIZE_OF(current)
#define TASK_SIZE_LOW TASK_SIZE
#define __TASK_UNMAPPED_BASE(size) PAGE_ALIGN((size) / 3)
#define TASK_UNMAPPED_BASE __TASK_UNMAPPED_BASE(TASK_SIZE)
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX TASK_SIZE_MAX

#define task_pt_regs(task) ((struct pt_regs *)&(task)->thread.frame->r15)
#define KSTK_EIP(task) (task_pt_regs(task)->ip)
#define KSTK_ESP(task) (task_pt_regs(task)->sp)

/* The time stamp counter cannot be made to fault. */
#define GET_TSC_CTL(address) put_user(PR_TSC_ENABLE, (unsigned int __user *)(address))
#define SET_TSC_CTL(mode) ((mode) == PR_TSC_ENABLE ? 0 : -EINVAL)

#define HAVE_ARCH_PICK_MMAP_LAYOUT
#define HAVE_ARCH_UNMAPPED_AREA
#define HAVE_ARCH_UNMAPPED_AREA_TOPDOWN

unsigned long __get_wchan(struct task_struct *task);
void start_thread(struct pt_regs *regs, unsigned long ip, unsigned long sp);

static inline void native_cpuid(unsigned int *eax, unsigned int *ebx,
				unsigned int *ecx, unsigned int *edx)
{
	asm volatile("cpuid" : "+a" (*eax), "=b" (*ebx), "+c" (*ecx), "=d" (*edx));
}

#endif
