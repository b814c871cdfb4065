/* SPDX-License-Identifier: GPL-2.0-only */
/* What the clients of local servers share: requests with their answers, and connections. */
#ifndef SERVERS_H
#define SERVERS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REDIS "redis"
#define MEMCACHED "memcached"
#define REDIS_PORT 6379
#define MEMCACHED_PORT 11211
#define TRY_AGAIN_NS 10000000
#define VALUE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct request {
	const char *text;
	const char *answer;
};

static const struct request redis_set = {
	"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$64\r\n" VALUE "\r\n", "+OK\r\n"
};
static const struct request redis_get = {
	"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "$64\r\n" VALUE "\r\n"
};
static const struct request memcached_set = { "set key 0 0 64\r\n" VALUE "\r\n", "STORED\r\n" };
static const struct request memcached_get = {
	"get key\r\n", "VALUE key 0 64\r\n" VALUE "\r\nEND\r\n"
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Connects to a server that has just been started, and retries until it listens. */
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

#endif
