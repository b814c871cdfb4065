// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `growth`: the time of an operation at several sizes of its data, in ticks of the
 * processor's time stamp counter, which counts instructions under the emulator's instruction clock.
 * It judges nothing: ../growth.py does.
 *
 *   growth ROW/SIZE...             each row at each size, in this order
 *   growth list                    the names of all rows
 *
 * Each stage of a row prints {"name": "STAGE/SIZE", "iterations", "parts", "idle_ticks", "tsc":
 * [one number for each repetition]}, as the program `bench` does. Larger sizes of a row are left
 * out once an operation has taken too long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../guest/mark.h"
#include "growth.h"

/*
 * Repetitions that count, after one that warms up. If the first takes longer than BRIEF, it is the
 * only one.
 */
#define REPEATS 3
#define BRIEF 300000000UL
/* If one operation takes longer than this, the row is not run at larger sizes. */
#define TOO_LONG 1000000000UL
#define STAGES 8
#define OPEN_FILES 20000
#define STAMP "stamp"
#define NAME_BYTES 64

/* Shared with the processes that end a stage. */
static struct {
	unsigned int count, current;
	long idle;
	uint64_t start;
	struct {
		const char *name;
		long operations, idle;
		uint64_t taken[1 + REPEATS];
	} stages[STAGES];
	int repetition;
} *shared;
static int shared_fd;

static const struct rows *const all_rows[] = { &memory_rows, &crowd_rows, &object_rows };

void stage_begins(const char *name)
{
	unsigned int stage = 0;

	while (stage < shared->count && strcmp(shared->stages[stage].name, name))
		stage++;
	if (stage == shared->count) {
		if (++shared->count > STAGES) {
			errno = ENOSPC;
			fail(name);
		}
		shared->stages[stage].name = name;
	}
	shared->current = stage;
	shared->idle = idle_ticks();
	MARK(MARK_PART_BEGINS);
	shared->start = stamp();
}

void stage_ends(long operations)
{
	uint64_t taken = stamp() - shared->start;

	MARK(MARK_PART_ENDS);
	shared->stages[shared->current].taken[shared->repetition] = taken;
	shared->stages[shared->current].operations = operations;
	shared->stages[shared->current].idle += idle_ticks() - shared->idle;
}

void exec_to_end_stage(void)
{
	char fd[NAME_BYTES];

	snprintf(fd, sizeof fd, "%d", shared_fd);
	execl("/proc/self/exe", "growth", STAMP, fd, (char *)NULL);
	fail("exec");
}

void reap(int pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "growth: a child ended with status %#x\n", status);
		exit(1);
	}
}

static void map_shared(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
}

/* Returns how long the longest operation took. */
static uint64_t print_stages(const char *suffix, long size, int first, int repetitions)
{
	uint64_t longest = 0;

	for (unsigned int i = 0; i < shared->count; i++) {
		printf("{\"name\": \"%s%s/%ld\", \"iterations\": %ld, \"parts\": 1, \"idle_ticks\": %ld, \"tsc\": [",
		       shared->stages[i].name, suffix ? suffix : "", size, shared->stages[i].operations,
		       shared->stages[i].idle);
		for (int j = first; j < repetitions; j++) {
			uint64_t taken = shared->stages[i].taken[j];

			printf("%s%lu", j > first ? ", " : "", (unsigned long)taken);
			if (taken / shared->stages[i].operations > longest)
				longest = taken / shared->stages[i].operations;
		}
		printf("]}\n");
	}
	fflush(stdout);
	return longest;
}

/* The time of the longest operation of a row. */
static uint64_t measure(const struct row *row, long size)
{
	uint64_t longest = 0;
	int done = 0;

	memset(shared, 0, sizeof(*shared));
	do {
		uint64_t start = stamp(), taken;

		shared->repetition = done++;
		row->run(row, size);
		taken = stamp() - start;
		longest = taken > longest ? taken : longest;
	} while (done <= REPEATS && longest <= BRIEF);
	return print_stages(row->suffix, size, done > 1, done);
}

static const struct row *find(const char *name, size_t length)
{
	for (size_t kind = 0; kind < COUNT(all_rows); kind++)
		for (unsigned int i = 0; i < all_rows[kind]->count; i++) {
			const struct row *row = &all_rows[kind]->rows[i];

			if (strlen(row->name) == length && !strncmp(row->name, name, length))
				return row;
		}
	return NULL;
}

static void list(void)
{
	for (size_t kind = 0; kind < COUNT(all_rows); kind++)
		for (unsigned int i = 0; i < all_rows[kind]->count; i++)
			puts(all_rows[kind]->rows[i].name);
}

int main(int argc, char **argv)
{
	const struct rlimit files = { OPEN_FILES, OPEN_FILES };
	const struct row *skipped = NULL;

	if (argc == 3 && !strcmp(argv[1], STAMP)) {
		shared_fd = atoi(argv[2]);
		map_shared();
		stage_ends(1);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "list")) {
		list();
		return 0;
	}
	shared_fd = memfd_create("growth", 0);
	if (shared_fd < 0 || ftruncate(shared_fd, sizeof(*shared)) || setrlimit(RLIMIT_NOFILE, &files))
		fail("growth");
	map_shared();
	for (int i = 1; i < argc; i++) {
		const char *slash = strchr(argv[i], '/');
		const struct row *row = slash ? find(argv[i], slash - argv[i]) : NULL;
		long size = slash ? atol(slash + 1) : 0;

		if (!row || size < 1) {
			fprintf(stderr, "growth: there is no %s\n", argv[i]);
			return 2;
		}
		if (row == skipped) {
			fprintf(stderr, "growth: %s is left out, a smaller one took too long\n", argv[i]);
			continue;
		}
		if (measure(row, size) > TOO_LONG)
			skipped = row;
	}
	return 0;
}
