// SPDX-License-Identifier: GPL-2.0-only
/*
 * A stack that grows page by page, repeatedly for a number of seconds, while a timer interrupts it
 * each millisecond. `growth SECONDS` prints how many pages it touched, how many were wrong, how
 * many milliseconds passed, and how many the timer reported.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096UL
#define DEEP_PAGES 1500
/* A millisecond, which is the timer's period too. */
#define MS_NS 1000000
#define MS_A_S 1000

static timer_t timer;
static volatile unsigned long told;

static void tick(int number)
{
	(void)number;
	told += 1 + timer_getoverrun(timer);
}

static unsigned long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * MS_A_S + time.tv_nsec / MS_NS;
}

/* How many of the pages below this frame keep what was written to them. */
__attribute__((noinline)) static unsigned long descend(unsigned long left)
{
	volatile char page[PAGE];

	page[0] = left;
	return left ? descend(left - 1) + (page[0] == (char)left) : 0;
}

/* Unmaps the stack's pages below the used ones. */
static void take_away(void)
{
	char *here = (char *)((unsigned long)__builtin_frame_address(0) & ~(PAGE - 1)) - PAGE;

	if (madvise(here - DEEP_PAGES * PAGE, DEEP_PAGES * PAGE, MADV_DONTNEED) < 0) {
		perror("madvise");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct sigevent signalled = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	struct itimerspec often = { { 0, MS_NS }, { 0, MS_NS } };
	unsigned long pages = 0, right = 0, began, end;

	signal(SIGALRM, tick);
	if (timer_create(CLOCK_MONOTONIC, &signalled, &timer) < 0 || timer_settime(timer, 0, &often, NULL) < 0) {
		perror("timer");
		return 1;
	}
	began = now_ms();
	end = began + (argc > 1 ? atoi(argv[1]) : 1) * MS_A_S;
	while (now_ms() < end) {
		pages += DEEP_PAGES;
		right += descend(DEEP_PAGES);
		take_away();
	}
	printf("growth: %lu pages, %lu wrong, %lu ms, the timer reported %lu\n", pages, pages - right,
	       now_ms() - began, told);
	return 0;
}
