// SPDX-License-Identifier: GPL-2.0-only
/* Switches between processes: futexes, yielding, and lmbench's rings of pipes. */
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

#define RING_MOST 8

static uint32_t *words;
static int ring[RING_MOST][2], members;

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

static void answer_word(void)
{
	for (;;) {
		await_word(words, 1);
		set_word(words, 0);
	}
}

static void prepare_futex(void)
{
	words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (words == MAP_FAILED)
		fail("mmap");
	start_child(answer_word);
}

static void run_futex(long count)
{
	while (count--) {
		set_word(words, 1);
		await_word(words, 0);
	}
}

static void yield_always(void)
{
	for (;;)
		sched_yield();
}

/*
 * Two real-time processes of one priority: every yield is a switch to the other.
 */
static void prepare_yield(void)
{
	struct sched_param priority = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("sched_setscheduler");
	start_child(yield_always);
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
	end_children();
}

/* Passes a byte on from its own pipe of the ring to the next, until the previous process ends. */
static void member(int number)
{
	char byte;

	for (int i = 0; i < members; i++) {
		if (i != number)
			close(ring[i][0]);
		if (i != (number + 1) % members)
			close(ring[i][1]);
	}
	while (read(ring[number][0], &byte, 1) == 1)
		if (write(ring[(number + 1) % members][1], &byte, 1) != 1)
			break;
	_exit(0);
}

static void prepare_ring(int count)
{
	members = count;
	for (int i = 0; i < members; i++)
		if (pipe(ring[i]))
			fail("pipe");
	for (int i = 1; i < members; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0)
			member(i);
	}
	for (int i = 0; i < members; i++) {
		if (i != 0)
			close(ring[i][0]);
		if (i != 1)
			close(ring[i][1]);
	}
}

static void prepare_ring_2(void)
{
	prepare_ring(2);
}

static void prepare_ring_8(void)
{
	prepare_ring(8);
}

/* A byte goes round the ring: one switch, one read and one write per member. */
static void run_ring(long count)
{
	char byte = 'x';

	for (; count > 0; count -= members)
		if (write(ring[1][1], &byte, 1) != 1 || read(ring[0][0], &byte, 1) != 1)
			fail("ring");
}

static void finish_ring(void)
{
	close(ring[1][1]);
	close(ring[0][0]);
	end_children();
}

static const struct row rows[] = {
	{ "futex-round-trip", 500, prepare_futex, NULL, run_futex, end_children, .settles = 1 },
	{ "two-switches", 500, prepare_yield, NULL, run_yield, finish_yield, .settles = 1 },
	{ "switch-2-processes", 800, prepare_ring_2, NULL, run_ring, finish_ring, .settles = 1 },
	{ "switch-8-processes", 800, prepare_ring_8, NULL, run_ring, finish_ring, .settles = 1 },
};
const struct rows switch_rows = { rows, COUNT(rows) };
