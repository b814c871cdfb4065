// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `interfaces`: compares system calls as messages (guest/calls/keel_call.h) with the
 * same calls by instruction, and tries what a program could misuse messages for. Prints a line for
 * each case: its name, a colon, the observation. With --off it prints only whether the new program
 * may send messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "keel_call.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PAGE 4096
#define BAD 8L			/* an address where nothing is */
#define MANY 500
#define LEAST_NS 20000000L

static char buffer[PAGE];

static long message(long number, long a, long b, long c, long d, long e, long f)
{
	return keel_call6(number, a, b, c, d, e, f);
}

static long instruction(long number, long a, long b, long c, long d, long e, long f)
{
	long result = syscall(number, a, b, c, d, e, f);

	return result < 0 ? -errno : result;
}

/* Calls whose result is always the same. */
static void same(void)
{
	const long here = (long)buffer;
	const long calls[][7] = {
		{ SYS_getpid }, { SYS_getppid }, { SYS_getuid }, { SYS_umask, 022 }, { SYS_close, -1 }, { SYS_read, -1, here, 1 },
		{ SYS_write, 1, BAD, 1 }, { SYS_open, BAD }, { SYS_open, (long)"/nowhere" }, { SYS_openat, AT_FDCWD, (long)"/", O_WRONLY },
		{ SYS_getcwd, here, 1 }, { SYS_getcwd, here, PAGE }, { SYS_uname, BAD }, { SYS_ioctl, 0, 0, 0 }, { SYS_dup2, 0, -1 },
		{ SYS_kill, 1, 65 }, { SYS_wait4, -1, 0, 0, 0 }, { SYS_lseek, -1, 0, 0 }, { SYS_execve, BAD, 0, 0 }, { SYS_futex, 1, 0, 0 },
		{ SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, -1, 0 }, { SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, 0, 1 },
		{ SYS_pwrite64, -1, here, 1, 7 }, { SYS_clone, CLONE_THREAD }, { SYS_rt_sigaction, 9, here, 0, 8 }, { 511 }, { 100000 },
		{ 0x7fffffff },
	};
	unsigned int different = 0;

	for (size_t i = 0; i < COUNT(calls); i++) {
		const long *c = calls[i];
		long first = instruction(c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
		long second = message(c[0], c[1], c[2], c[3], c[4], c[5], c[6]);

		if (first != second) {
			printf("call %ld: %ld, then %ld\n", c[0], first, second);
			different++;
		}
	}
	printf("%zu calls: %u different\n", COUNT(calls), different);
}

/* Six arguments that all matter, and registers that stay. */
static void six(void)
{
	int fd = message(SYS_memfd_create, (long)"six", 0, 0, 0, 0, 0);
	long kept[3] = { 11, 12, 13 };
	char *mapped;

	message(SYS_ftruncate, fd, 2 * PAGE, 0, 0, 0, 0);
	message(SYS_pwrite64, fd, (long)"second", 6, PAGE, 0, 0);
	mapped = (char *)message(SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
	printf("six arguments: %.6s\n", mapped);
	__asm__ volatile("mov %1, %%r12\n\tmov %2, %%r13\n\tmov %3, %%r14\n\tmov %4, %%eax\n\tsyscall\n\t"
			 "mov %%r12, %0\n\tmov %%r13, 8+%0\n\tmov %%r14, 16+%0"
			 : "+m"(*(long(*)[3])kept)
			 : "i"(21), "i"(22), "i"(23), "i"((int)(KEEL_CALL_HANDLER | SYS_getpid))
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "memory");
	printf("registers that stay: %ld %ld %ld\n", kept[0], kept[1], kept[2]);
}

static void ended(const char *what, pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", what, WTERMSIG(status));
	else
		printf("%s: status %d\n", what, WEXITSTATUS(status));
}

static volatile sig_atomic_t handled;
static int wake_up[2];

static void on_signal(int number)
{
	(void)number;
	handled++;
	message(SYS_write, wake_up[1], (long)"x", 1, 0, 0, 0);
}

static void arm(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ .it_value.tv_usec = LEAST_NS / 1000 }, NULL);
}

