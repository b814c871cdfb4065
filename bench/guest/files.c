// SPDX-License-Identifier: GPL-2.0-only
/* A file in the page cache: reading it, mapping it, reading the mapping. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define SMALL (4 << 10)
#define LARGE (8 << 20)
#define CHUNK (64 << 10)

/*
 * Alignment to the kernel's fault-around window: a mapping that begins at its border gets the most
 * pages per fault.
 */
#define WINDOW (64 << 10)

static int file;
static void *place_for_large;
static char chunk[CHUNK];
static const char *mapping;
static volatile uint64_t sum;

static void make_file(void)
{
	file = open("bench.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0)
		fail("bench.file");
	for (long size = 0; size < LARGE; size += CHUNK)
		if (write(file, chunk, CHUNK) != CHUNK)
			fail("bench.file");
	/* No dirty page is left to be written back while other rows are measured. */
	fsync(file);
}

static void prepare_large(void)
{
	char *hole = mmap(NULL, LARGE + WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	make_file();
	if (hole == MAP_FAILED || munmap(hole, LARGE + WINDOW))
		fail("mmap");
	place_for_large = (void *)(((uintptr_t)hole + WINDOW - 1) & -(uintptr_t)WINDOW);
}

static void remove_file(void)
{
	close(file);
	unlink("bench.file");
}

static void map_and_unmap(long count, void *where, long size)
{
	while (count--) {
		int flags = where ? MAP_SHARED | MAP_FIXED_NOREPLACE : MAP_SHARED;
		volatile char *place = mmap(where, size, PROT_READ, flags, file, 0);

		if (place == MAP_FAILED)
			fail("mmap");
		(void)*place;
		munmap((void *)place, size);
	}
}

static void run_map_small(long count)
{
	map_and_unmap(count, NULL, SMALL);
}

static void run_map_large(long count)
{
	map_and_unmap(count, place_for_large, LARGE);
}

static void add_up(const char *from, long size)
{
	uint64_t total = 0;

	for (const uint64_t *word = (const uint64_t *)from; word < (const uint64_t *)(from + size); word++)
		total += *word;
	sum = total;
}

/* Each iteration reads the whole file and tests each word. */
static void run_read(long count)
{
	while (count--) {
		lseek(file, 0, SEEK_SET);
		for (long size = 0; size < LARGE; size += CHUNK) {
			if (read(file, chunk, CHUNK) != CHUNK)
				fail("bench.file");
			add_up(chunk, CHUNK);
		}
	}
}

static void prepare_mapping(void)
{
	make_file();
	mapping = mmap(NULL, LARGE, PROT_READ, MAP_SHARED, file, 0);
	if (mapping == MAP_FAILED)
		fail("mmap");
}

static void run_read_mapping(long count)
{
	while (count--)
		add_up(mapping, LARGE);
}

static void finish_mapping(void)
{
	munmap((void *)mapping, LARGE);
	remove_file();
}

static const struct row rows[] = {
	{ "mmap-4k", 1000, make_file, NULL, run_map_small, remove_file },
	{ "mmap-8m", 1000, prepare_large, NULL, run_map_large, remove_file },
	{ "file-reread-8m", 2, make_file, NULL, run_read, remove_file },
	{ "mmap-reread-8m", 2, prepare_mapping, NULL, run_read_mapping, finish_mapping },
};
const struct rows file_rows = { rows, COUNT(rows) };
