// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary program that sends requests to a local server over many connections. `client redis
 * PROCESS` and `client memcached PROCESS` print two lines for each row: its name and, for each
 * repetition, the time per request. The first line is the time of client and server together, by
 * the time-stamp counter; the second is the server's processor time in nanoseconds, as Linux
 * accounts for it. In each round every connection sends a request before the first answer is read.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"
#include "servers.h"

#define REPETITIONS 3
#define S_NS 1000000000ULL
#define CONNECTIONS 50
#define ROUNDS 40
#define LARGEST 128

static const struct {
	const char *server;
	const char *row;
	uint16_t port;
	const struct request *request;
} rows[] = {
	{ REDIS, "redis-set", REDIS_PORT, &redis_set },
	{ REDIS, "redis-get", REDIS_PORT, &redis_get },
	{ MEMCACHED, "memcached-set", MEMCACHED_PORT, &memcached_set },
	{ MEMCACHED, "memcached-get", MEMCACHED_PORT, &memcached_get },
};

static int connections[CONNECTIONS];

static void ask(const char *request, size_t length)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		if (write(connections[i], request, length) != (ssize_t)length)
			fail("write");
	}
}

static void hear(const char *answer, size_t length)
{
	char heard[LARGEST];

	for (int i = 0; i < CONNECTIONS; i++) {
		size_t so_far = 0;

		while (so_far < length) {
			ssize_t more = read(connections[i], heard + so_far, length - so_far);

			if (more <= 0)
				fail("read");
			so_far += more;
		}
		if (memcmp(heard, answer, length) != 0) {
			fprintf(stderr, "unexpected answer: %.*s\n", (int)length, heard);
			exit(1);
		}
	}
}

static uint64_t time_ns(clockid_t clock)
{
	struct timespec time;

	if (clock_gettime(clock, &time) < 0)
		fail("the server's clock");
	return time.tv_sec * S_NS + time.tv_nsec;
}

static void print(const char *row, const char *whose, const uint64_t *took)
{
	printf("%s%s", row, whose);
	for (int repetition = 0; repetition < REPETITIONS; repetition++)
		printf(" %.1f", (double)took[repetition] / (ROUNDS * CONNECTIONS));
	printf("\n");
}

static void measure(const char *row, const struct request *request, clockid_t server)
{
	size_t request_length = strlen(request->text), answer_length = strlen(request->answer);
	uint64_t both[REPETITIONS], alone[REPETITIONS];

	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		uint64_t before = time_ns(server), start = begun();

		for (int round = 0; round < ROUNDS; round++) {
			ask(request->text, request_length);
			hear(request->answer, answer_length);
		}
		both[repetition] = ended() - start;
		alone[repetition] = time_ns(server) - before;
	}
	print(row, "", both);
	print(row, "-server", alone);
}

int main(int argc, char **argv)
{
	clockid_t server;

	if (argc != 3 || clock_getcpuclockid(atoi(argv[2]), &server) != 0) {
		fputs("usage: client redis|memcached PROCESS\n", stderr);
		return 2;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(argv[1], rows[i].server) != 0)
			continue;
		for (int j = 0; j < CONNECTIONS; j++)
			connections[j] = connected(rows[i].port);
		measure(rows[i].row, rows[i].request, server);
		for (int j = 0; j < CONNECTIONS; j++)
			close(connections[j]);
	}
	return 0;
}
