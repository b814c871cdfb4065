// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of what an application in ring 0 can do. `level CHECK` prints one line and exits with 0,
 * or dies as the check expects. `level` runs all checks, and `level all bypass` runs them with
 * calls that bypass the work of entry and exit. Each is in a child of its own; `level CHECK itself`
 * runs it in the process itself. The same source built for ring 3 prints the same lines, except for
 * the ring.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if __has_include("ukl.h")
#include "ukl.h"
#else
#define ukl_socket_read read
#define ukl_socket_write write
#define ukl_socket_writev writev
#endif

#define PAGE 4096
#define LEVEL_MASK 3
#define CHILD_STATUS 42
#define DEEP_BYTES (6 << 20)
#define THREADS 8
#define ROUNDS 20000
#define FORKS 50
#define TICK_US 1000
/* Enough that some come at each of the places where a call that bypasses is about to return. */
#define REGISTER_TICKS 500

static __thread int own;
static int constructed;
static volatile sig_atomic_t ticks;

__attribute__((constructor)) static void construct(void)
{
	constructed = 1;
}

static void level(void)
{
	unsigned short cs;

	asm volatile("mov %%cs, %0" : "=r" (cs));
	printf("level: %d, constructors %s\n", cs & LEVEL_MASK, constructed ? "ran" : "did not run");
}

static void *count(void *argument)
{
	int *sum = argument;

	for (int i = 0; i < ROUNDS; i++) {
		own++;
		__atomic_fetch_add(sum, 1, __ATOMIC_RELAXED);
	}
	return (void *)(intptr_t)own;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	int sum = 0, right = 0;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, count, &sum);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(thread[i], &result);
		right += (intptr_t)result == ROUNDS;
	}
	printf("threads: %d of %d right, sum %d\n", right, THREADS, sum);
}

static void tick(int number)
{
	(void)number;
	ticks++;
}

/* Interrupts, and signals caused by them, while data is below the stack pointer. */
__attribute__((noinline)) static unsigned long red_zone(unsigned long n)
{
	unsigned long result;

	asm volatile("movq %1, -8(%%rsp)\n\t"
		     "movq %1, -128(%%rsp)\n"
		     "1:\tdecq %1\n\t"
		     "jnz 1b\n\t"
		     "movq -8(%%rsp), %0\n\t"
		     "subq -128(%%rsp), %0"
		     : "=&r" (result), "+r" (n) : : "memory");
	return result;
}

static void interrupts(void)
{
	struct itimerval often = { { 0, TICK_US }, { 0, TICK_US } }, never = { 0 };
	unsigned long wrong = 0;

	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < 100)
		wrong += red_zone(100000);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("interrupts: %lu words changed\n", wrong);
}

static int descend(int left)
{
	volatile char page[PAGE];

	page[0] = left;
	return left == 0 ? 0 : descend(left - 1) + (page[0] == (char)left);
}

static void deep(void)
{
	struct itimerval often = { { 0, TICK_US }, { 0, TICK_US } }, never = { 0 };

	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, NULL);
	printf("deep: %d pages\n", descend(DEEP_BYTES / PAGE));
	setitimer(ITIMER_REAL, &never, NULL);
}

static void forks(void)
{
	int *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ended = 0, status;

	for (int i = 0; i < FORKS; i++) {
		*memory = i;
		if (fork() == 0) {
			*memory = -1;
			_exit(CHILD_STATUS);
		}
		wait(&status);
		ended += WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS && *memory == i;
	}
	printf("forks: %d of %d with memory of their own\n", ended, FORKS);
}

static void exec(void)
{
	int status;

	fflush(stdout);
	if (fork() == 0) {
		execl("/bin/sh", "sh", "-c", "exit $((6 * 7))", (char *)NULL);
		_exit(1);
	}
	wait(&status);
	printf("exec: an ordinary program ended with %d\n", WEXITSTATUS(status));
}

/* A 32-bit program that the test has put there. */
static void narrow(void)
{
	int status;

	fflush(stdout);
	if (fork() == 0) {
		execl("/run/narrow", "narrow", (char *)NULL);
		_exit(1);
	}
	wait(&status);
	printf("narrow: a program of 32 bits ended with %d\n", WEXITSTATUS(status));
}

