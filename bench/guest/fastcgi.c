// SPDX-License-Identifier: GPL-2.0-only
/*
 * A FastCGI server of the role "responder" (FastCGI Specification 1.0), for web servers that open a
 * connection for each request. It answers all alike, whatever their parameters are.
 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "bench.h"
#include "fastcgi.h"
#include "working_set.h"

/* Where lighttpd.conf has it, in the working directory. */
#define SOCKET "fastcgi"
#define BACKLOG 8
#define REPLY_TEXT "Content-Type: text/plain\r\n\r\n" HELLO

/* Section 8 of the specification. */
enum { VERSION = 1, END_REQUEST = 3, STDIN = 5, STDOUT = 6 };

/* A record's beginning; its content and its padding come after it. */
struct header {
	uint8_t version, type, request[2], length[2], padding, reserved;
};

#define RECORD_MOST (sizeof(struct header) + UINT16_MAX + UINT8_MAX)

#define HEADER(of_type, bytes) { .version = VERSION, .type = (of_type), .length = { (bytes) >> 8, (bytes) & 0xff } }

static int server;
static long pages;
static struct {
	struct header output;
	char text[sizeof(REPLY_TEXT) - 1];
	struct header no_more_output, end;
	/* The application's status and the protocol's; 0 is success for both. */
	uint8_t status[8];
} reply = {
	HEADER(STDOUT, sizeof(REPLY_TEXT) - 1),
	REPLY_TEXT,
	HEADER(STDOUT, 0),
	HEADER(END_REQUEST, sizeof(reply.status)),
	{ 0 },
};

static size_t length_of(const struct header *header)
{
	return header->length[0] << 8 | header->length[1];
}

/*
 * Reads records to the empty one that ends the request, and puts that into `last`; false if none
 * comes.
 */
static int take_request(int peer, struct header *last)
{
	static uint8_t buffer[RECORD_MOST];
	size_t held = 0, size;

	for (;;) {
		ssize_t got = read(peer, buffer + held, sizeof(buffer) - held);

		if (got <= 0)
			return 0;
		held += got;
		while (held >= sizeof(*last)) {
			memcpy(last, buffer, sizeof(*last));
			size = sizeof(*last) + length_of(last) + last->padding;
			if (held < size)
				break;
			if (last->type == STDIN && length_of(last) == 0)
				return 1;
			held -= size;
			memmove(buffer, buffer + size, held);
		}
	}
}

static void answer_requests(void)
{
	struct header *const headers[] = { &reply.output, &reply.no_more_output, &reply.end };

	take_pages(pages);
	for (;;) {
		int peer = accept(server, NULL, NULL);
		struct header last;

		if (peer < 0)
			fail("accept");
		if (take_request(peer, &last)) {
			read_pages();
			for (size_t i = 0; i < COUNT(headers); i++)
				memcpy(headers[i]->request, last.request, sizeof(last.request));
			send(peer, &reply, sizeof(reply), MSG_NOSIGNAL);
		}
		close(peer);
	}
}

void start_fastcgi(long count)
{
	const struct sockaddr_un address = { AF_UNIX, SOCKET };

	pages = count;
	unlink(SOCKET);
	server = socket(AF_UNIX, SOCK_STREAM, 0);
	if (server < 0 || bind(server, (const struct sockaddr *)&address, sizeof(address)) || listen(server, BACKLOG))
		fail(SOCKET);
	start_child(answer_requests);
	close(server);
}
