/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hybrid programs: a Linux process with native lthreads in its space, which the µ-kernel schedules
 * and which use its calls (docs/native.md). Each has a service thread: a Linux thread that waits in
 * keel_native(), serves the lthread's page faults, gets the signals of its exceptions, and receives
 * its messages to Linux.
 *
 * Code of an lthread is C without a C library: no system calls, no thread-local variables, no stack
 * protector (KEEL_LTHREAD). It shares its process's memory. Numbers and structures are from
 * <keel_abi.h>; docs/abi.md explains them.
 */
#ifndef KEEL_NATIVE_H
#define KEEL_NATIVE_H

#include <keel_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Marks a function that an lthread runs. It uses no floating point or vectors, so that their state
 * is not switched; a function that needs them may set other attributes.
 */
#define KEEL_LTHREAD __attribute__((noinline, no_stack_protector, target("general-regs-only")))

/*
 * Lets the process have lthreads. Call it before the first keel_native(), while the process has
 * one thread. Returns the address of the kernel area that they share with the µ-kernel, or -1 with
 * errno: EPERM without CAP_SYS_NICE, EBUSY with several threads, or while another process reads
 * this one's memory map in /proc.
 */
static inline long keel_area(void)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_AREA, 0);
}

/*
 * With ip: starts an lthread at ip, with the stack pointer sp and the argument in rdi. The calling
 * thread becomes its service thread; an lthread that it served before ends. Without ip: answers
 * the lthread's last message with label and words. In both cases waits for the lthread's next
 * message to `server`, and stores its label and words. Returns 0, or -1 with errno: EPERM without
 * CAP_SYS_NICE, EINVAL before keel_area(), EAGAIN if there are 64 in all, ESRCH if there is none
 * to answer. It is never EINTR.
 */
static inline int keel_native(struct keel_linux_native *native)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_NATIVE, native);
}

/*
 * Starts an lthread by keel_native() at `main`, which must not return, on a stack that ends below
 * `stack_end`.
 */
static inline int keel_native_begin(struct keel_linux_native *native, void (*main)(unsigned long), void *stack_end,
				    unsigned long argument)
{
	native->ip = (unsigned long)main;
	native->sp = ((unsigned long)stack_end & -16ul) - 8;
	native->argument = argument;
	return keel_native(native);
}

/*
 * Makes the thread `id`, of this process or another one, the pager of the calling Linux thread: it
 * receives the page faults first. Linux handles those that it forwards (KEEL_TAG_FORWARD), and all
 * once it is gone. With 0 they go to Linux alone.
 */
static inline int keel_pager(unsigned long id)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_PAGER, id);
}

/*
 * A message, with what ipc returns about it: the partner, and the status (0, or an error).
 */
struct keel_message {
	long status;
	unsigned long partner;
	unsigned long tag;
	unsigned long words[KEEL_REGISTER_WORDS];
};

/* The tag of a message of words and nothing else. */
#define KEEL_TAG(label, words) ((unsigned long)(label) << KEEL_TAG_LABEL_SHIFT | (words))

static inline unsigned int keel_label(const struct keel_message *m)
{
	return m->tag >> KEEL_TAG_LABEL_SHIFT;
}

static inline unsigned int keel_kind(const struct keel_message *m)
{
	return m->tag >> KEEL_TAG_KIND_SHIFT & KEEL_TAG_KIND_MASK;
}

/* All that follows is for lthreads. */
#pragma GCC push_options
#pragma GCC target("general-regs-only")

/* The caller's own UTCB. */
static inline struct keel_utcb *keel_utcb(void)
{
	struct keel_utcb *utcb;

	__asm__("mov %%gs:0, %0" : "=r"(utcb));
	return utcb;
}

/* ipc: KEEL_IPC_* say what it does. */
static inline void keel_ipc(unsigned long flags, unsigned long to, unsigned long from, struct keel_message *m)
{
	register unsigned long w0 __asm__("r8") = m->words[0];
	register unsigned long w1 __asm__("r9") = m->words[1];
	register unsigned long w2 __asm__("r10") = m->words[2];
	register unsigned long w3 __asm__("r12") = m->words[3];
	register unsigned long w4 __asm__("r13") = m->words[4];
	register unsigned long w5 __asm__("r14") = m->words[5];
	long status = KEEL_CALL_IPC | flags;

	__asm__ volatile("syscall"
			 : "+a"(status), "+D"(to), "+S"(m->tag), "+r"(w0), "+r"(w1), "+r"(w2), "+r"(w3), "+r"(w4), "+r"(w5)
			 : "d"(from)
			 : "rcx", "r11", "memory");
	*m = (struct keel_message){ status, to, m->tag, { w0, w1, w2, w3, w4, w5 } };
}

/* Sends to a thread and waits for its answer. */
static inline void keel_call_thread(unsigned long to, struct keel_message *m)
{
	keel_ipc(KEEL_IPC_SEND | KEEL_IPC_RECEIVE, to, to, m);
}

/* Open wait: receives from any thread. */
static inline void keel_wait(struct keel_message *m)
{
	keel_ipc(KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, 0, 0, m);
}

/* Replies to the sender of the last message, if it waits for that, and waits for any thread. */
static inline void keel_answer_and_wait(struct keel_message *m)
{
	keel_ipc(KEEL_IPC_SEND | KEEL_IPC_RECEIVE | KEEL_IPC_OPEN | KEEL_IPC_SEND_ZERO, m->partner, 0, m);
	if (m->status < 0)
		keel_wait(m);
}

/* An fpage of 2^log2 bytes, aligned. */
static inline unsigned long keel_fpage(const void *address, unsigned long log2, unsigned long rights)
{
	return (unsigned long)address | log2 << KEEL_FPAGE_SIZE_SHIFT | rights;
}

/*
 * Sets map item number `index` of the caller's next message: the fpage, and its place in the
 * receiver's window (the fault address, for a page fault).
 */
static inline void keel_put_map(unsigned int index, unsigned long place, unsigned long fpage)
{
	keel_utcb()->maps[2 * index] = place;
	keel_utcb()->maps[2 * index + 1] = fpage;
}

/* Unmaps an fpage of the caller's space from those who got it. Returns 0, or an error. */
static inline long keel_unmap(unsigned long fpage)
{
	long status = KEEL_CALL_FPAGE_UNMAP;
	unsigned long rights = KEEL_UNMAP_RIGHTS;

	__asm__ volatile("syscall" : "+a"(status), "+D"(fpage), "+S"(rights) : : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory");
	return status;
}

/* Sends a message to the service thread in Linux, and waits for its answer. */
static inline void keel_tell(const struct keel_linux_native *native, struct keel_message *m)
{
	keel_call_thread(native->server, m);
}

#pragma GCC pop_options

#endif
