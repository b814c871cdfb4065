// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many processes, threads and VMAs: the cost of one more, and of work by all of them, by their
 * number.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "growth.h"

#define SHARED_BYTES (32 * MB)
/* The operations of a stage whose number does not depend on the size. */
#define ONES 8
#define MOST_PROCESSES 1024
#define MOST_THREADS 8192
/* Commands for a child. */
#define TOUCH 1

/* A word for each process and one for the parent. Each waits while its word is 0. */
static int *turns;
static pid_t children[MOST_PROCESSES];
static char *set;

static void wait_for(int *word)
{
	while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void wake(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void read_set(void)
{
	for (unsigned long place = 0; place < SHARED_BYTES; place += PAGE)
		(void)*(volatile char *)(set + place);
}

/*
 * Waits for its turn, reads the set if there is one, and gives the turn to the next process; the
 * last one to the parent.
 */
static void live(long number)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		wait_for(&turns[number]);
		turns[number] = 0;
		if (set)
			read_set();
		wake(&turns[number + 1], TOUCH);
	}
}

static void start_processes(long size)
{
	if (size > MOST_PROCESSES)
		fail("more processes than there is room for");
	turns = mmap(NULL, (size + 1) * sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (turns == MAP_FAILED)
		fail("mmap");
	for (long i = 0; i < size; i++) {
		children[i] = fork();
		if (children[i] < 0)
			fail("fork");
		if (children[i] == 0)
			live(i);
	}
}

static void end_processes(long size)
{
	for (long i = 0; i < size; i++)
		kill(children[i], SIGKILL);
	for (long i = 0; i < size; i++)
		waitpid(children[i], NULL, 0);
	munmap(turns, (size + 1) * sizeof(*turns));
}

static void let_all_run(long size)
{
	wake(&turns[0], TOUCH);
	wait_for(&turns[size]);
	turns[size] = 0;
}

static void run_processes(const struct row *row, long size)
{
	(void)row;
	/* Waits until each has run. How many run earlier depends on the duration. */
	stage_begins("processes-start");
	start_processes(size);
	let_all_run(size);
	stage_ends(size);
	stage_begins("processes-ring");
	let_all_run(size);
	stage_ends(size);
	stage_begins("fork-beside-processes");
	for (int i = 0; i < ONES; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		reap(pid);
	}
	stage_ends(ONES);
	stage_begins("processes-end");
	end_processes(size);
	stage_ends(size);
}

static void run_share(const struct row *row, long size)
{
	(void)row;
	set = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (set == MAP_FAILED)
		fail("mmap");
	for (unsigned long place = 0; place < SHARED_BYTES; place += PAGE)
		*(volatile char *)(set + place) = 1;
	start_processes(size);
	stage_begins("share-first");
	let_all_run(size);
	stage_ends(size);
	stage_begins("share-again");
	let_all_run(size);
	stage_ends(size);
	stage_begins("share-parent");
	read_set();
	stage_ends(1);
	stage_begins("share-remove");
	if (madvise(set, SHARED_BYTES, MADV_REMOVE))
		fail("MADV_REMOVE");
	stage_ends(size);
	end_processes(size);
	munmap(set, SHARED_BYTES);
	set = NULL;
}

static pthread_t threads[MOST_THREADS];
static int sleeping_ends, started, all_started;
static long expected;

static void *sleep_once(void *none)
{
	if (__atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST) == expected)
		wake(&all_started, 1);
	wait_for(&sleeping_ends);
	return none;
}

static void *do_nothing(void *none)
{
	return none;
}

static void create(pthread_t *thread, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
	if (pthread_create(thread, &attributes, run, argument))
		fail("pthread_create");
	pthread_attr_destroy(&attributes);
}

static void run_threads(const struct row *row, long size)
{
	pthread_t one;

	(void)row;
	if (size > MOST_THREADS)
		fail("more threads than there is room for");
	sleeping_ends = started = all_started = 0;
	expected = size;
	stage_begins("threads-start");
	for (long i = 0; i < size; i++)
		create(&threads[i], sleep_once, NULL);
	wait_for(&all_started);
	stage_ends(size);
	stage_begins("thread-beside-threads");
	for (int i = 0; i < ONES; i++) {
		create(&one, do_nothing, NULL);
		pthread_join(one, NULL);
	}
	stage_ends(ONES);
	stage_begins("threads-end");
	wake(&sleeping_ends, 1);
	for (long i = 0; i < size; i++)
		pthread_join(threads[i], NULL);
	stage_ends(size);
}

/* Every second page is protected, so that each page is a VMA of its own. */
static void run_vmas(const struct row *row, long size)
{
	char *area = mmap(NULL, size * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	(void)row;
	if (area == MAP_FAILED)
		fail("mmap");
	stage_begins("vmas-split");
	for (long i = 0; i < size; i += 2)
		if (mprotect(area + i * PAGE, PAGE, PROT_READ))
			fail("mprotect");
	stage_ends(size / 2);
	stage_begins("vmas-touch");
	for (long i = 1; i < size; i += 2)
		*(volatile char *)(area + i * PAGE) = 1;
	stage_ends(size / 2);
	stage_begins("mmap-beside-vmas");
	for (int i = 0; i < ONES; i++) {
		char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			fail("mmap");
		*page = 1;
		munmap(page, PAGE);
	}
	stage_ends(ONES);
	stage_begins("vmas-fork");
	pid = fork();
	if (pid == 0)
		_exit(0);
	reap(pid);
	stage_ends(size);
	stage_begins("vmas-munmap");
	munmap(area, size * PAGE);
	stage_ends(size);
}

static const struct row rows[] = {
	{ "processes", run_processes, 0, "" },
	{ "share", run_share, 0, "" },
	{ "threads", run_threads, 0, "" },
	{ "vmas", run_vmas, 0, "" },
};
const struct rows crowd_rows = { rows, COUNT(rows) };
