// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `bench`: fixed numbers of iterations of one operation each, timed with the processor's time stamp
 * counter, which counts instructions under the emulator's instruction clock. It judges nothing: ../run.py does.
 *
 *   bench ROW...                   the named rows; all without a name
 *   bench command NAME REPEATS CMD [ARGUMENT...]   how long a whole program takes
 *
 * Each row prints {"name", "iterations", "idle_ticks", "tsc": [one number for each repetition]}. Idle ticks are
 * Linux's clock ticks without work between the first and the last repetition; a row that idled is not a measure.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../guest/mark.h"

#define PAGE 4096
#define REPEATS 5
#define PAGES 256
#define EXEC_PROGRAM "/bin/true"

static char *pages;
static int null_fd, there[2], back[2];
static pid_t partner;
static uint32_t *words;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t stamp(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

static long idle_ticks(void)
{
	char text[256] = "";
	long user, nice, system, idle = -1;
	int fd = open("/proc/stat", O_RDONLY);

	if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
		sscanf(text, "cpu %ld %ld %ld %ld", &user, &nice, &system, &idle);
	close(fd);
	return idle;
}

static void run_getpid(long count)
{
	while (count--)
		syscall(SYS_getpid);
}

static void prepare_write(void)
{
	null_fd = open("/dev/null", O_WRONLY);
	if (null_fd < 0)
		fail("/dev/null");
}

static void run_write(long count)
{
	while (count--)
		write(null_fd, "x", 1);
}

/* A child that sends back each byte until the pipe is closed. */
static void prepare_pipe(void)
{
	char byte;

	if (pipe(there) || pipe(back))
		fail("pipe");
	partner = fork();
	if (partner == 0) {
		close(there[1]);
		close(back[0]);
		while (read(there[0], &byte, 1) == 1)
			write(back[1], &byte, 1);
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
}

static void run_pipe(long count)
{
	char byte = 'x';

	while (count--)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			fail("pipe");
}

static void finish_pipe(void)
{
	close(there[1]);
	close(back[0]);
	waitpid(partner, NULL, 0);
}

static void await_word(uint32_t *word, uint32_t value)
{
	uint32_t now;

	while ((now = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != value)
		syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void set_word(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void prepare_futex(void)
{
	words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	partner = fork();
	if (partner == 0)
		for (;;) {
			await_word(words, 1);
			set_word(words, 0);
		}
}

static void run_futex(long count)
{
	while (count--) {
		set_word(words, 1);
		await_word(words, 0);
	}
}

static void kill_partner(void)
{
	kill(partner, SIGKILL);
	waitpid(partner, NULL, 0);
}

/* Of two real-time processes of one priority, each yield gives way to the other: every yield is a switch. */
static void prepare_yield(void)
{
	struct sched_param priority = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("sched_setscheduler");
	partner = fork();
	if (partner == 0)
		for (;;)
			sched_yield();
}

static void run_yield(long count)
{
	while (count--)
		sched_yield();
}

static void finish_yield(void)
{
	struct sched_param priority = { .sched_priority = 0 };

	sched_setscheduler(0, SCHED_OTHER, &priority);
	kill_partner();
}

static void map_anonymous(void)
{
	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		fail("mmap");
	madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE);
}

/* Later rows fork: what this one mapped must not be copied there. */
static void unmap_pages(void)
{
	munmap(pages, PAGES * PAGE);
}

/* The faults of one repetition happen on fresh pages; giving them back is not timed. */
static void forget_pages(void)
{
	if (madvise(pages, PAGES * PAGE, MADV_DONTNEED))
		fail("madvise");
}

static void run_write_fault(long count)
{
	while (count--)
		*(volatile char *)(pages + count * PAGE) = 1;
}

static void run_read_fault(long count)
{
	while (count--)
		(void)*(volatile char *)(pages + count * PAGE);
}

static void map_file(void)
{
	char page[PAGE] = "x";
	int file_fd = memfd_create("bench", 0);

	for (int i = 0; i < PAGES; i++)
		if (write(file_fd, page, PAGE) != PAGE)
			fail("memfd");
	pages = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file_fd, 0);
	close(file_fd);
	if (pages == MAP_FAILED)
		fail("mmap");
}

static void run_fork(long count)
{
	while (count--) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (waitpid(pid, NULL, 0) != pid)
			fail("fork");
	}
}

static void run_exec(long count)
{
	int status;

	while (count--) {
		pid_t pid = fork();

		if (pid == 0) {
			execl(EXEC_PROGRAM, EXEC_PROGRAM, NULL);
			_exit(127);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			fail(EXEC_PROGRAM);
	}
}

static void do_nothing(int signo)
{
	(void)signo;
}

static void run_signal_install(long count)
{
	struct sigaction action = { .sa_handler = do_nothing };

	while (count--)
		sigaction(SIGUSR1, &action, NULL);
}

static void run_signal_deliver(long count)
{
	pid_t pid = getpid();

	signal(SIGUSR1, do_nothing);
	while (count--)
		kill(pid, SIGUSR1);
}

static void on_fault(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	mprotect((char *)((uintptr_t)info->si_addr & ~(PAGE - 1UL)), PAGE, PROT_READ | PROT_WRITE);
}

static void prepare_protection(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	map_anonymous();
	memset(pages, 1, PAGES * PAGE);
	sigaction(SIGSEGV, &action, NULL);
}

static void protect_pages(void)
{
	mprotect(pages, PAGES * PAGE, PROT_READ);
}

struct row {
	const char *name;
	long iterations;
	void (*prepare)(void);
	void (*before)(void);
	void (*run)(long count);
	void (*finish)(void);
};

static const struct row rows[] = {
	{ "getpid", 2000, NULL, NULL, run_getpid, NULL },
	{ "write-null", 2000, prepare_write, NULL, run_write, NULL },
	{ "pipe-round-trip", 500, prepare_pipe, NULL, run_pipe, finish_pipe },
	{ "futex-round-trip", 500, prepare_futex, NULL, run_futex, kill_partner },
	{ "two-switches", 500, prepare_yield, NULL, run_yield, finish_yield },
	{ "anonymous-write-fault", PAGES, map_anonymous, forget_pages, run_write_fault, unmap_pages },
	{ "anonymous-read-fault", PAGES, map_anonymous, forget_pages, run_read_fault, unmap_pages },
	{ "file-read-fault", PAGES, map_file, forget_pages, run_read_fault, unmap_pages },
	{ "protection-fault-handled", PAGES, prepare_protection, protect_pages, run_write_fault, unmap_pages },
	{ "signal-install", 1000, NULL, NULL, run_signal_install, NULL },
	{ "signal-deliver", 1000, NULL, NULL, run_signal_deliver, NULL },
	{ "fork-exit", 40, NULL, NULL, run_fork, NULL },
	{ "fork-exec", 20, NULL, NULL, run_exec, NULL },
};

static void print_result(const char *name, long iterations, long idle, const uint64_t *tsc, int repeats)
{
	printf("{\"name\": \"%s\", \"iterations\": %ld, \"idle_ticks\": %ld, \"tsc\": [", name, iterations, idle);
	for (int i = 0; i < repeats; i++)
		printf("%s%lu", i ? ", " : "", (unsigned long)tsc[i]);
	printf("]}\n");
	fflush(stdout);
}

static void measure(const struct row *row)
{
	uint64_t tsc[REPEATS];
	long idle = 0;

	if (row->prepare)
		row->prepare();
	/* The repetition numbered -1 warms up. */
	for (int i = -1; i < REPEATS; i++) {
		uint64_t start;

		if (i == 0)
			idle = idle_ticks();
		if (row->before)
			row->before();
		MARK(MARK_PART_BEGINS);
		start = stamp();
		row->run(row->iterations);
		if (i >= 0)
			tsc[i] = stamp() - start;
		MARK(MARK_PART_ENDS);
	}
	idle = idle_ticks() - idle;
	if (row->finish)
		row->finish();
	print_result(row->name, row->iterations, idle, tsc, REPEATS);
}

/* Times a whole program from fork to its end; its output goes to the error output. */
static int measure_command(const char *name, int repeats, char **argv)
{
	uint64_t tsc[REPEATS];
	long idle = idle_ticks();
	int status = 0;

	if (repeats < 1 || repeats > REPEATS)
		return 2;
	for (int i = 0; i < repeats && !status; i++) {
		uint64_t start = stamp();
		pid_t pid = fork();

		if (pid == 0) {
			dup2(STDERR_FILENO, STDOUT_FILENO);
			execvp(argv[0], argv);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		tsc[i] = stamp() - start;
	}
	if (status)
		return 1;
	print_result(name, 1, idle_ticks() - idle, tsc, repeats);
	return 0;
}

int main(int argc, char **argv)
{
	int found = 0;

	if (argc > 4 && !strcmp(argv[1], "command"))
		return measure_command(argv[2], atoi(argv[3]), argv + 4);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		for (int name = 1; name < argc || (argc == 1 && name == 1); name++)
			if (argc == 1 || !strcmp(argv[name], rows[i].name)) {
				measure(&rows[i]);
				found++;
			}
	if (!found)
		fprintf(stderr, "bench: no row of this name\n");
	return !found;
}
