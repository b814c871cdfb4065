// SPDX-License-Identifier: GPL-2.0-only
/*
 * The virtual memory primitives of Appel and Li (ASPLOS 1991) with SIGSEGV and mprotect(): the time
 * until the handler runs; opening pages one by one while protecting another (appel1), or after all
 * were protected in one call (appel2). Protected pages cannot be read either.
 * user/bench/src/paper/appel.rs does the same between native tasks; both use the pages in the same
 * order.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

/* As many as in SOSP 1997. The step between pages has no divisor in common with their number. */
#define CLOSED_PAGES 100
#define STEP 37
#define ROUNDS 5

static char *pages;
static volatile char *open_page;

static char *page_of(long access)
{
	return pages + access * STEP % CLOSED_PAGES * PAGE;
}

static void change(volatile char *page, size_t count, int rights)
{
	if (mprotect((void *)page, count * PAGE, rights))
		fail("mprotect");
}

static volatile char *faulting_page(const siginfo_t *info)
{
	return (char *)((uintptr_t)info->si_addr & ~(PAGE - 1UL));
}

static void end_trap(int signo, siginfo_t *info, void *context)
{
	part_ends();
	(void)signo;
	(void)context;
	change(faulting_page(info), 1, PROT_READ | PROT_WRITE);
}

static void open_only(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	change(faulting_page(info), 1, PROT_READ | PROT_WRITE);
}

static void open_and_close(int signo, siginfo_t *info, void *context)
{
	volatile char *page = faulting_page(info);

	(void)signo;
	(void)context;
	change(page, 1, PROT_READ | PROT_WRITE);
	change(open_page, 1, PROT_NONE);
	open_page = page;
}

static void prepare(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	pages = mmap(NULL, CLOSED_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		fail("mmap");
	memset(pages, 0, CLOSED_PAGES * PAGE);
	sigaction(SIGSEGV, &action, NULL);
}

static void prepare_trap(void)
{
	prepare(end_trap);
}

static void prepare_appel1(void)
{
	prepare(open_and_close);
	open_page = page_of(0);
	change(pages, CLOSED_PAGES, PROT_NONE);
	change(open_page, 1, PROT_READ | PROT_WRITE);
}

static void prepare_appel2(void)
{
	prepare(open_only);
}

static void finish(void)
{
	long written = 0;

	signal(SIGSEGV, SIG_DFL);
	change(pages, CLOSED_PAGES, PROT_READ);
	for (int i = 0; i < CLOSED_PAGES; i++)
		written += pages[i * PAGE] != 0;
	if (written != CLOSED_PAGES)
		fail("pages that were opened");
	munmap(pages, CLOSED_PAGES * PAGE);
}

/* Only up to the handler's first instruction counts. */
static void run_trap(long count)
{
	for (long i = 1; i <= count; i++) {
		volatile char *page = page_of(i);

		change(page, 1, PROT_READ);
		part_begins();
		*page = 1;
	}
}

/* The page that is open is never the next one. */
static void run_appel1(long count)
{
	for (long i = 1; i <= count; i++)
		*page_of(i) = 1;
}

static void run_appel2(long count)
{
	for (long i = 0; i < count; i++) {
		if (i % CLOSED_PAGES == 0)
			change(pages, CLOSED_PAGES, PROT_NONE);
		*page_of(i) = 1;
	}
}

static const struct row rows[] = {
	{ "trap", CLOSED_PAGES, prepare_trap, NULL, run_trap, finish, .marks_itself = 1 },
	{ "appel1", ROUNDS * CLOSED_PAGES, prepare_appel1, NULL, run_appel1, finish },
	{ "appel2", ROUNDS * CLOSED_PAGES, prepare_appel2, NULL, run_appel2, finish },
};
const struct rows appel_rows = { rows, COUNT(rows) };
