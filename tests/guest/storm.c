// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `storm`: kills processes and threads in all states, at any moment. It prints one
 * deterministic line. Its status is 0 only if everything that it killed died of the signal and no
 * process was left.
 *
 *   storm processes|threads N
 *
 * `processes` kills N processes, each in one of the states.
 * `threads` kills N processes with a thread in each state that lets other threads live.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define WIDTH 8 /* this many at once */
#define LONGEST_LIFE_US 30000
#define SHORT_SLEEP_NS 100000
#define MAP_PAGES 64
#define STEPS 100 /* single steps between two system calls that are traced */
#define SEED 2166136261u
#define RUN_ON "run on" /* the argument by which a program continues in `executing` */

static void fail(const char *what)
{
	fprintf(stderr, "storm: %s: %s\n", what, strerror(errno));
	exit(1);
}

static char *pages(size_t count)
{
	char *memory = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static pid_t checked_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	return pid;
}

static void computing(void)
{
	for (;;)
		__asm__ volatile("");
}

static void pausing(void)
{
	for (;;)
		pause();
}

static void napping(void)
{
	for (;;)
		nanosleep(&(struct timespec){ .tv_nsec = SHORT_SLEEP_NS }, NULL);
}

static void waiting(void)
{
	uint32_t word = 0;

	for (;;)
		syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void reading(void)
{
	int ends[2];
	char byte;

	if (pipe(ends))
		fail("pipe");
	for (;;)
		if (read(ends[0], &byte, 1) != 1)
			fail("read");
}

static void writing(void)
{
	static const char zeros[PAGE];
	int ends[2];

	if (pipe(ends))
		fail("pipe");
	for (;;)
		if (write(ends[1], zeros, sizeof zeros) < 0)
			fail("write");
}

static void faulting(void)
{
	for (;;) {
		char *memory = pages(MAP_PAGES);

		for (size_t i = 0; i < MAP_PAGES; i++)
			memory[i * PAGE] = 1;
		munmap(memory, MAP_PAGES * PAGE);
	}
}

/* Sleeps in a page fault that is never resolved. */
static void faulted(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	volatile char *memory = pages(1);
	struct uffdio_register range = { .range = { (uintptr_t)memory, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		fail("userfaultfd");
	memory[0] = 1;
	fail("a fault that was not resolved ended");
}

static void on_signal(int signo)
{
	(void)signo;
}

static void signalled(void)
{
	signal(SIGUSR1, on_signal);
	for (;;)
		raise(SIGUSR1);
}

static void forking(void)
{
	for (;;) {
		pid_t pid = checked_fork();

		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
}

/* Waits in vfork for a child that never ends. */
static void vforking(void)
{
	if (!vfork())
		pausing();
	fail("vfork returned");
}

static void *nothing(void *argument)
{
	return argument;
}

static void threading(void)
{
	for (;;) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, nothing, NULL))
			fail("pthread_create");
		pthread_join(thread, NULL);
	}
}

/* Traces a child by single steps and by system calls. */
static void tracing(void)
{
	pid_t pid = checked_fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (;;)
			getppid();
	}
	for (long i = 0; waitpid(pid, &status, 0) == pid && WIFSTOPPED(status); i++)
		if (ptrace(i % STEPS ? PTRACE_SINGLESTEP : PTRACE_SYSCALL, pid, 0, 0))
			fail("ptrace");
	fail("what was traced ended");
}

static void stopped(void)
{
	for (;;)
		raise(SIGSTOP);
}

static void executing(void)
{
	execl("/proc/self/exe", "storm", RUN_ON, NULL);
	fail("exec");
}

static void (*const states[])(void) = {
	computing, pausing, napping, waiting,  reading,	  writing, faulting, faulted,
	signalled, forking, vforking, threading, tracing, stopped, executing,
};

enum {
	STATES = sizeof states / sizeof states[0],
	/* The last two stop all threads, or end them. */
	THREAD_STATES = STATES - 2,
};

static void *run_state(void *state)
{
	states[(uintptr_t)state]();
	return NULL;
}

static void all_states(void)
{
	for (uintptr_t state = 0; state < THREAD_STATES; state++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run_state, (void *)state))
			fail("pthread_create");
	}
	pausing();
}

static uint32_t next_random(void)
{
	static uint32_t state = SEED;

	state = (state ^ state >> 15) * 16777619u + 1;
	return state >> 8;
}

/* A child in a process group of its own, which its descendants are in. */
static pid_t start(long number, bool threads)
{
	pid_t pid = checked_fork();

	if (pid) {
		setpgid(pid, pid); /* fails where the child was faster and has called exec */
		return pid;
	}
	setpgid(0, 0);
	if (threads)
		all_states();
	states[number % STATES]();
	_exit(1);
}

static long storm(long count, bool threads)
{
	long good = 0;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		fail("prctl");
	for (long first = 0; first < count; first += WIDTH) {
		long width = count - first < WIDTH ? count - first : WIDTH;
		pid_t pids[WIDTH];
		int status;

		for (long i = 0; i < width; i++)
			pids[i] = start(first + i, threads);
		usleep(next_random() % LONGEST_LIFE_US);
		for (long i = 0; i < width; i++)
			if (kill(-pids[i], SIGKILL))
				fail("kill");
		for (long i = 0; i < width; i++)
			good += waitpid(pids[i], &status, 0) == pids[i] && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		/* Reaps the children of killed processes, which were killed too. */
		while (wait(NULL) > 0)
			;
	}
	return good;
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? atol(argv[2]) : 0, good;
	bool threads = argc > 1 && !strcmp(argv[1], "threads");

	if (argc > 1 && !strcmp(argv[1], RUN_ON))
		executing();
	if (count <= 0 || (!threads && strcmp(argv[1], "processes"))) {
		fprintf(stderr, "usage: storm processes|threads N\n");
		return 2;
	}
	good = storm(count, threads);
	printf("%s %ld of %ld\n", argv[1], good, count);
	return good == count ? 0 : 1;
}
