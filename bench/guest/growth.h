/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the program `growth` share: rows of one or more stages, each at a size. */
#ifndef GROWTH_H
#define GROWTH_H

#include "measure.h"

#define PAGE 4096UL
#define MB (1UL << 20)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Runs once at a size, and marks the stages that are timed. */
struct row {
	const char *name;
	void (*run)(const struct row *row, long size);
	/* Of a row about memory: in huge pages. */
	int huge;
	/* Ends the name of each stage. */
	const char *suffix;
};

struct rows {
	const struct row *rows;
	unsigned int count;
};

extern const struct rows memory_rows, crowd_rows, object_rows;

/*
 * A stage begins in this process. It ends in this process, in one that it forked, or in the program
 * that it executed, after `operations` of the operation that names it. Stages do not overlap.
 */
void stage_begins(const char *name);
void stage_ends(long operations);

/* Executes this program again, which ends the stage and exits. */
void exec_to_end_stage(void) __attribute__((noreturn));

/* waitpid() that fails where the child has not ended with status 0. */
void reap(int pid);

#endif