static void signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct timespec rest = { 0, 0 };
	char byte = 0;
	long result;
	pid_t pid;

	pipe(wake_up);
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	arm();
	result = message(SYS_read, wake_up[0], (long)&byte, 1, 0, 0, 0);
	printf("a signal ends a read: %ld, handled %d\n", result, handled);
	read(wake_up[0], &byte, 1);
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	arm();
	byte = 0;
	result = message(SYS_read, wake_up[0], (long)&byte, 1, 0, 0, 0);
	printf("a read resumes after a signal: %ld %c, handled %d\n", result, byte, handled);
	result = message(SYS_kill, getpid(), SIGUSR1, 0, 0, 0, 0);
	printf("a signal that was pending: %ld, handled %d\n", result, handled);
	read(wake_up[0], &byte, 1);
	action.sa_flags = 0;
	sigaction(SIGALRM, &action, NULL);
	arm();
	result = message(SYS_nanosleep, (long)&(struct timespec){ 5, 0 }, (long)&rest, 0, 0, 0, 0);
	printf("a sleep returns the rest: %ld %d\n", result, rest.tv_sec == 4);
	read(wake_up[0], &byte, 1);
	/* A sleep that is stopped and continued is restarted by restart_syscall. */
	if (!(pid = fork())) {
		result = message(SYS_nanosleep, (long)&(struct timespec){ 0, 10 * LEAST_NS }, 0, 0, 0, 0, 0);
		message(SYS_exit_group, result ? 1 : 9, 0, 0, 0, 0, 0);
	}
	usleep(LEAST_NS / 1000);
	kill(pid, SIGSTOP);
	usleep(LEAST_NS / 1000);
	kill(pid, SIGCONT);
	ended("a sleep resumes", pid);
}

static void *thread(void *argument)
{
	*(long *)argument = message(SYS_getpid, 0, 0, 0, 0, 0, 0);
	return NULL;
}

static void processes(char *self)
{
	char *arguments[] = { self, "--off", NULL };
	long pid = message(SYS_fork, 0, 0, 0, 0, 0, 0), of_thread = 0;
	pthread_t id;

	if (!pid)
		message(SYS_exit_group, message(SYS_getppid, 0, 0, 0, 0, 0, 0) == getppid() ? 7 : 8, 0, 0, 0, 0, 0);
	ended("a child has messages", pid);
	pthread_create(&id, NULL, thread, &of_thread);
	pthread_join(id, NULL);
	printf("a thread has messages: %d\n", of_thread == getpid());
	fflush(stdout);
	if (!(pid = fork()))
		message(SYS_execve, (long)self, (long)arguments, (long)environ, 0, 0, 0);
	ended("a new program", pid);
}

/* What a tracer sees of a message and can change. */
static void traced(void)
{
	struct user_regs_struct registers;
	pid_t pid = fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(message(SYS_lseek, 1, 2, 3, 4, 5, 6) == 42 ? 5 : 6);
	}
	waitpid(pid, &status, 0);
	do {
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
		waitpid(pid, &status, 0);
		ptrace(PTRACE_GETREGS, pid, 0, &registers);
	} while (WIFSTOPPED(status) && registers.orig_rax != SYS_lseek);
	printf("a tracer sees: %llu %llu %llu %llu %llu %llu\n", registers.rdi, registers.rsi, registers.rdx, registers.r10,
	       registers.r8, registers.r9);
	ptrace(PTRACE_SYSCALL, pid, 0, 0);
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETREGS, pid, 0, &registers);
	registers.rax = 42;
	ptrace(PTRACE_SETREGS, pid, 0, &registers);
	ptrace(PTRACE_CONT, pid, 0, 0);
	ended("a tracer decides", pid);
}

static void filtered(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { COUNT(filter), filter };
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
		if (message(SYS_getppid, 0, 0, 0, 0, 0, 0) == -EXDEV)
			message(SYS_getuid, 0, 0, 0, 0, 0, 0);
		_exit(1);
	}
	ended("a filter denies and kills", pid);
}

