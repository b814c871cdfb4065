// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rows of the program `small`, 32-bit code for the experiments of "Performance of
 * address-space multiplexing on the Pentium" with Linux: the system calls of its table 2, and the
 * round trips through pipes of its figure 6, before each of which the client uses a working set.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "bench.h"
#include "working_set.h"

#define CALLS 2000
/* So many that those before the first that is measured are 2,000, by which they have settled. */
#define ROUND_TRIPS 300
/* JMP by a distance from its end, NOP, RET. */
#define JUMP 0xe9
#define JUMP_SIZE 5
#define NOP 0x90
#define RETURN 0xc3

static int file;
static char page[PAGE];

/* Linux's system call by the interrupt, which is what i386 processors without SYSENTER have. */
static inline long call5(long number, long a, long b, long c, long d, long e)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory");
	return result;
}

static void run_getpid(long count)
{
	while (count--)
		call5(SYS_getpid, 0, 0, 0, 0, 0);
}

static void run_gettimeofday(long count)
{
	struct timeval now;

	while (count--)
		call5(SYS_gettimeofday, (long)&now, 0, 0, 0, 0);
}

static void prepare_file(void)
{
	file = memfd_create("small", 0);
	if (file < 0 || write(file, page, sizeof(page)) != sizeof(page))
		fail("a file in memory");
}

static void end_file(void)
{
	close(file);
}

static void run_read(long count)
{
	while (count--)
		if (call5(SYS_pread64, file, (long)page, sizeof(page), 0, 0) != sizeof(page))
			fail("read");
}

static void run_write(long count)
{
	while (count--)
		if (call5(SYS_pwrite64, file, (long)page, sizeof(page), 0, 0) != sizeof(page))
			fail("write");
}

static void prepare_data(long count)
{
	take_pages(count);
	start_echo();
}

static void prepare_code(long count)
{
	const int32_t distance = STEP - JUMP_SIZE;

	take_memory((count + 1) * STEP);
	for (long at = 0; at < count; at++) {
		working_set[at * STEP] = JUMP;
		memcpy(working_set + at * STEP + 1, &distance, sizeof(distance));
	}
	working_set[count * STEP] = (char)RETURN;
	start_echo();
}

static void prepare_nops(long count)
{
	take_memory(count + 1);
	memset(working_set, NOP, count);
	working_set[count] = (char)RETURN;
	start_echo();
}

static void run_data(long count)
{
	while (count--) {
		read_pages();
		make_round_trips(1);
	}
}

static void run_code(long count)
{
	void (*code)(void) = (void (*)(void))working_set;

	while (count--) {
		code();
		make_round_trips(1);
	}
}

static void finish(void)
{
	end_echo();
	give_memory();
}

/* Sizes of a working set: pages of data, jumps of which each is in a page of its own, and nops. */
#define SIZES(KIND) KIND(data, 16) KIND(data, 32) KIND(data, 64) KIND(data, 96) \
	KIND(code, 32) KIND(code, 64) KIND(code, 128) KIND(code, 160) \
	KIND(nops, 4096) KIND(nops, 8192) KIND(nops, 16384)
#define run_nops run_code

#define PREPARATION(kind, size)                      \
	static void prepare_##kind##_##size(void)    \
	{                                            \
		prepare_##kind(size);                \
	}
#define ROW(kind, size) \
	{ "pipe-" #kind "-" #size, ROUND_TRIPS, prepare_##kind##_##size, NULL, run_##kind, finish, .settles = 1 },

SIZES(PREPARATION)

static const struct row rows[] = {
	{ "getpid", CALLS, NULL, NULL, run_getpid, NULL },
	{ "gettimeofday", CALLS, NULL, NULL, run_gettimeofday, NULL },
	{ "read-4k", CALLS, prepare_file, NULL, run_read, end_file },
	{ "write-4k", CALLS, prepare_file, NULL, run_write, end_file },
	{ "pipe", ROUND_TRIPS, start_echo, NULL, make_round_trips, end_echo, .settles = 1 },
	SIZES(ROW)
};
static const struct rows small_rows = { rows, COUNT(rows) };

const struct rows *const all_rows[] = { &small_rows, NULL };
