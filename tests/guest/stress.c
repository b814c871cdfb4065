// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `stress`: many processes and threads, and a mixed load that verifies its own results.
 * It prints one deterministic line for each job and ends with status 0 only when every result was
 * right.
 *
 *   stress forks N | execs N [PROGRAM] | killspin N | killblocked N | procs N | threads N |
 *          mixed N | memory MEGABYTES
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define MEGABYTE (1UL << 20)
#define GOLDEN 0x9e3779b97f4a7c15 /* an odd factor: all products differ */
#define THREAD_STACK 65536
#define FILE_BYTES 50000
#define MAP_PAGES 64
#define MESSAGES 50
#define FUTEX_TURNS 50
#define SIGNALS 50
#define COMPUTE_STEPS 3000000
#define WORKERS 3

static void fail(const char *what)
{
	fprintf(stderr, "stress: %s: %s\n", what, strerror(errno));
	exit(1);
}

static pid_t checked_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	return pid;
}

/* Waits for the child; true when it ended with this wait status. */
static bool ended_with(pid_t pid, int expected)
{
	int status;

	return waitpid(pid, &status, 0) == pid && status == expected;
}

static long forks(long count)
{
	long good = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = checked_fork();

		if (!pid)
			_exit(i & 127);
		good += ended_with(pid, (i & 127) << 8);
	}
	return good;
}

static const char *program = "/bin/true";

static long execs(long count)
{
	long good = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = checked_fork();

		if (!pid) {
			execl(program, program, NULL);
			_exit(127);
		}
		good += ended_with(pid, 0);
	}
	return good;
}

static long killspin(long count)
{
	long good = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = checked_fork();

		if (!pid)
			for (;;)
				__asm__ volatile("");
		if (i % 4 == 0)
			usleep(2000);
		kill(pid, SIGKILL);
		good += ended_with(pid, SIGKILL);
	}
	return good;
}

static long killblocked(long count)
{
	long good = 0;
	int ends[2];

	if (pipe(ends))
		fail("pipe");
	for (long i = 0; i < count; i++) {
		char byte;
		pid_t pid = checked_fork();

		if (!pid)
			_exit(read(ends[0], &byte, 1));
		if (i % 4 == 0)
			usleep(2000);
		kill(pid, SIGKILL);
		good += ended_with(pid, SIGKILL);
	}
	close(ends[0]);
	close(ends[1]);
	return good;
}

/* All processes exist at once: each reports that, then waits until the pipe is closed. */
static long procs(long count)
{
	pid_t *pids = calloc(count, sizeof *pids);
	int ready[2], go[2];
	long good = 0;
	char byte;

	if (pipe(ready) || pipe(go))
		fail("pipe");
	for (long i = 0; i < count; i++) {
		pids[i] = checked_fork();
		if (!pids[i]) {
			close(go[1]);
			if (write(ready[1], "x", 1) != 1)
				_exit(1);
			_exit(read(go[0], &byte, 1) == 0 ? i & 127 : 1);
		}
	}
	for (long i = 0; i < count; i++)
		if (read(ready[0], &byte, 1) != 1)
			fail("read");
	close(go[1]);
	for (long i = 0; i < count; i++)
		good += ended_with(pids[i], (i & 127) << 8);
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
	free(pids);
	return good;
}

static pthread_barrier_t all_there;
static long thread_sum;

static void *meet_and_add(void *argument)
{
	pthread_barrier_wait(&all_there);
	__atomic_fetch_add(&thread_sum, (long)argument, __ATOMIC_SEQ_CST);
	return NULL;
}

static long threads(long count)
{
	pthread_t *list = calloc(count, sizeof *list);
	pthread_attr_t attributes;
	long good = 0;

	thread_sum = 0;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK);
	pthread_barrier_init(&all_there, NULL, count);
	for (long i = 0; i < count; i++)
		if (pthread_create(&list[i], &attributes, meet_and_add, (void *)i))
			fail("pthread_create");
	for (long i = 0; i < count; i++)
		good += pthread_join(list[i], NULL) == 0;
	free(list);
	return thread_sum == count * (count - 1) / 2 ? good : 0;
}

