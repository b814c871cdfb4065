// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary program that measures how long a local server takes to answer each request, by the
 * time-stamp counter. Each row is a line: its name, and the figure of each repetition.
 *
 * `latency memcached RATE...`: requests at times that do not depend on answers, so many a second of
 * that counter. A latency begins at that time, even if the request could only be sent later. The
 * rate at which too many requests wait has no rows, and is the last.
 *
 * `latency redis RATE...`: before that, connections that send a request when they have the answer
 * to the one before. A latency begins when the request is sent.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include "clock.h"
#include "servers.h"

#define REPETITIONS 3
/* The emulator's clock. */
#define TICKS_A_SECOND 1e9
#define MOST_CONNECTIONS 300
#define MOST_REQUESTS 20000
/* The open load is sent by these connections in turn. */
#define OPEN_CONNECTIONS 50
#define OPEN_REQUESTS 20000
#define WARM_UP_REQUESTS 2000
/* No more than these wait at a rate that the server can serve. */
#define MOST_WAITING 2000
/* One request in this many stores. */
#define REQUESTS_A_SET 31
#define EVENTS 64
#define BUFFER 4096
#define SEED 20230508
#define NAME 64

/* Connection i sends the requests i, i + count, i + 2 * count, and is answered in that order. */
static struct connection {
	int line;
	/* The numbers of the next request to send and of the next answer. */
	int to_send, to_hear;
	size_t held;
	char buffer[BUFFER];
} connections[MOST_CONNECTIONS];

static int waiter, count, requests, sent, heard;
/* By the number of the request: when its latency begins, then how long it is. */
static uint64_t times[MOST_REQUESTS];
/* Whether an answer makes a connection send its next request. */
static int closed;
/* What all requests are; NULL: sets and gets of memcached's. */
static const struct request *kind;

static const struct request *request_of(int number)
{
	if (kind)
		return kind;
	return number % REQUESTS_A_SET == 0 ? &memcached_set : &memcached_get;
}

static void ask(struct connection *from, uint64_t begins)
{
	const char *text = request_of(from->to_send)->text;
	size_t length = strlen(text);

	times[from->to_send] = begins;
	if (write(from->line, text, length) != (ssize_t)length)
		fail("write");
	from->to_send += count;
	sent++;
}

/* Reads what has come on a connection. */
static void hear(struct connection *from)
{
	ssize_t more = read(from->line, from->buffer + from->held, sizeof(from->buffer) - from->held);

	if (more <= 0)
		fail("read");
	from->held += more;
	while (from->to_hear < from->to_send) {
		const char *answer = request_of(from->to_hear)->answer;
		size_t length = strlen(answer);

		if (from->held < length)
			break;
		if (memcmp(from->buffer, answer, length) != 0) {
			fprintf(stderr, "unexpected answer: %.*s\n", (int)length, from->buffer);
			exit(1);
		}
		times[from->to_hear] = now() - times[from->to_hear];
		from->to_hear += count;
		heard++;
		from->held -= length;
		memmove(from->buffer, from->buffer + length, from->held);
		if (closed && from->to_send < requests)
			ask(from, now());
	}
}

/* Waits for answers, at most so long. */
static void hear_all(const struct timespec *limit)
{
	struct epoll_event found[EVENTS];
	int ready = syscall(SYS_epoll_pwait2, waiter, found, EVENTS, limit, NULL, 0);

	if (ready < 0)
		fail("epoll_pwait2");
	for (int i = 0; i < ready; i++)
		hear(found[i].data.ptr);
}

static void connect_all(uint16_t port, int number)
{
	waiter = epoll_create1(0);
	for (count = 0; count < number; count++) {
		struct connection *one = &connections[count];
		struct epoll_event readable = { .events = EPOLLIN, .data.ptr = one };

		one->line = connected(port);
		one->held = 0;
		if (epoll_ctl(waiter, EPOLL_CTL_ADD, one->line, &readable) < 0)
			fail("epoll_ctl");
	}
}

static void disconnect_all(void)
{
	for (int i = 0; i < count; i++)
		close(connections[i].line);
	close(waiter);
}

static void begin(int number)
{
	requests = number;
	sent = heard = 0;
	for (int i = 0; i < count; i++)
		connections[i].to_send = connections[i].to_hear = i;
}