/*
 * All possible values of eax for the µ-kernel's calls, with ids of all kinds: for Linux these are
 * unknown call numbers.
 */
static void kernel_calls(void)
{
	uint64_t ids[] = { 0, 1, 2, 0x100, 0x900, ~0ull, 1ull << 44 | 1 << 24 | 1 << 4, 2ull << 44 | 2 << 24 | 1 << 4 };
	pid_t pid = fork();

	if (!pid) {
		for (unsigned long call = 1 << 12; call < 1 << 13; call++)
			for (size_t i = 0; i < COUNT(ids); i++) {
				uint64_t result = KEEL_CALL_HANDLER | call;
				register uint64_t w0 __asm__("r8") = ids[i];
				register uint64_t w1 __asm__("r9") = ids[i];
				register uint64_t w2 __asm__("r10") = ids[i];
				uint64_t to = ids[i], tag = call, from = ids[i];

				__asm__ volatile("syscall"
						 : "+a"(result), "+r"(w0), "+r"(w1), "+r"(w2), "+D"(to), "+S"(tag), "+d"(from)
						 :
						 : "rcx", "r11", "memory");
				if (result != (uint64_t)-ENOSYS)
					_exit(1);
			}
		_exit(0);
	}
	ended("calls of the µ-kernel", pid);
}

/* Killed while it waits in a message, and while it sends messages in a loop. */
static void killed(void)
{
	pid_t pid = fork();
	int nothing[2];

	if (!pid) {
		pipe(nothing);
		message(SYS_read, nothing[0], (long)buffer, 1, 0, 0, 0);
	}
	usleep(LEAST_NS / 1000);
	kill(pid, SIGKILL);
	ended("killed in a message", pid);
	if (!(pid = fork()))
		for (;;)
			message(SYS_getpid, 0, 0, 0, 0, 0, 0);
	usleep(LEAST_NS / 1000);
	kill(pid, SIGKILL);
	ended("killed among messages", pid);
}

/* Invalid trampolines harm only the thread that sets them. */
static void entries(void)
{
	static const unsigned long nowhere[] = { 2, PAGE - 1, 1ul << 47, 1ul << 63 };
	pid_t pid;

	for (size_t i = 0; i < COUNT(nowhere); i++)
		printf("entry %lx: %ld\n", nowhere[i], instruction(SYS_arch_prctl, KEEL_LINUX_PRCTL_DISPATCH, nowhere[i], 0, 0, 0, 0));
	if (!(pid = fork())) {
		keel_calls(16 * PAGE);
		_exit(0);
	}
	ended("an entry where nothing is", pid);
	if (!(pid = fork())) {
		keel_calls((1ul << 47) - PAGE);
		_exit(0);
	}
	ended("an entry at the end of memory", pid);
	if (!(pid = fork())) {
		keel_calls((unsigned long)buffer);
		_exit(0);
	}
	ended("an entry that is no code", pid);
}

/* Moves from processor to processor by messages. */
static void moving(void)
{
	long wrong = 0;
	cpu_set_t where;

	for (int i = 0; i < MANY; i++) {
		CPU_ZERO(&where);
		CPU_SET(i % sysconf(_SC_NPROCESSORS_ONLN), &where);
		message(SYS_sched_setaffinity, 0, sizeof where, (long)&where, 0, 0, 0);
		wrong += message(SYS_getpid, 0, 0, 0, 0, 0, 0) != getpid();
	}
	printf("from processor to processor: %ld wrong\n", wrong);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1) {
		printf("messages begin off: %d\n", message(SYS_getpid, 0, 0, 0, 0, 0, 0) == -ENOSYS);
		return 0;
	}
	printf("allowed: %d\n", keel_calls(KEEL_DISPATCH_ON));
	same();
	six();
	signals();
	processes(argv[0]);
	traced();
	filtered();
	kernel_calls();
	killed();
	entries();
	moving();
	printf("taken back: %d\n", keel_calls(KEEL_DISPATCH_OFF));
	printf("and then: %ld\n", message(SYS_getpid, 0, 0, 0, 0, 0, 0));
	return 0;
}
