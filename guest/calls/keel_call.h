/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linux's system calls as explicit messages to the Linux server, in place of an instruction that
 * the µ-kernel intercepts and reports to the server. The words have the number and the arguments; a
 * register returns the result. keel_calls() allows it to the calling thread and the threads that it
 * creates; a new program starts without it. See docs/native.md.
 *
 * The server handles both in the same way: signals, tracers and seccomp see no difference. A result
 * does not set errno: from -4095 to -1 it is a negative error number.
 */
#ifndef KEEL_CALL_H
#define KEEL_CALL_H

#include <keel_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Sets how this thread makes its calls: KEEL_DISPATCH_OFF, KEEL_DISPATCH_ON, or the address of a
 * trampoline (entry.S) for the calls of unmodified code. Returns a negative value with errno EINVAL
 * if Linux does not run on Keel.
 */
static inline int keel_calls(unsigned long how)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_DISPATCH, how);
}

/* The trampoline of entry.S. */
void keel_entry(void);

/*
 * The message: the words a, b, c, and further operands of the instruction. The registers of the
 * arguments come back as those of the instruction would.
 */
#define KEEL_MESSAGE(number, a, b, c, ...)								\
	({												\
		register long w0 __asm__("r8") = (a);							\
		register long w1 __asm__("r9") = (b);							\
		register long w2 __asm__("r10") = (c);							\
		long result = (unsigned int)(number) | (unsigned int)KEEL_CALL_HANDLER;			\
													\
		__asm__ volatile("syscall"								\
				 : "+a"(result), "+r"(w0), "+r"(w1), "+r"(w2)				\
				 : __VA_ARGS__								\
				 : "rcx", "rdx", "rsi", "rdi", "r11", "memory");			\
		result;											\
	})

/* With at most three arguments. */
static inline long keel_call3(long number, long a, long b, long c)
{
	return KEEL_MESSAGE(number, a, b, c);
}

/* With all six. */
static inline long keel_call6(long number, long a, long b, long c, long d, long e, long f)
{
	register long w3 __asm__("r12") = d;
	register long w4 __asm__("r13") = e;
	register long w5 __asm__("r14") = f;

	return KEEL_MESSAGE(number, a, b, c, "r"(w3), "r"(w4), "r"(w5));
}

#endif