/* 32-bit calls, which 64-bit programs may make too: getpid, and an unknown one. */
static void legacy(void)
{
	long pid = 20, none = 100000;

	asm volatile("int $0x80" : "+a" (pid) : : "memory");
	asm volatile("int $0x80" : "+a" (none) : : "memory");
	printf("legacy: int $0x80 gives %s and %ld\n", pid == getpid() ? "the process" : "something else", none);
}

/* The functions that go straight to TCP also work with all other files. */
static void through_pipe(void)
{
	struct iovec two[] = { { "b", 1 }, { "c", 2 } };
	char got[4] = "";
	int ends[2];

	if (pipe(ends) == 0 && ukl_socket_write(ends[1], "a", 1) == 1 && ukl_socket_writev(ends[1], two, 2) == 3)
		ukl_socket_read(ends[0], got, sizeof(got));
	printf("through-pipe: %s\n", got);
}

static void on_stack(int number)
{
	char here;
	stack_t stack;

	(void)number;
	sigaltstack(NULL, &stack);
	printf("signals: handler %s its stack\n",
	       &here >= (char *)stack.ss_sp && &here < (char *)stack.ss_sp + stack.ss_size ? "on" : "off");
}

static void signals(void)
{
	stack_t stack = { .ss_sp = malloc(4 * SIGSTKSZ), .ss_size = 4 * SIGSTKSZ };
	struct sigaction action = { .sa_handler = on_stack, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

/* An interrupted call is restarted or not, as the handler's flags say. */
static void restart(void)
{
	struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
	struct itimerval soon = { { 0, 0 }, { 0, TICK_US } }, often = { { 0, TICK_US }, { 0, TICK_US } }, never = { 0 };
	int ends[2], first, second;
	char byte = 'x';

	if (pipe(ends) < 0)
		return;
	sigaction(SIGALRM, &action, NULL);
	if (fork() == 0) {
		usleep(100 * TICK_US);
		_exit(write(ends[1], &byte, 1) != 1);
	}
	setitimer(ITIMER_REAL, &soon, NULL);
	first = read(ends[0], &byte, 1);
	wait(NULL);
	action.sa_flags = 0;
	sigaction(SIGALRM, &action, NULL);
	printf("restart: read gave %d after %d signal, ", first, ticks);
	/*
	 * Repeatedly, because the first may come before the call has begun, and nothing else would
	 * end the call.
	 */
	setitimer(ITIMER_REAL, &often, NULL);
	second = read(ends[0], &byte, 1) < 0 ? errno : 0;
	setitimer(ITIMER_REAL, &never, NULL);
	printf("then %s\n", second == EINTR ? "EINTR" : "something else");
}

static void clocks(void)
{
	struct timespec before, after, used;

	clock_gettime(CLOCK_MONOTONIC, &before);
	clock_gettime(CLOCK_MONOTONIC, &after);
	/* The vDSO leaves this one to the kernel. */
	printf("clocks: %s, processor time %s\n",
	       after.tv_sec > before.tv_sec || after.tv_nsec >= before.tv_nsec ? "forward" : "backward",
	       clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0 ? "known" : "unknown");
}

/* Returns 1 if a call has changed a register that SYSCALL keeps. */
static unsigned long changes(long number)
{
	unsigned long di = 1, si = 2, dx = 3, bx = 4;
	register unsigned long r8 asm("r8") = 8, r9 asm("r9") = 9, r10 asm("r10") = 10, r12 asm("r12") = 12;
	register unsigned long r13 asm("r13") = 13, r14 asm("r14") = 14, r15 asm("r15") = 15;

	asm volatile("syscall"
		     : "+a" (number), "+D" (di), "+S" (si), "+d" (dx), "+b" (bx), "+r" (r8), "+r" (r9), "+r" (r10),
		       "+r" (r12), "+r" (r13), "+r" (r14), "+r" (r15)
		     : : "rcx", "r11", "memory");
	return di != 1 || si != 2 || dx != 3 || bx != 4 || r8 != 8 || r9 != 9 || r10 != 10 || r12 != 12 || r13 != 13 ||
	       r14 != 14 || r15 != 15;
}

static void registers(void)
{
	struct itimerval often = { { 0, TICK_US }, { 0, TICK_US } }, never = { 0 };
	unsigned long wrong = 0;

	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < REGISTER_TICKS)
		wrong += changes(SYS_getppid) + changes(SYS_sched_yield);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("registers: changed by %lu calls, ", wrong);
	printf("no call's number gives %ld and %ld\n", syscall(-1), syscall(100000));
}

/* Returns 1 if a page fault has changed a register, a flag, or data below the stack pointer. */
__attribute__((noinline)) static unsigned long fault_changes(char *page)
{
	unsigned long bx = 4, dx = 3, below = 0;
	char *si = page, carry, byte;
	register unsigned long r8 asm("r8") = 8, r9 asm("r9") = 9, r10 asm("r10") = 10, r11 asm("r11") = 11;
	register unsigned long r12 asm("r12") = 12, r13 asm("r13") = 13, r14 asm("r14") = 14, r15 asm("r15") = 15;

	asm volatile("movq %[dx], -8(%%rsp)\n\t"
		     "movq %[dx], -128(%%rsp)\n\t"
		     "std\n\t"
		     "stc\n\t"
		     "movb $7, (%[page])\n\t"
		     "setc %%cl\n\t"
		     "lodsb\n\t"
		     "cld\n\t"
		     "movq -8(%%rsp), %[below]\n\t"
		     "addq -128(%%rsp), %[below]"
		     : "=&a" (byte), "=&c" (carry), [below] "+D" (below), [page] "+S" (si), [dx] "+d" (dx), "+b" (bx), "+r" (r8), "+r" (r9),
		       "+r" (r10), "+r" (r11), "+r" (r12), "+r" (r13), "+r" (r14), "+r" (r15)
		     : : "memory", "cc");
	return byte != 7 || carry != 1 || si != page - 1 || below != 6 || dx != 3 || bx != 4 || r8 != 8 || r9 != 9 || r10 != 10 ||
	       r11 != 11 || r12 != 12 || r13 != 13 || r14 != 14 || r15 != 15;
}

static void faults(void)
{
	struct itimerval often = { { 0, TICK_US }, { 0, TICK_US } }, never = { 0 };
	unsigned long wrong = 0;

	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < 50) {
		char *pages = mmap(NULL, FORKS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(pages, FORKS * PAGE, MADV_NOHUGEPAGE);
		for (int i = 0; i < FORKS; i++)
			wrong += fault_changes(pages + i * PAGE);
		munmap(pages, FORKS * PAGE);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("faults: changed something %lu times\n", wrong);
}

static void processes(void)
{
	pid_t me = getpid();
	int status;

	fflush(stdout);
	if (fork() == 0)
		_exit(getppid() != me || getpid() == me || gettid() != getpid());
	wait(&status);
	printf("processes: %s, ", status ? "confused" : "child and parent");
	fflush(stdout);
	unshare(CLONE_NEWPID);
	if (fork() == 0)
		_exit(getppid() != 0 || getpid() != 1 || gettid() != 1);
	wait(&status);
	printf("%s in a name space of its own\n", status ? "confused" : "1 and 0");
}

static double square(double x)
{
	return x * x;
}

static void *floats(void *argument)
{
	double sum = 0;

	(void)argument;
	for (int i = 0; i < ROUNDS; i++) {
		sum += square(i);
		if (i % 1000 == 0)
			sched_yield();
	}
	return (void *)(intptr_t)sum;
}

static void numbers(void)
{
	pthread_t thread[THREADS];
	int right = 0;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, floats, NULL);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(thread[i], &result);
		right += (intptr_t)result == (intptr_t)floats(NULL);
	}
	printf("numbers: %d of %d sums right\n", right, THREADS);
}