/* The shift carries high bits down: without it the low bits of the sum would soon be constant. */
static uint32_t mix(uint32_t sum, uint32_t value)
{
	sum = (sum ^ value) * 16777619u;
	return sum ^ sum >> 15;
}

/* Anonymous memory: written, half of it changed by a child, protected, given back. */
static uint32_t memory_round(uint32_t seed)
{
	uint32_t *memory = mmap(NULL, MAP_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t stride = PAGE / sizeof *memory;
	pid_t pid;

	if (memory == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < MAP_PAGES; i++)
		memory[i * stride + i] = seed + i;
	pid = checked_fork();
	if (!pid) {
		for (size_t i = 0; i < MAP_PAGES; i += 2)
			memory[i * stride + i] = 0;
		_exit(memory[stride + 1] == seed + 1 ? 0 : 1);
	}
	if (!ended_with(pid, 0))
		fail("child's memory");
	mprotect(memory, MAP_PAGES / 2 * PAGE, PROT_READ);
	madvise(memory + MAP_PAGES / 2 * stride, PAGE, MADV_DONTNEED);
	for (size_t i = 0; i < MAP_PAGES; i++)
		seed = mix(seed, memory[i * stride + i]);
	munmap(memory, MAP_PAGES * PAGE);
	return seed;
}

static uint32_t file_round(uint32_t seed)
{
	static unsigned char bytes[FILE_BYTES], again[FILE_BYTES];
	char name[64];
	int fd;

	snprintf(name, sizeof name, "/tmp/stress-%d", getpid());
	fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (size_t i = 0; i < FILE_BYTES; i++)
		bytes[i] = seed + i * 7;
	if (fd < 0 || pwrite(fd, bytes, FILE_BYTES, 0) != FILE_BYTES || pread(fd, again, FILE_BYTES, 0) != FILE_BYTES)
		fail("file");
	if (memcmp(bytes, again, FILE_BYTES))
		fail("contents of file");
	close(fd);
	unlink(name);
	return mix(seed, again[FILE_BYTES - 1]);
}

/* A child answers messages over a pair of sockets and, at the end, over a pipe. */
static uint32_t message_round(uint32_t seed)
{
	uint32_t value = seed;
	int pair[2], ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(ends))
		fail("socketpair");
	pid = checked_fork();
	if (!pid) {
		close(pair[0]);
		while (read(pair[1], &value, sizeof value) == sizeof value) {
			value = mix(value, 3);
			if (write(pair[1], &value, sizeof value) != sizeof value)
				_exit(1);
		}
		_exit(write(ends[1], &value, sizeof value) != sizeof value);
	}
	close(pair[1]);
	for (int i = 0; i < MESSAGES; i++)
		if (write(pair[0], &value, sizeof value) != sizeof value ||
		    read(pair[0], &value, sizeof value) != sizeof value)
			fail("message");
	close(pair[0]);
	if (read(ends[0], &seed, sizeof seed) != sizeof seed || seed != value || !ended_with(pid, 0))
		fail("last message");
	close(ends[0]);
	close(ends[1]);
	return value;
}

