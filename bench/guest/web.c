// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rows for figure 7 of "Performance of address-space multiplexing on the Pentium": requests to
 * lighttpd, which asks a FastCGI server (fastcgi.c) with the working set that a row says, and to a
 * server that sends such a reply at once, which is what the client and TCP take of the others.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "bench.h"
#include "fastcgi.h"

#define REQUESTS 100
/* Where lighttpd.conf has it. */
#define PORT 8080
/* How often it is looked for, and how long it may take to start in all. */
#define LOOK_US 10000
#define LOOKS 1000
#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define SUCCESS "HTTP/1.1 200 OK\r\n"
/* As lighttpd's, of which only the date differs. */
#define REPLY SUCCESS "Content-Type: text/plain\r\nContent-Length: 12\r\n" \
	"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: lighttpd/1.4.69\r\n\r\n" HELLO

static struct sockaddr_in address;
static int client;
static char text[PAGE];

static void __attribute__((noreturn)) serve_by_lighttpd(void)
{
	execl("/usr/sbin/lighttpd", "lighttpd", "-D", "-f", "/tmp/lighttpd.conf", NULL);
	fail("lighttpd");
}

/* Sends the reply to each request of one client. */
static void reply_at_once(void)
{
	int server = socket(AF_INET, SOCK_STREAM, 0), on = 1, peer;

	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (server < 0 || bind(server, (struct sockaddr *)&address, sizeof(address)) || listen(server, 1))
		fail("socket");
	peer = accept(server, NULL, NULL);
	while (read(peer, text, sizeof(text)) > 0)
		write(peer, REPLY, sizeof(REPLY) - 1);
}

static void connect_to(void (*serve)(void))
{
	address = (struct sockaddr_in){ .sin_family = AF_INET,
					.sin_port = htons(PORT),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	start_child(serve);
	for (int look = 0; look < LOOKS; look++) {
		client = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(client, (struct sockaddr *)&address, sizeof(address)))
			return;
		close(client);
		usleep(LOOK_US);
	}
	fail("the web server");
}

static void prepare_reply(void)
{
	connect_to(reply_at_once);
}

static void prepare_fastcgi(long pages)
{
	start_fastcgi(pages);
	connect_to(serve_by_lighttpd);
}

/* Reads a reply to the end of its text, with which all end. */
static void take_reply(void)
{
	const size_t end = sizeof(HELLO) - 1;
	size_t held = 0;

	do {
		ssize_t got = read(client, text + held, sizeof(text) - held);

		if (got <= 0)
			fail("no reply");
		held += got;
	} while (held < end || memcmp(text + held - end, HELLO, end));
	if (memcmp(text, SUCCESS, sizeof(SUCCESS) - 1))
		fail(text);
}

static void run_requests(long count)
{
	while (count--) {
		if (write(client, REQUEST, sizeof(REQUEST) - 1) != sizeof(REQUEST) - 1)
			fail("request");
		take_reply();
	}
}

static void finish(void)
{
	close(client);
	end_children();
}

/* Pages of the FastCGI server's working set. */
#define SIZES(KIND) KIND(0) KIND(16) KIND(32) KIND(64) KIND(96) KIND(128)

#define PREPARATION(size)                            \
	static void prepare_fastcgi_##size(void)     \
	{                                            \
		prepare_fastcgi(size);               \
	}
#define ROW(size) { "fastcgi-" #size, REQUESTS, prepare_fastcgi_##size, NULL, run_requests, finish, .settles = 1 },

SIZES(PREPARATION)

static const struct row rows[] = {
	{ "reply", REQUESTS, prepare_reply, NULL, run_requests, finish, .settles = 1 },
	SIZES(ROW)
};
const struct rows web_rows = { rows, COUNT(rows) };
