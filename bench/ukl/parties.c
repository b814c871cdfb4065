// SPDX-License-Identifier: GPL-2.0-only
/*
 * Three parties group the rows of a table by a key and count them. No party sees a key or a count:
 * each value is the sum of three shares, and a party has two of them. A product takes a round: each
 * party sends eight bytes to the previous party and waits for eight from the next, over TCP. Rows
 * are processed one after the other.
 *
 * Prints a line for each size of the table: its name and, for each repetition, the time per row of
 * the table, by the time-stamp counter. With one processor this is the time of all three parties;
 * with more, each party has its own, and it is the elapsed time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ukl.h"
#include "clock.h"

#define PARTIES 3
#define REPETITIONS 2
/* A Fermat prime: any number except 0 becomes 1 after this many squarings. */
#define PRIME 65537
#define SQUARINGS 16
#define MOST_ROWS 1000
#define GROUP 7
#define KEY_STEP 11

/* The shares of one value that this party has. */
struct shared {
	uint64_t mine, next;
};

static int party, before, behind, polling;
static uint64_t seed_mine, seed_next;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t sent_and_received(uint64_t value)
{
	uint64_t received;
	size_t so_far = 0;

	if (ukl_socket_write(before, &value, sizeof(value)) != sizeof(value))
		fail("write");
	while (so_far < sizeof(received)) {
		ssize_t more = ukl_socket_read(behind, (char *)&received + so_far, sizeof(received) - so_far);

		if (more > 0)
			so_far += more;
		else if (more == 0 || errno != EAGAIN || !polling)
			fail("read");
	}
	return received;
}

/* Random numbers that add up to 0 over the three parties: each pair shares a sequence. */
static uint64_t zero(void)
{
	seed_mine = seed_mine * 6364136223846793005 + 1442695040888963407;
	seed_next = seed_next * 6364136223846793005 + 1442695040888963407;
	return (seed_mine >> 32) % PRIME + PRIME - (seed_next >> 32) % PRIME;
}

static struct shared product(struct shared a, struct shared b)
{
	uint64_t share = (a.mine * b.mine + a.mine * b.next + a.next * b.mine + zero()) % PRIME;

	return (struct shared){ share, sent_and_received(share) };
}

/* Of a + sign * b. */
static struct shared sum(struct shared a, struct shared b, int sign)
{
	uint64_t factor = sign < 0 ? PRIME - 1 : 1;

	return (struct shared){ (a.mine + factor * b.mine) % PRIME, (a.next + factor * b.next) % PRIME };
}

/* A public value is the first party's share. */
static struct shared known(uint64_t value)
{
	return (struct shared){ party == 0 ? value : 0, party == PARTIES - 1 ? value : 0 };
}

static uint64_t opened(struct shared a)
{
	return (a.mine + a.next + sent_and_received(a.next)) % PRIME;
}

/* The last row of each group gets the group's count, the others 0. */
static void group(const struct shared *keys, struct shared *counts, int rows)
{
	struct shared count = known(1);

	for (int row = 1; row < rows; row++) {
		struct shared other = sum(keys[row], keys[row - 1], -1);

		for (int i = 0; i < SQUARINGS; i++)
			other = product(other, other);
		counts[row - 1] = product(other, count);
		count = sum(known(1), sum(count, counts[row - 1], -1), 1);
	}
	counts[rows - 1] = count;
}

static void check(const struct shared *counts, int rows)
{
	for (int row = 0; row < rows; row++) {
		uint64_t expected = row == rows - 1 ? row % GROUP + 1 : row % GROUP == GROUP - 1 ? GROUP : 0;

		if (opened(counts[row]) != expected) {
			fprintf(stderr, "row %d is wrong\n", row);
			exit(1);
		}
	}
}

static void measure(int rows)
{
	static struct shared keys[MOST_ROWS], counts[MOST_ROWS];

	for (int row = 0; row < rows; row++)
		keys[row] = known(row / GROUP * KEY_STEP);
	if (party == 0)
		printf("group-by-%d", rows);
	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		uint64_t start;

		opened(known(0));
		start = party == 0 ? begun() : 0;
		group(keys, counts, rows);
		if (party == 0)
			printf(" %.1f", (double)(ended() - start) / rows);
		check(counts, rows);
	}
	if (party == 0)
		printf("\n");
}

/*
 * The ring: party i receives from the next party by `lines[i]`, whose other end is `lines[i +
 * PARTIES]`.
 */
static void connect_all(int *lines)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(server, (struct sockaddr *)&address, length) < 0 || listen(server, 1) < 0 ||
	    getsockname(server, (struct sockaddr *)&address, &length) < 0)
		fail("listen");
	for (int i = 0; i < PARTIES; i++) {
		lines[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(lines[i], (struct sockaddr *)&address, length) < 0)
			fail("connect");
		lines[i + PARTIES] = accept(server, NULL, NULL);
		setsockopt(lines[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		setsockopt(lines[i + PARTIES], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
}

static int asked_for(int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], word) == 0)
			return 1;
	}
	return 0;
}

/* Gives each party its processor and, if asked for, a process there that never waits. */
static void place(int company)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	pid_t parent = getpid();
	cpu_set_t mine;

	CPU_ZERO(&mine);
	CPU_SET(party % processors, &mine);
	if (sched_setaffinity(0, sizeof(mine), &mine) < 0)
		fail("sched_setaffinity");
	if (company && fork() == 0) {
		while (getppid() == parent)
			;
		_exit(0);
	}
}

/*
 * `parties bypass`: with the bypass and the shortcuts; `polling`: parties poll instead of waiting;
 * `alone`: they run to completion; `company`: other processes run on the processors.
 */
int main(int argc, char **argv)
{
	int lines[2 * PARTIES];

	setvbuf(stdout, NULL, _IOLBF, 0);
	connect_all(lines);
	while (party < PARTIES - 1 && fork() == 0)
		party++;
	seed_mine = party + 1;
	seed_next = (party + 1) % PARTIES + 1;
	behind = lines[party];
	/* The previous party receives from us at its own line. */
	before = lines[(party + PARTIES - 1) % PARTIES + PARTIES];
	place(asked_for(argc, argv, "company"));
	polling = asked_for(argc, argv, "polling");
	if (polling)
		fcntl(behind, F_SETFL, O_NONBLOCK);
	if (asked_for(argc, argv, "alone") && ukl_run_to_completion(1) < 0)
		fail("alone");
	if (asked_for(argc, argv, "bypass") && ukl_bypass(UKL_BYPASS_MOST) < 0)
		fail("bypass");
	measure(100);
	measure(MOST_ROWS);
	if (party < PARTIES - 1)
		wait(NULL);
	return 0;
}
