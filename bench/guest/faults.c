// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults: on fresh pages, on a file's pages in the page cache, on protected pages that a
 * handler opens or steps over. A repetition is several rounds over the same pages, long enough to
 * contain clock ticks. Making the pages fault again is not timed.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS 16

static char *pages;

static void map_anonymous(void)
{
	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		fail("mmap");
	madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE);
}

/* Later rows fork: they must not copy what this row mapped. */
static void unmap_pages(void)
{
	munmap(pages, PAGES * PAGE);
}

static void forget_pages(void)
{
	if (madvise(pages, PAGES * PAGE, MADV_DONTNEED))
		fail("madvise");
}

static void protect_pages(void)
{
	mprotect(pages, PAGES * PAGE, PROT_READ);
}

static void write_pages(void)
{
	for (long i = PAGES; i-- > 0;)
		*(volatile char *)(pages + i * PAGE) = 1;
}

static void read_pages(void)
{
	for (long i = PAGES; i-- > 0;)
		(void)*(volatile char *)(pages + i * PAGE);
}

static void run_rounds(long count, void (*before)(void), void (*touch)(void))
{
	for (; count > 0; count -= PAGES) {
		before();
		part_begins();
		touch();
		part_ends();
	}
}

static void run_write_fault(long count)
{
	run_rounds(count, forget_pages, write_pages);
}

static void run_read_fault(long count)
{
	run_rounds(count, forget_pages, read_pages);
}

static void run_protected(long count)
{
	run_rounds(count, protect_pages, write_pages);
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

static void on_fault(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	mprotect((char *)((uintptr_t)info->si_addr & ~(PAGE - 1UL)), PAGE, PROT_READ | PROT_WRITE);
}

/* The one instruction of store_to_pages() that faults, and its length. */
static void store(char *to)
{
	__asm__ volatile("movb $1, (%0)" : : "D"(to) : "memory");
}
#define STORE_BYTES 3

static void on_store(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += STORE_BYTES;
}

static void store_to_pages(void)
{
	for (long i = PAGES; i-- > 0;)
		store(pages + i * PAGE);
}

static void run_skipped(long count)
{
	run_rounds(count, protect_pages, store_to_pages);
}

static void prepare_handler(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	map_anonymous();
	memset(pages, 1, PAGES * PAGE);
	sigaction(SIGSEGV, &action, NULL);
}

static void prepare_protection(void)
{
	prepare_handler(on_fault);
}

static void prepare_skipping(void)
{
	prepare_handler(on_store);
}

static const struct row rows[] = {
	{ "anonymous-write-fault", ROUNDS * PAGES, map_anonymous, NULL, run_write_fault, unmap_pages, .marks_itself = 1 },
	{ "anonymous-read-fault", ROUNDS * PAGES, map_anonymous, NULL, run_read_fault, unmap_pages, .marks_itself = 1 },
	{ "file-read-fault", ROUNDS * PAGES, map_file, NULL, run_read_fault, unmap_pages, .marks_itself = 1 },
	{ "protection-fault-handled", ROUNDS * PAGES, prepare_protection, NULL, run_protected, unmap_pages, .marks_itself = 1 },
	{ "protection-fault-skipped", ROUNDS * PAGES, prepare_skipping, NULL, run_skipped, unmap_pages, .marks_itself = 1 },
};
const struct rows fault_rows = { rows, COUNT(rows) };