static void null_write(void)
{
	volatile int *volatile place = NULL;

	*place = 1;
}

/* Exits with a mark in the callee-saved registers; the next system call is exit_group(2). */
static void leave_with(unsigned long mark)
{
	asm volatile("movq %0, %%r13\n\t"
		     "movq %0, %%r14\n\t"
		     "movq %0, %%r15\n\t"
		     "xorl %%edi, %%edi\n\t"
		     "call _exit"
		     : : "r" (mark) : "rdi", "r13", "r14", "r15", "memory");
}

/* A tracer that stops a thread at its exit sees the registers that it has then. */
static void exit_traced(void)
{
	const unsigned long mark = 0x5eed;
	struct user_regs_struct regs = { 0 };
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		leave_with(mark);
	}
	waitpid(pid, &status, 0);
	ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACEEXIT);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETREGS, pid, NULL, &regs);
	printf("exit-traced: %s, the registers are %s\n",
	       status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8) ? "stopped" : "not stopped",
	       regs.r13 == mark && regs.r14 == mark && regs.r15 == mark ? "its own" : "older ones");
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	waitpid(pid, &status, 0);
}

static void null_call(void)
{
	((void (*)(void))8)();
}

static void constant_write(void)
{
	*(volatile char *)(uintptr_t)"constant" = 0;
}

