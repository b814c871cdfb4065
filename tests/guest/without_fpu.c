// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes signals at any time without ever having used the FPU. The states in its frames must be
 * initial: no register of another process may be seen there. Exits with 0 if that is so.
 */
#include <linux/signal.h>
#include <linux/time.h>
/* In this order, because the last one does not include what it needs. */
#include <asm/sigcontext.h>
#include <asm/ucontext.h>
#include <asm/unistd.h>

#define SIGNALS 200
#define EVERY_US 1000

struct action {
	void (*handler)(int, void *, struct ucontext *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

static volatile int handled, strange;

static long call(long number, long first, long second, long third, long fourth)
{
	register long r10 __asm__("r10") = fourth;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static void look(int signo, void *info, struct ucontext *context)
{
	const struct _fpstate_64 *state = (const void *)context->uc_mcontext.fpstate;

	(void)signo;
	(void)info;
	handled++;
	for (unsigned int i = 0; i < sizeof(state->xmm_space) / sizeof(state->xmm_space[0]); i++)
		strange += state->xmm_space[i] != 0;
}

void restore(void);
__asm__(".globl restore, _start\n"
	"restore: movl $15, %eax\n"	/* rt_sigreturn */
	"syscall\n"
	"_start: andq $-16, %rsp\n"
	"call begin\n");

void begin(void)
{
	const struct action action = { look, SA_SIGINFO | SA_RESTORER, restore, 0 };
	const struct itimerval often = { { 0, EVERY_US }, { 0, EVERY_US } };

	call(__NR_rt_sigaction, SIGALRM, (long)&action, 0, sizeof(action.mask));
	call(__NR_setitimer, 0, (long)&often, 0, 0);
	while (handled < SIGNALS)
		call(__NR_sched_yield, 0, 0, 0, 0);
	call(__NR_exit_group, strange != 0, 0, 0, 0);
}
