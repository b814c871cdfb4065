// SPDX-License-Identifier: GPL-2.0-only
/* Pipes: round trips of a byte, and bandwidth. */
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

/* Bytes per write, as in lmbench. */
#define CHUNK (64 << 10)

static int there[2], back[2];
static char chunk[CHUNK];

static void open_pipes(void)
{
	if (pipe(there) || pipe(back))
		fail("pipe");
}

static void close_child_ends(void)
{
	close(there[0]);
	close(back[1]);
}

/* Sends back each byte until the pipe is closed. */
static void echo(void)
{
	char byte;

	close(there[1]);
	close(back[0]);
	while (read(there[0], &byte, 1) == 1)
		write(back[1], &byte, 1);
	_exit(0);
}

void start_echo(void)
{
	open_pipes();
	start_child(echo);
	close_child_ends();
}

void make_round_trips(long count)
{
	char byte = 'x';

	while (count--)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			fail("pipe");
}

/* Reads everything, and sends a byte back for each chunk. */
static void drain(void)
{
	long got, left = CHUNK;

	close(there[1]);
	close(back[0]);
	while ((got = read(there[0], chunk, left)) > 0) {
		left -= got;
		if (left == 0) {
			write(back[1], chunk, 1);
			left = CHUNK;
		}
	}
	_exit(0);
}

static void prepare_drain(void)
{
	open_pipes();
	start_child(drain);
	close_child_ends();
}

static void run_drain(long count)
{
	while (count--)
		if (write(there[1], chunk, CHUNK) != CHUNK || read(back[0], chunk, 1) != 1)
			fail("pipe");
}

void end_echo(void)
{
	close(there[1]);
	close(back[0]);
	end_children();
}

static const struct row rows[] = {
	{ "pipe-round-trip", 500, start_echo, NULL, make_round_trips, end_echo, .settles = 1 },
	{ "pipe-64k", 20, prepare_drain, NULL, run_drain, end_echo, .settles = 1 },
};
const struct rows pipe_rows = { rows, COUNT(rows) };
