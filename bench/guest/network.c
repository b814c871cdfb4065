// SPDX-License-Identifier: GPL-2.0-only
/* Sockets over loopback: round trips, connections and bandwidth. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define CHUNK (64 << 10)
/*
 * The size of a remote procedure call: XID, kind, versions, credentials (RFC 5531), as in lmbench's
 * empty call.
 */
#define CALL_BYTES 40
#define REPLY_BYTES 24
/* The key-value server: its clients, and its work for each request. */
#define CONNECTIONS 50
#define WORK 600

static int server, client;
static struct sockaddr_in address;
static char chunk[CHUNK];
static int clients[CONNECTIONS];

static void listen_on(int type)
{
	socklen_t size = sizeof(address);

	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	server = socket(AF_INET, type, 0);
	if (server < 0 || bind(server, (struct sockaddr *)&address, size) ||
	    getsockname(server, (struct sockaddr *)&address, &size))
		fail("socket");
	if (type == SOCK_STREAM && listen(server, 8))
		fail("listen");
}

static void connect_to(int type)
{
	int on = 1;

	client = socket(AF_INET, type, 0);
	if (client < 0 || connect(client, (struct sockaddr *)&address, sizeof(address)))
		fail("connect");
	if (type == SOCK_STREAM)
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int accepted(void)
{
	int on = 1, peer = accept(server, NULL, NULL);

	if (peer < 0)
		_exit(1);
	setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return peer;
}

/* Reads `count` bytes; false at the end. */
static int take(int fd, long count)
{
	for (long got; count > 0; count -= got) {
		got = read(fd, chunk, count);
		if (got <= 0)
			return 0;
	}
	return 1;
}

static void answer_datagrams(void)
{
	struct sockaddr_in from;

	for (;;) {
		socklen_t size = sizeof(from);
		long got = recvfrom(server, chunk, CHUNK, 0, (struct sockaddr *)&from, &size);

		if (got < 0 || sendto(server, chunk, got == CALL_BYTES ? REPLY_BYTES : got, 0,
				      (struct sockaddr *)&from, size) < 0)
			_exit(1);
	}
}

static void prepare_udp(void)
{
	listen_on(SOCK_DGRAM);
	start_child(answer_datagrams);
	close(server);
	connect_to(SOCK_DGRAM);
}

static void exchange(long count, long there, long back)
{
	while (count--)
		if (write(client, chunk, there) != there || !take(client, back))
			fail("exchange");
}

static void run_byte(long count)
{
	exchange(count, 1, 1);
}

static void run_call(long count)
{
	exchange(count, CALL_BYTES, REPLY_BYTES);
}

static void answer_bytes(void)
{
	int peer = accepted();

	while (take(peer, 1))
		write(peer, chunk, 1);
	_exit(0);
}

static void answer_calls(void)
{
	int peer = accepted();

	while (take(peer, CALL_BYTES))
		write(peer, chunk, REPLY_BYTES);
	_exit(0);
}

static void answer_chunks(void)
{
	int peer = accepted();

	while (take(peer, CHUNK))
		write(peer, chunk, 1);
	_exit(0);
}

static void answer_connections(void)
{
	for (;;) {
		int peer = accepted();

		take(peer, 1);
		close(peer);
	}
}

static void prepare_tcp(void (*work)(void))
{
	listen_on(SOCK_STREAM);
	start_child(work);
	close(server);
	connect_to(SOCK_STREAM);
}

static void prepare_tcp_bytes(void)
{
	prepare_tcp(answer_bytes);
}

static void prepare_tcp_calls(void)
{
	prepare_tcp(answer_calls);
}

static void prepare_tcp_chunks(void)
{
	prepare_tcp(answer_chunks);
}

static void run_chunks(long count)
{
	exchange(count, CHUNK, 1);
}

static void prepare_connections(void)
{
	listen_on(SOCK_STREAM);
	start_child(answer_connections);
	close(server);
	client = -1;
}

/* The server closes first, so that no client port stays in TIME_WAIT. */
static void run_connections(long count)
{
	while (count--) {
		connect_to(SOCK_STREAM);
		if (write(client, chunk, 1) != 1 || read(client, chunk, 1) != 0)
			fail("connection");
		close(client);
	}
	client = -1;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		_exit(1);
}

static void answer_request(int peer)
{
	if (read(peer, chunk, CALL_BYTES) != CALL_BYTES)
		_exit(1);
	for (int i = 0; i < WORK; i++)
		__asm__ volatile("");
	if (write(peer, chunk, REPLY_BYTES) != REPLY_BYTES)
		_exit(1);
}

static void answer_requests(void)
{
	struct epoll_event events[CONNECTIONS + 1];
	int epoll = epoll_create1(0);

	watch(epoll, server);
	for (;;) {
		int count = epoll_wait(epoll, events, COUNT(events), -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.fd == server)
				watch(epoll, accepted());
			else
				answer_request(events[i].data.fd);
		}
	}
}

/* Each connection sends a request, so that the server accepts it before the next one is opened. */
static void prepare_requests(void)
{
	listen_on(SOCK_STREAM);
	start_child(answer_requests);
	close(server);
	for (int i = 0; i < CONNECTIONS; i++) {
		connect_to(SOCK_STREAM);
		exchange(1, CALL_BYTES, REPLY_BYTES);
		clients[i] = client;
	}
}

static void run_requests(long count)
{
	while (count--) {
		client = clients[count % CONNECTIONS];
		exchange(1, CALL_BYTES, REPLY_BYTES);
	}
}

static void finish_requests(void)
{
	end_children();
	for (int i = 0; i < CONNECTIONS; i++)
		close(clients[i]);
}

static void finish(void)
{
	if (client >= 0)
		close(client);
	end_children();
}

static const struct row rows[] = {
	{ "udp-round-trip", 200, prepare_udp, NULL, run_byte, finish, .settles = 1 },
	{ "rpc-udp", 200, prepare_udp, NULL, run_call, finish, .settles = 1 },
	{ "tcp-round-trip", 200, prepare_tcp_bytes, NULL, run_byte, finish, .settles = 1 },
	{ "rpc-tcp", 200, prepare_tcp_calls, NULL, run_call, finish, .settles = 1 },
	{ "tcp-connection", 100, prepare_connections, NULL, run_connections, finish },
	{ "tcp-64k", 20, prepare_tcp_chunks, NULL, run_chunks, finish, .settles = 1 },
	{ "kv-request", 200, prepare_requests, NULL, run_requests, finish_requests, .settles = 1 },
};
const struct rows network_rows = { rows, COUNT(rows) };