static void await_turn(uint32_t *word, uint32_t turn)
{
	uint32_t now;

	while ((now = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != turn)
		syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void give_turn(uint32_t *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, 2, NULL, NULL, 0);
}

static uint32_t futex_round(uint32_t seed)
{
	uint32_t *words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t result;
	pid_t pid = checked_fork();

	for (uint32_t turn = 0; turn < FUTEX_TURNS; turn++) {
		await_turn(words, turn * 2 + !pid);
		words[1] = mix(words[1] + seed, turn);
		give_turn(words);
	}
	if (!pid)
		_exit(0);
	if (!ended_with(pid, 0))
		fail("futex child");
	result = words[1];
	munmap(words, PAGE);
	return result;
}

static volatile sig_atomic_t signals_seen;

static void on_signal(int signo)
{
	(void)signo;
	signals_seen++;
}

static uint32_t signal_round(uint32_t seed)
{
	pid_t parent = getpid(), pid;

	signals_seen = 0;
	signal(SIGRTMIN, on_signal);
	pid = checked_fork();
	if (!pid) {
		for (int i = 0; i < SIGNALS; i++)
			if (sigqueue(parent, SIGRTMIN, (union sigval){ .sival_int = i }))
				_exit(1);
		_exit(0);
	}
	while (signals_seen < SIGNALS)
		;
	if (!ended_with(pid, 0))
		fail("signal child");
	return mix(seed, signals_seen);
}

static uint32_t exec_round(uint32_t seed)
{
	pid_t pid = checked_fork();

	if (!pid) {
		execl("/proc/self/exe", "stress", "exit", "5", NULL);
		_exit(127);
	}
	if (!ended_with(pid, 5 << 8))
		fail("exec child");
	return mix(seed, 5);
}

/* Computation between the system calls, so that timer interrupts find user code running. */
static uint32_t compute_round(uint32_t seed)
{
	for (uint32_t i = 0; i < COMPUTE_STEPS; i++)
		seed = mix(seed, i);
	return seed;
}

static uint32_t worker(long count, uint32_t seed)
{
	static uint32_t (*const kinds[])(uint32_t) = { memory_round, file_round,  message_round, futex_round,
						       signal_round, exec_round, compute_round };

	for (long i = 0; i < count; i++)
		for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
			seed = kinds[kind](seed);
	return seed;
}

/* Several workers at once; each sends its checksum, which depends on the count only. */
static long mixed(long count)
{
	int ends[2], bad = 0;
	uint32_t sum, total = 0;
	pid_t pids[WORKERS];

	if (pipe(ends))
		fail("pipe");
	for (int i = 0; i < WORKERS; i++) {
		pids[i] = checked_fork();
		if (!pids[i]) {
			sum = worker(count, 2166136261u + i);
			_exit(write(ends[1], &sum, sizeof sum) != sizeof sum);
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		bad += !ended_with(pids[i], 0);
		if (!bad && read(ends[0], &sum, sizeof sum) == sizeof sum)
			total += sum;
	}
	printf("mixed checksum %08x\n", total);
	return bad ? 0 : count;
}

/*
 * A number of megabytes at once, each word with its own value, checked twice; returns the
 * megabytes that were right.
 */
static long memory(long megabytes)
{
	size_t words = MEGABYTE / sizeof(uint64_t);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE; /* more than there is, if it is asked for */
	uint64_t *all = mmap(NULL, megabytes * MEGABYTE, PROT_READ | PROT_WRITE, flags, -1, 0);
	long good = 0;

	if (all == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < megabytes * words; i++)
		all[i] = (i + 1) * GOLDEN;
	for (int round = 0; round < 2; round++)
		for (long block = 0; block < megabytes; block++) {
			size_t first = block * words, i = first;

			while (i < first + words && all[i] == (i + 1) * GOLDEN)
				i++;
			good += i == first + words;
		}
	return good / 2;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		long (*run)(long);
	} jobs[] = { { "forks", forks },	 { "execs", execs }, { "killspin", killspin }, { "killblocked", killblocked },
		     { "procs", procs }, { "threads", threads }, { "mixed", mixed }, { "memory", memory } };
	long count = argc > 2 ? atol(argv[2]) : 0, good;

	if (argc > 2 && !strcmp(argv[1], "exit"))
		return count;
	if (argc > 3)
		program = argv[3];
	for (size_t i = 0; count > 0 && i < sizeof jobs / sizeof jobs[0]; i++) {
		if (strcmp(argv[1], jobs[i].name))
			continue;
		good = jobs[i].run(count);
		printf("%s %ld of %ld\n", jobs[i].name, good, count);
		return good == count ? 0 : 1;
	}
	fprintf(stderr, "usage: stress forks|execs|killspin|killblocked|procs|threads|mixed|memory N [PROGRAM]\n");
	return 2;
}
