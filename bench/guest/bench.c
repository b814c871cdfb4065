// SPDX-License-Identifier: GPL-2.0-only
/*
 * The programs `bench` (rows.c), `small` (small.c) and `servers` (servers.c): fixed numbers of
 * iterations of one operation each, timed with the processor's time stamp counter, which counts
 * instructions under the emulator's instruction clock. They judge nothing: ../run.py,
 * ../small_programs.py and ../small_servers.py do.
 *
 *   bench ROW...                   the named rows; all without a name
 *   bench list                     the names of all rows
 *   bench command NAME REPEATS CMD [ARGUMENT...]   how long a whole program takes
 *
 * Each row prints {"name", "iterations", "warm_ups", "parts", "idle_ticks", "span", "tsc": [one
 * number for each repetition]}. Warm-ups are the repetitions ahead of these; a whole program has
 * none. Parts are the pieces that a repetition marks for the emulator's profiler. Idle ticks are
 * Linux's clock ticks without work between the first and the last repetition; a row that idled is
 * not a measure. The span has the time stamps ahead of the first repetition and after the last.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../guest/mark.h"
#include "bench.h"

#define REPEATS 5
#define CHILDREN 8
/*
 * The least and the most runs of a row until it has settled: until two runs differ by at most
 * 1/SETTLED.
 */
#define SETTLING_LEAST 6
#define SETTLING_MOST 40
#define SETTLED 200

static pid_t children[CHILDREN];
static unsigned int child_count;
/*
 * The parts that the current repetition has marked: their number, the start of the last, the time
 * of all. A child may end one.
 */
static struct {
	long count;
	uint64_t start, time;
} *parts;

/* Time stamps ahead of the first repetition and after the last. */
struct span {
	uint64_t begin, end;
};

void part_begins(void)
{
	MARK(MARK_PART_BEGINS);
	parts->start = stamp();
}

void part_ends(void)
{
	parts->time += stamp() - parts->start;
	parts->count++;
	MARK(MARK_PART_ENDS);
}

void start_child(void (*work)(void))
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		work();
		_exit(0);
	}
	if (child_count == COUNT(children))
		fail("start_child");
	children[child_count++] = pid;
}

void end_children(void)
{
	while (child_count > 0)
		kill(children[--child_count], SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

/* All repetitions have as many parts as the last. */
static void print_result(const char *name, long iterations, int warm_ups, long idle, const struct span *span,
			 const uint64_t *tsc, int repeats)
{
	printf("{\"name\": \"%s\", \"iterations\": %ld, \"warm_ups\": %d, \"parts\": %ld, \"idle_ticks\": %ld, ", name,
	       iterations, warm_ups, parts->count, idle);
	printf("\"span\": [%" PRIu64 ", %" PRIu64 "], \"tsc\": [", span->begin, span->end);
	for (int i = 0; i < repeats; i++)
		printf("%s%" PRIu64, i ? ", " : "", tsc[i]);
	printf("]}\n");
	fflush(stdout);
}

/* The first thousands of messages with a partner change the state of schedulers and queues. */
static void settle(const struct row *row)
{
	uint64_t last = 0, now, difference;

	for (int i = 0; i < SETTLING_MOST; i++) {
		now = stamp();
		row->run(row->iterations);
		now = stamp() - now;
		difference = now > last ? now - last : last - now;
		if (i >= SETTLING_LEAST && difference < now / SETTLED)
			return;
		last = now;
	}
}

static void measure(const struct row *row)
{
	struct span span = { 0 };
	uint64_t tsc[REPEATS];
	long idle = 0;

	if (row->prepare)
		row->prepare();
	if (row->settles)
		settle(row);
	/* The repetition numbered -1 warms up. */
	for (int i = -1; i < REPEATS; i++) {
		if (i == 0) {
			idle = idle_ticks();
			span.begin = stamp();
		}
		if (row->before)
			row->before();
		parts->count = parts->time = 0;
		if (!row->marks_itself)
			part_begins();
		row->run(row->iterations);
		if (!row->marks_itself)
			part_ends();
		if (i >= 0)
			tsc[i] = parts->time;
	}
	span.end = stamp();
	idle = idle_ticks() - idle;
	if (row->finish)
		row->finish();
	print_result(row->name, row->iterations, 1, row->outside ? 0 : idle, &span, tsc, REPEATS);
}

/*
 * Times a whole program from fork to exit. Its output goes to stderr. If it fails, the sample has
 * no iterations.
 */
static int measure_command(const char *name, int repeats, char **argv)
{
	uint64_t tsc[REPEATS];
	long idle = idle_ticks();
	struct span span = { .begin = stamp() };
	int status = 0, done;

	if (repeats < 1 || repeats > REPEATS)
		return 2;
	for (done = 0; done < repeats && !status; done++) {
		pid_t pid;

		parts->count = parts->time = 0;
		part_begins();
		pid = fork();
		if (pid == 0) {
			dup2(STDERR_FILENO, STDOUT_FILENO);
			execvp(argv[0], argv);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		part_ends();
		tsc[done] = parts->time;
	}
	span.end = stamp();
	print_result(name, !status, 0, idle_ticks() - idle, &span, tsc, done);
	return !!status;
}

static int is_asked_for(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc == 1;
}

static void list(void)
{
	for (size_t kind = 0; all_rows[kind]; kind++)
		for (unsigned int i = 0; i < all_rows[kind]->count; i++)
			puts(all_rows[kind]->rows[i].name);
}

int main(int argc, char **argv)
{
	int found = 0;

	parts = mmap(NULL, sizeof(*parts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (parts == MAP_FAILED)
		fail("mmap");
	if (argc == 2 && !strcmp(argv[1], "list")) {
		list();
		return 0;
	}
	if (argc > 4 && !strcmp(argv[1], "command"))
		return measure_command(argv[2], atoi(argv[3]), argv + 4);
	for (size_t kind = 0; all_rows[kind]; kind++)
		for (unsigned int i = 0; i < all_rows[kind]->count; i++)
			if (is_asked_for(all_rows[kind]->rows[i].name, argc, argv)) {
				measure(&all_rows[kind]->rows[i]);
				found++;
			}
	if (!found)
		fprintf(stderr, "bench: no row of this name\n");
	return !found;
}