static void overflow(void)
{
	descend(1 << 20);
}

static void instruction(void)
{
	asm volatile(".byte 0x0f, 0x05" : : "a" (39L) : "rcx", "r11", "memory");
}

static void undefined(void)
{
	asm volatile("ud2");
}

static void bad_stack(void)
{
	asm volatile("movq $0x1000, %rsp\n\tpushq $0");
}

static void stack_in_no_place(void)
{
	asm volatile("movabsq $0x1234567812345678, %rax\n\tmovq %rax, %rsp\n\tpushq $0");
}

/* A handler that sends the thread to an address that no processor can reach. */
static void on_return(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = 0x1234567812345678;
}

static void bad_return(void)
{
	struct sigaction action = { .sa_sigaction = on_return, .sa_flags = SA_SIGINFO | SA_RESETHAND };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static const struct {
	const char *name;
	void (*check)(void);
	int dies;
} checks[] = {
	{ "level", level, 0 },
	{ "threads", threads, 0 },
	{ "interrupts", interrupts, 0 },
	{ "deep", deep, 0 },
	{ "forks", forks, 0 },
	{ "exec", exec, 0 },
	{ "narrow", narrow, 0 },
	{ "through-pipe", through_pipe, 0 },
	{ "legacy", legacy, 0 },
	{ "signals", signals, 0 },
	{ "restart", restart, 0 },
	{ "clocks", clocks, 0 },
	{ "numbers", numbers, 0 },
	{ "registers", registers, 0 },
	{ "faults", faults, 0 },
	{ "processes", processes, 0 },
	{ "exit-traced", exit_traced, 0 },
	{ "null-write", null_write, 1 },
	{ "null-call", null_call, 1 },
	{ "constant-write", constant_write, 1 },
	{ "overflow", overflow, 1 },
	{ "abort", abort, 1 },
	{ "instruction", instruction, 1 },
	{ "undefined", undefined, 1 },
	{ "bad-stack", bad_stack, 1 },
	{ "stack-in-no-place", stack_in_no_place, 1 },
	{ "bad-return", bad_return, 1 },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void bypass(void)
{
#ifdef UKL_H
	if (ukl_bypass(UKL_BYPASS_MOST + 1) == 0 || errno != EINVAL || ukl_bypass(UKL_BYPASS_MOST) < 0)
		printf("no bypass\n");
#endif
}

/* Runs each check in its own process, to report how a check dies. */
static void run(size_t i, int bypassing)
{
	int status;

	fflush(stdout);
	if (fork() == 0) {
		if (bypassing)
			bypass();
		checks[i].check();
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	if (WIFSIGNALED(status))
		printf("%s: ended by %s\n", checks[i].name, strsignal(WTERMSIG(status)));
	else if (checks[i].dies || WEXITSTATUS(status))
		printf("%s: ended with %d\n", checks[i].name, WEXITSTATUS(status));
}

static int asked(char **words, const char *word)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words != NULL;
}

int main(int argc, char **argv)
{
	int bypassing = asked(argv, "bypass"), itself = asked(argv, "itself");

	for (size_t i = 0; i < COUNT(checks); i++) {
		if (argc >= 2 && strcmp(argv[1], "all") != 0 && strcmp(argv[1], checks[i].name) != 0)
			continue;
		if (!itself) {
			run(i, bypassing);
			continue;
		}
		if (bypassing)
			bypass();
		checks[i].check();
	}
	return 0;
}
