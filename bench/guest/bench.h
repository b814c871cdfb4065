/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the programs `bench`, `small` and `servers` share: the rows of each. */
#ifndef BENCH_H
#define BENCH_H

#include "measure.h"

#define PAGE 4096
/* Pages of a row about faults. */
#define PAGES 256
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * An operation that is measured: `iterations` of it in one call of `run`, which is repeated.
 * `prepare` and `finish` run once around all repetitions, `before` ahead of each. None of them is
 * timed, and each may be NULL. If `marks_itself` is set, `run` marks the parts that are timed. If
 * `outside` is set, the work is done outside Linux, which waits: its idle time says nothing about
 * the processor. If `settles` is set, the first figures differ from the later ones: the row runs
 * untimed until two runs agree.
 */
struct row {
	const char *name;
	long iterations;
	void (*prepare)(void);
	void (*before)(void);
	void (*run)(long count);
	void (*finish)(void);
	int marks_itself;
	int outside;
	int settles;
};

struct rows {
	const struct row *rows;
	unsigned int count;
};

/* Those of a program, NULL after the last. */
extern const struct rows *const all_rows[];

extern const struct rows call_rows, switch_rows, fault_rows, signal_rows, process_rows, pipe_rows, network_rows, file_rows,
	mix_rows, appel_rows, hybrid_rows, web_rows, database_rows;

/* A timed part of a row that marks its parts itself. */
void part_begins(void);
void part_ends(void);

/* Starts a child that does `work` until it ends or end_children() kills it. */
void start_child(void (*work)(void));
void end_children(void);

/* A child that sends back each byte of a pipe, and round trips to it. */
void start_echo(void);
void make_round_trips(long count);
void end_echo(void);

#endif
