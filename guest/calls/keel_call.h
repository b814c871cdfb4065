/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linux's system calls as messages of the program's own to the Linux server, in place of an
 * instruction that the µ-kernel tells the server of: number and arguments travel as words, the
 * result comes back in a register. keel_calls() allows it to the calling thread and those that it
 * makes; a new program begins without. See docs/native.md.
 *
 * What the server does is the same for both: signals, tracers and seccomp see no difference. A
 * result is never turned into errno: from -4095 to -1 it is an error's negative number.
 */
#ifndef KEEL_CALL_H
#define KEEL_CALL_H

#include <keel_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How this thread makes its calls: KEEL_DISPATCH_OFF, KEEL_DISPATCH_ON, or the address of an entry
 * (entry.S) that takes what unmodified code calls. Less than 0, and errno is EINVAL, where Linux
 * does not run on Keel.
 */
static inline int keel_calls(unsigned long how)
{
	return syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_DISPATCH, how);
}

/* The one that entry.S has. */
void keel_entry(void);

/*
 * The message: with the words a, b, c, and what else the instruction shall have as operands. The
 * registers of the arguments come back as those of the instruction would.
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
