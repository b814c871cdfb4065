/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hybrid programs: a Linux process with native lthreads in its space, which the µ-kernel schedules
 * and which use its calls (docs/native.md). To each a Linux thread attends, in keel_native(): it
 * serves the lthread's page faults, gets the signals of its exceptions, and hears what it sends to
 * Linux.
 *
 * Code of an lthread is C without a C library: no system calls, no thread-local variables, no stack
 * protector (KEEL_LTHREAD). It shares its process's memory. Numbers and structures are
 * <keel_abi.h>'s, which docs/abi.md explains.
 */
#ifndef KEEL_NATIVE_H
#define KEEL_NATIVE_H

#include <keel_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Marks a function that an lthread runs. What uses floating point or vectors, too, has another
 * state to be switched, and is free to say so by itself.
 */
#define KEEL_LTHREAD __attribute__((noinline, no_stack_protector, target("general-regs-only")))

/*
 * Makes the process one that may have lthreads, while it has one thread; before the first
 * keel_native(). Where in its space what the µ-kernel shares with them lies, or -1 with errno:
 * EPERM without CAP_SYS_NICE, EBUSY with several threads, or while somebody reads the process's
 * memory map in /proc.
 */
static inline long keel_area(void)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_AREA, 0);
}

/*
 * With ip: begins an lthread at ip, with the stack pointer sp and the argument in rdi; this thread
 * attends to it from now on, and to the one that it attended to no longer, which ends. Without:
 * answers its last message with label and words. Either way waits until it sends something to
 * `server`, and returns label and words of that. 0, or -1 with errno: EINTR never, EPERM without
 * CAP_SYS_NICE, EINVAL before keel_area(), EAGAIN where there are 64 in all, ESRCH: there is none
 * to answer.
 */
static inline int keel_native(struct keel_linux_native *native)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_NATIVE, native);
}

/*
 * keel_native() to begin one at `main`, which must not return, on a stack that ends before
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
 * The calling Linux thread's page faults go to the thread `id` first, of another process or its
 * own: its pager. What that one passes on (KEEL_TAG_FORWARD), and all where it is not there any
 * more, is Linux's as ever. 0: to Linux alone.
 */
static inline int keel_pager(unsigned long id)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_PAGER, id);
}

/*
 * A message, and what a call of ipc says of it: whom it came from, and how the call ended (0, or an
 * error).
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

/* Waits for anybody. */
static inline void keel_wait(struct keel_message *m)
{
	keel_ipc(KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, 0, 0, m);
}

/* Answers whom the last message came from, if that one waits for it, and waits for anybody. */
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
 * Map item number `index` of the caller's next message: what, and where in the receiver's window
 * (its address in a fault).
 */
static inline void keel_put_map(unsigned int index, unsigned long place, unsigned long fpage)
{
	keel_utcb()->maps[2 * index] = place;
	keel_utcb()->maps[2 * index + 1] = fpage;
}

/* Takes what others got of an fpage of the caller's space. 0, or an error. */
static inline long keel_unmap(unsigned long fpage)
{
	long status = KEEL_CALL_FPAGE_UNMAP;
	unsigned long rights = KEEL_UNMAP_RIGHTS;

	__asm__ volatile("syscall" : "+a"(status), "+D"(fpage), "+S"(rights) : : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory");
	return status;
}

/* Sends to Linux what the thread that attends shall hear, and waits for what it answers. */
static inline void keel_tell(const struct keel_linux_native *native, struct keel_message *m)
{
	keel_call_thread(native->server, m);
}

#pragma GCC pop_options

#endif
