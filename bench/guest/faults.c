// SPDX-License-Identifier: GPL-2.0-only
/* Page faults: of fresh pages, of a file's pages in memory, of protected pages that a handler opens. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

static char *pages;

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

static const struct row rows[] = {
	{ "anonymous-write-fault", PAGES, map_anonymous, forget_pages, run_write_fault, unmap_pages },
	{ "anonymous-read-fault", PAGES, map_anonymous, forget_pages, run_read_fault, unmap_pages },
	{ "file-read-fault", PAGES, map_file, forget_pages, run_read_fault, unmap_pages },
	{ "protection-fault-handled", PAGES, prepare_protection, protect_pages, run_write_fault, unmap_pages },
};
const struct rows fault_rows = { rows, COUNT(rows) };