static void closed_load(int number)
{
	begin(number);
	closed = 1;
	for (int i = 0; i < count; i++)
		ask(&connections[i], now());
	while (heard < requests)
		hear_all(NULL);
	closed = 0;
}

/* The time until the next arrival at a rate. Each rate and place has the same sequence. */
static uint64_t gap(uint64_t *state, double rate)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return -log(((*state >> 33) + 1) / 2147483649.0) * TICKS_A_SECOND / rate;
}

/* Returns 0 if too many requests wait. */
static int open_load(double rate)
{
	uint64_t state = SEED, next = now() + gap(&state, rate);

	begin(OPEN_REQUESTS);
	while (heard < requests) {
		uint64_t time = now();

		if (sent < requests && next <= time) {
			if (sent - heard >= MOST_WAITING)
				return 0;
			ask(&connections[sent % count], next);
			next += gap(&state, rate);
		} else {
			struct timespec limit = { .tv_nsec = next - time };

			hear_all(sent < requests ? &limit : NULL);
		}
	}
	return 1;
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

/* Of the last load. */
static double mean(void)
{
	double sum = 0;

	for (int i = 0; i < requests; i++)
		sum += times[i];
	return sum / requests;
}

/* No more than one request in a hundred has a larger one. */
static double percentile_99(void)
{
	qsort(times, requests, sizeof(times[0]), compare);
	return times[requests - requests / 100 - 1];
}

static void print(const char *row, const char *what, const double *figures, int repetitions)
{
	printf("%s-%s", row, what);
	for (int i = 0; i < repetitions; i++)
		printf(" %.0f", figures[i]);
	printf("\n");
	fflush(stdout);
}

static void measure_closed(const char *row, int number)
{
	double means[REPETITIONS], tails[REPETITIONS];
	char name[NAME];

	closed_load(WARM_UP_REQUESTS / count * count);
	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		closed_load(number);
		means[repetition] = mean();
		tails[repetition] = percentile_99();
	}
	snprintf(name, sizeof(name), "%s-%d", row, count);
	print(name, "mean", means, REPETITIONS);
	print(name, "99th", tails, REPETITIONS);
}

/* Requests are sent when it is their time, not when the server's turn is over. */
static void come_first(void)
{
	struct sched_param priority = { .sched_priority = 1 };

	/* musl has no sched_setscheduler. */
	if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &priority) < 0)
		fail("sched_setscheduler");
}

/* Before it a closed load stores, while the server ends the connections of the load before. */
static void measure_open(const char *row, uint16_t port, const struct request *what, char **rates)
{
	connect_all(port, OPEN_CONNECTIONS);
	kind = port == REDIS_PORT ? &redis_set : &memcached_set;
	closed_load(WARM_UP_REQUESTS);
	come_first();
	kind = what;
	for (; *rates && open_load(atof(*rates)); rates++) {
		double average = mean(), tail = percentile_99();
		char name[NAME];

		snprintf(name, sizeof(name), "%s-%s", row, *rates);
		print(name, "mean", &average, 1);
		print(name, "99th", &tail, 1);
	}
	disconnect_all();
}

static void measure_redis(char **rates)
{
	static const struct {
		int connections, requests;
	} loads[] = { { 1, 6000 }, { MOST_CONNECTIONS, 15000 } };

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		connect_all(REDIS_PORT, loads[i].connections);
		kind = &redis_set;
		measure_closed("redis-set", loads[i].requests);
		kind = &redis_get;
		measure_closed("redis-get", loads[i].requests);
		disconnect_all();
	}
	measure_open("redis-set-at", REDIS_PORT, &redis_set, rates);
	measure_open("redis-get-at", REDIS_PORT, &redis_get, rates);
}

static void measure_memcached(char **rates)
{
	measure_open(MEMCACHED, MEMCACHED_PORT, NULL, rates);
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], REDIS) == 0) {
		measure_redis(argv + 2);
	} else if (argc > 2 && strcmp(argv[1], MEMCACHED) == 0) {
		measure_memcached(argv + 2);
	} else {
		fputs("usage: latency redis|memcached RATE...\n", stderr);
		return 2;
	}
	return 0;
}
