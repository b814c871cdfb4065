/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that are shared by the files of this architecture only. */
#ifndef _ASM_L4_L4_H
#define _ASM_L4_L4_H

#include <linux/jump_label.h>
#include <linux/types.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <asm/hypercall.h>
#include <asm/io.h>

/*
 * The IPC that this processor's server thread is in or about to enter: the id of the user thread
 * that runs, L4_WAITING_IDLE, or 0 for none; L4_WAITING_INSIDE while the server thread itself runs
 * a program (kernel/inside.c). The IRQ thread reads it (kernel/irq.c).
 */
#define L4_WAITING_IDLE 1UL	/* not an id of a thread */
#define L4_WAITING_INSIDE 2UL
DECLARE_PER_CPU(unsigned long, l4_waiting);
DECLARE_PER_CPU(unsigned long, l4_served);

/* The bits of a notification of an IRQ thread. */
#define L4_NOTIFY_BIND 1UL		/* bind what l4_bind_requests has (first one only) */
#define L4_NOTIFY_RESCHEDULE 2UL
#define L4_NOTIFY_CALL 4UL
#define L4_NOTIFY_NATIVE 8UL		/* a native lthread sent a message */
#define L4_NOTIFY_STOP 16UL
void l4_irq_init(void);

/* kernel/smp.c */
void l4_smp_init(void);

/* kernel/fpu.c */
int l4_fpu_begin(unsigned long thread);
void l4_fpu_borrow(void);
int l4_fpu_load(void);
void l4_fpu_put_away(void);
void l4_fpu_disown(void);

/* kernel/inside.c, kernel/inside_gate.S: programs in the server's own task */
DECLARE_STATIC_KEY_FALSE(l4_inside_used);	/* since the first program was there */
asmlinkage void l4_inside_run(struct pt_regs *regs);
asmlinkage struct pt_regs *l4_inside_call(void);
asmlinkage struct pt_regs *l4_inside_event(const struct keel_message *m);
int l4_inside_refuses(void);
const char *l4_inside_begin(struct mm_struct *mm);
void l4_inside_end(struct mm_struct *mm);
asmlinkage void l4_inside_gate(void);
asmlinkage void l4_bypass_gate(void);
bool l4_left_gate(struct pt_regs *regs);
void l4_inside_take(void);
bool l4_inside_load(void);
void l4_inside_load_base(void);
void l4_inside_store_base(void);

/*
 * kernel/stubs.c: where the stubs of system calls are. A jump through a pointer in the first 64 KB
 * of this address ends with the bytes of UD2, 0f 0b.
 */
#define L4_STUBS 0x0b0f0000
#define L4_STUBS_SIZE 0x10000
#define L4_STUB_SIZE 64
#define LEN_SYSCALL 2			/* the instruction */
void l4_stubs_begin(void);
void l4_gate_close(void);
void l4_stub_replace(struct pt_regs *regs);
bool l4_stub_undefined(struct pt_regs *regs);

/*
 * kernel/place.c. Beside its next place, thread.place says that a thread runs in Linux's task or
 * in supervisor mode, and that its tracer has set the selector of its code or stack since it ran.
 */
#define L4_PLACED 4UL
#define L4_SELECTORS_SET 8UL
static inline bool l4_is_placed(const struct task_struct *task)
{
	return READ_ONCE(task->thread.place) & L4_PLACED;
}
void l4_place_program(bool wide);

/* mm/small.c */
bool l4_small_is_on(void);
bool l4_small_begin(const char *word);
void l4_small_fork(struct mm_struct *mm);
void l4_small_end(struct mm_struct *mm);
void l4_small_thread(struct mm_struct *mm, unsigned long thread);
bool l4_small_leave(void);
long l4_place_next(unsigned long place);

/* kernel/inside_gate.S: of a program in supervisor mode */
#define L4_LEAF_SIZE 512		/* of the stack of a leaf */
asmlinkage void l4_supervisor_gate(void);

/* kernel/dispatch.c */
void __noreturn l4_user_loop(void);
void l4_kill_current(const char *why, unsigned long status);

/*
 * The priority of user threads, which is below the server's, and the maximum controlled priority of
 * their tasks, which is below that: a native lthread can change neither its own priority nor its
 * time slice.
 */
#define L4_LEAST_PRIORITY 2UL
static inline unsigned long l4_user_priority(void)
{
	return keel_start->priority - 1;
}

static inline unsigned long l4_task_priority(void)
{
	return l4_user_priority() - 1;
}

/* Returns true if a call failed because the server's kmem quota is used up. */
static inline bool l4_no_memory(unsigned long status)
{
	return status == KEEL_STATUS(KEEL_SIDE_CALL, KEEL_ERROR_NO_MEMORY);
}

/* kernel/threads.c: frames (register pages) and lthreads of Linux's threads */
unsigned long l4_ex_regs(unsigned long *thread, unsigned long mask);
struct keel_frame *l4_frame_alloc(void);
void l4_frame_free(struct keel_frame *frame);
int l4_thread_prepare(struct task_struct *task);
void l4_thread_delete(struct task_struct *task);
int l4_thread_dispatch(struct task_struct *task, unsigned long dispatch);
int l4_thread_pager(unsigned long pager);

/* kernel/native.c: native lthreads of processes */
void l4_native_message(const struct keel_message *m);
extern struct wait_queue_head l4_service_threads;
void l4_native_end(struct task_struct *task);
long l4_native_serve(struct keel_linux_native __user *user);
long l4_native_area(void);

/* kernel/process.c */
asmlinkage void l4_first_step(void);

/* kernel/ia32.c */
struct desc_struct;
bool l4_descriptor(struct desc_struct *descriptor, unsigned short selector);

/* kernel/traps.c */
bool l4_is_traced(int signal);
void l4_user_exception(struct pt_regs *regs, unsigned int vector, unsigned long error_code,
		       unsigned long dr6);
void l4_check_selectors(struct pt_regs *regs);
void l4_set_selector(struct task_struct *task, unsigned long *which, unsigned short selector);

/* kernel/time.c */
void l4_timer_init(void);
void l4_timer_interrupt(void);
DECLARE_PER_CPU(unsigned long, l4_timer);

/* kernel/cpu.c */
void l4_cpu_init(void);
void get_model_name(struct cpuinfo_x86 *c);

/* drivers/acpi.c */
void l4_acpi_init(void);

/* mm */
void l4_user_fault(struct pt_regs *regs, unsigned long address, unsigned long right);
unsigned int l4_fault_items(struct keel_utcb *utcb);
bool l4_fault_in(unsigned long address, unsigned long right);
pte_t *l4_find_pte(struct mm_struct *mm, unsigned long address);
pte_t l4_pte_use(pte_t *ptep, unsigned long right);
static inline bool l4_is_device(pte_t pte)
{
	return unlikely(pte_val(pte) & (_PAGE_SPECIAL | _PAGE_PCD)) &&
	       !is_zero_pfn(pte_pfn(pte)) && !l4_is_ram(pte_pfn(pte));
}
void l4_unmap_all(unsigned long task);
void l4_mm_empty(void);
void l4_paging_init(void);
void l4_pager_init(void);
void l4_pager_answer(unsigned long thread, struct keel_message *answer, bool maps);

/* drivers/console.c */
void l4_console_init(void);
void l4_screen_init(void);

#endif
