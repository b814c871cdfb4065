// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary program that asks a server on this machine over many connections:
 * `client redis` or `client memcached` prints a line for each row, its name and,
 * for each repetition, what a request takes client and server together, by the
 * time-stamp counter. In each round every connection sends a request before the
 * first answer is read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

#define REPETITIONS 3
#define CONNECTIONS 50
#define ROUNDS 40
#define LARGEST 128
#define TRY_AGAIN_NS 10000000
#define VALUE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *server;
	const char *row;
	uint16_t port;
	const char *request;
	const char *answer;
} rows[] = {
	{ "redis", "redis-set", 6379, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$64\r\n" VALUE "\r\n", "+OK\r\n" },
	{ "redis", "redis-get", 6379, "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "$64\r\n" VALUE "\r\n" },
	{ "memcached", "memcached-set", 11211, "set key 0 0 64\r\n" VALUE "\r\n", "STORED\r\n" },
	{ "memcached", "memcached-get", 11211, "get key\r\n", "VALUE key 0 64\r\n" VALUE "\r\nEND\r\n" },
};

static int connections[CONNECTIONS];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Waits for a server that has just been started. */
static int connected(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct timespec pause = { .tv_nsec = TRY_AGAIN_NS };
	int on = 1, line;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (;;) {
		line = socket(AF_INET, SOCK_STREAM, 0);
		if (line < 0)
			fail("socket");
		if (connect(line, (struct sockaddr *)&address, sizeof(address)) == 0)
			break;
		if (errno != ECONNREFUSED)
			fail("connect");
		close(line);
		nanosleep(&pause, NULL);
	}
	setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return line;
}

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
			fprintf(stderr, "another answer than expected: %.*s\n", (int)length, heard);
			exit(1);
		}
	}
}

static void measure(const char *row, const char *request, const char *answer)
{
	size_t request_length = strlen(request), answer_length = strlen(answer);

	printf("%s", row);
	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		uint64_t start = begun();

		for (int round = 0; round < ROUNDS; round++) {
			ask(request, request_length);
			hear(answer, answer_length);
		}
		printf(" %.1f", (double)(ended() - start) / (ROUNDS * CONNECTIONS));
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (argc != 2 || strcmp(argv[1], rows[i].server) != 0)
			continue;
		for (int j = 0; j < CONNECTIONS; j++)
			connections[j] = connected(rows[i].port);
		measure(rows[i].row, rows[i].request, rows[i].answer);
		for (int j = 0; j < CONNECTIONS; j++)
			close(connections[j]);
	}
	return 0;
}
