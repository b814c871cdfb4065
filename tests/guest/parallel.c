// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `parallel`: races that need several processors. Two threads, on the first and the
 * last processor, act on each other. Each job checks its invariant in every round and prints one
 * line that depends on the count only. The status is 0 only if all invariants held.
 *
 *   parallel JOB|all N
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define LOOKS 2000
#define COPY_PAGES 16
#define KILLED_THREADS 4

static atomic_int step;
static atomic_bool over;
static long rounds;

static void fail(const char *what)
{
	fprintf(stderr, "parallel: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		fail("sched_setaffinity");
}

static int last_cpu(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) - 1;
}

static void *pages(size_t count)
{
	void *memory = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static void await_step(int wanted)
{
	while (atomic_load(&step) != wanted)
		;
}

/* Runs `ours` on the first processor while `theirs` runs on the last. */
static long together(long (*ours)(void), void *(*theirs)(void *), void *argument)
{
	pthread_t other;
	long good;

	atomic_store(&step, 0);
	atomic_store(&over, false);
	move_to(0);
	if (pthread_create(&other, NULL, theirs, argument))
		fail("pthread_create");
	good = ours();
	atomic_store(&over, true);
	pthread_join(other, NULL);
	return good;
}

static volatile long *shared;

/* Writes all the time, and retries while writing is forbidden. */
static sigjmp_buf refused;

static void on_fault(int signo)
{
	siglongjmp(refused, signo);
}

static void *write_always(void *unused)
{
	(void)unused;
	move_to(last_cpu());
	signal(SIGSEGV, on_fault);
	sigsetjmp(refused, 1);
	while (!atomic_load(&over)) {
		++*shared;
		atomic_fetch_add(&step, 1);
	}
	return NULL;
}

/* A page does not change once it is read-only, although a thread is writing to it. */
static long protecting(void)
{
	long good = 0;

	for (long i = 0; i < rounds; i++) {
		bool same = true;
		int before = atomic_load(&step);
		long seen;

		while (atomic_load(&step) == before)
			;
		mprotect((void *)shared, PAGE, PROT_READ);
		seen = *shared;
		for (int look = 0; look < LOOKS; look++)
			same &= *shared == seen;
		mprotect((void *)shared, PAGE, PROT_READ | PROT_WRITE);
		good += same;
	}
	return good;
}

static long protect(void)
{
	shared = pages(1);
	return together(protecting, write_always, NULL);
}

/*
 * A child's copy of a page does not change, although a thread of the parent writes to it during the
 * fork.
 */
static long copying(void)
{
	long good = 0;

	for (long i = 0; i < rounds; i++) {
		int before = atomic_load(&step), status;
		pid_t pid;

		while (atomic_load(&step) == before)
			;
		pid = fork();
		if (pid < 0)
			fail("fork");
		if (!pid) {
			long seen = *shared;

			for (int look = 0; look < LOOKS; look++)
				if (*shared != seen)
					_exit(1);
			_exit(0);
		}
		good += waitpid(pid, &status, 0) == pid && status == 0;
	}
	return good;
}

static long copy(void)
{
	shared = pages(1);
	return together(copying, write_always, NULL);
}

/*
 * Steps: 1: the other thread must see the round's number in the page; 2: it did; 3: the page was
 * given back; 4: it is zero.
 */
static atomic_long number;
static atomic_long wrong;

static void *look_at_it(void *unused)
{
	(void)unused;
	move_to(last_cpu());
	for (long i = 0; i < rounds; i++) {
		await_step(1);
		if (*shared != atomic_load(&number))
			atomic_fetch_add(&wrong, 1);
		atomic_store(&step, 2);
		await_step(3);
		if (*shared != 0)
			atomic_fetch_add(&wrong, 1);
		atomic_store(&step, 4);
	}
	return NULL;
}

static long giving_back(void)
{
	long good = 0;

	for (long i = 1; i <= rounds; i++) {
		long before = atomic_load(&wrong);

		*shared = i;
		atomic_store(&number, i);
		atomic_store(&step, 1);
		await_step(2);
		if (i % 2) {
			madvise((void *)shared, PAGE, MADV_DONTNEED);
		} else if (mmap((void *)shared, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
			   shared) {
			fail("mmap");
		}
		atomic_store(&step, 3);
		await_step(4);
		good += atomic_load(&wrong) == before;
	}
	return good;
}

static long give_back(void)
{
	shared = pages(1);
	atomic_store(&wrong, 0);
	return together(giving_back, look_at_it, NULL);
}

/* System calls write to memory that comes and goes, never to what takes its place. */
static void *read_always(void *target)
{
	int fd = open("/dev/zero", O_RDONLY);

	move_to(last_cpu());
	while (!atomic_load(&over)) {
		ssize_t count = read(fd, target, COPY_PAGES * PAGE);

		if (count != COPY_PAGES * PAGE && (count >= 0 || errno != EFAULT) && count % PAGE)
			atomic_fetch_add(&wrong, 1);
		atomic_fetch_add(&step, 1);
	}
	close(fd);
	return NULL;
}

static char *window;

static long remapping(void)
{
	long good = 0;

	for (long i = 0; i < rounds; i++) {
		bool same = true;
		char *other;

		munmap(window, COPY_PAGES * PAGE);
		other = pages(COPY_PAGES);
		if (other == window)
			other = pages(COPY_PAGES);
		else
			mmap(window, COPY_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		memset(other, 0x5a, COPY_PAGES * PAGE);
		for (int look = 0; look < COPY_PAGES * PAGE; look++)
			same &= other[look] == 0x5a;
		munmap(other, COPY_PAGES * PAGE);
		good += same && !atomic_load(&wrong);
	}
	return good;
}

static long remap(void)
{
	window = pages(COPY_PAGES);
	atomic_store(&wrong, 0);
	return together(remapping, read_always, window);
}

/* The kernel's operation on a futex word and the user's on the same word are both atomic. */
static unsigned int words[2];

static void *add_always(void *unused)
{
	(void)unused;
	move_to(last_cpu());
	for (long i = 0; i < rounds * LOOKS; i++)
		__atomic_fetch_add(&words[1], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static long waking(void)
{
	for (long i = 0; i < rounds; i++)
		if (syscall(SYS_futex, &words[0], FUTEX_WAKE_OP, 1, 1, &words[1], FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0)) < 0)
			fail("futex");
	return rounds;
}

static long wake(void)
{
	long good;

	words[1] = 0;
	good = together(waking, add_always, NULL);
	return words[1] == (unsigned int)(rounds * LOOKS + rounds) ? good : 0;
}

/* Signals reach a thread that runs on another processor and makes no system calls. */
static atomic_long caught;

static void on_signal(int signo)
{
	(void)signo;
	atomic_fetch_add(&caught, 1);
}

static pthread_t spinner;

static void *spin(void *unused)
{
	(void)unused;
	move_to(last_cpu());
	spinner = pthread_self();
	atomic_store(&step, 1);
	while (!atomic_load(&over))
		;
	return NULL;
}

static long signalling(void)
{
	long good = 0;

	await_step(1);
	for (long i = 0; i < rounds; i++) {
		long before = atomic_load(&caught);

		pthread_kill(spinner, SIGUSR1);
		while (atomic_load(&caught) == before)
			;
		good++;
	}
	return good;
}

static long signals(void)
{
	signal(SIGUSR1, on_signal);
	return together(signalling, spin, NULL);
}

/* A thread runs on the processor that it was moved to, with its registers. */
static long moves(void)
{
	long good = 0;

	for (long i = 0; i < rounds; i++) {
		int cpu = i % 2 ? last_cpu() : 0;
		unsigned int now = ~0u;
		double kept = i, read;

		__asm__ volatile("movsd %0, %%xmm9" : : "m"(kept) : "xmm9");
		move_to(cpu);
		__asm__ volatile("movsd %%xmm9, %0" : "=m"(read));
		syscall(SYS_getcpu, &now, NULL, NULL);
		good += now == (unsigned int)cpu && sched_getcpu() == cpu && read == kept;
	}
	return good;
}

/* A process dies on all processors at once. */
static long kills(void)
{
	long good = 0;

	for (long i = 0; i < rounds; i++) {
		int ready[2], status;
		pthread_t list[KILLED_THREADS];
		char byte;
		pid_t pid;

		if (pipe(ready))
			fail("pipe");
		pid = fork();
		if (pid < 0)
			fail("fork");
		if (!pid) {
			atomic_store(&over, false);
			for (int t = 0; t < KILLED_THREADS; t++)
				if (pthread_create(&list[t], NULL, spin, NULL))
					_exit(1);
			if (write(ready[1], "x", 1) != 1)
				_exit(1);
			for (;;)
				;
		}
		if (read(ready[0], &byte, 1) != 1)
			fail("read");
		kill(pid, SIGKILL);
		good += waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		close(ready[0]);
		close(ready[1]);
	}
	return good;
}

/* Threads on all processors fork and map at once. */
static void *fork_and_map(void *unused)
{
	(void)unused;
	for (long i = 0; i < rounds; i++) {
		long *memory = pages(COPY_PAGES);
		int status;
		pid_t pid;

		memory[0] = i;
		pid = fork();
		if (!pid)
			_exit(memory[0] == i && !memory[PAGE / sizeof *memory] ? 7 : 1);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 7 << 8)
			atomic_fetch_add(&wrong, 1);
		munmap(memory, COPY_PAGES * PAGE);
	}
	return NULL;
}

static long storm(void)
{
	pthread_t list[KILLED_THREADS];

	atomic_store(&wrong, 0);
	for (int t = 0; t < KILLED_THREADS; t++)
		if (pthread_create(&list[t], NULL, fork_and_map, NULL))
			fail("pthread_create");
	for (int t = 0; t < KILLED_THREADS; t++)
		pthread_join(list[t], NULL);
	return atomic_load(&wrong) ? 0 : rounds;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		long (*run)(void);
	} jobs[] = { { "protect", protect }, { "copy", copy },	 { "give-back", give_back }, { "remap", remap }, { "wake", wake },
		     { "signals", signals }, { "moves", moves }, { "kills", kills },	     { "storm", storm } };
	cpu_set_t everywhere;
	bool all, right = true, known = false;

	rounds = argc > 2 ? atol(argv[2]) : 0;
	if (rounds <= 0 || sched_getaffinity(0, sizeof everywhere, &everywhere)) {
		fprintf(stderr, "usage: parallel JOB|all N\n");
		return 2;
	}
	all = !strcmp(argv[1], "all");
	for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
		long good;

		if (!all && strcmp(argv[1], jobs[i].name))
			continue;
		known = true;
		good = jobs[i].run();
		sched_setaffinity(0, sizeof everywhere, &everywhere);
		printf("%s %ld of %ld\n", jobs[i].name, good, rounds);
		fflush(stdout);
		right &= good == rounds;
	}
	return known && right ? 0 : 1;
}
