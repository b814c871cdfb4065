// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queries of a local client to a database server of one thread, as in section 4.7 of "Performance
 * of address-space multiplexing on the Pentium": Debian's sqlite3 at a Unix socket, with a table in
 * memory. It parses, plans and runs each query, as MySQL does, but it knows one client, no users,
 * and no protocol but lines of text.
 */
#include <string.h>
#include <sys/socket.h>

#include "bench.h"

#define QUERIES 100
/* That of all rows takes so long. */
#define SCANS 20

struct query {
	const char *text, *reply;
};

static const struct query
	create = { "CREATE TABLE words(number INTEGER PRIMARY KEY, text TEXT);"
		   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "
		   "INSERT INTO words SELECT i, 'word ' || i FROM n; SELECT count(*) FROM words;\n",
		   "1000\n" },
	constant = { "SELECT 1;\n", "1\n" },
	by_number = { "SELECT text FROM words WHERE number = 471;\n", "word 471\n" },
	all = { "SELECT count(*) FROM words WHERE text LIKE '%9%';\n", "271\n" };
static int ends[2];

static void serve(void)
{
	if (dup2(ends[1], STDIN_FILENO) < 0 || dup2(ends[1], STDOUT_FILENO) < 0)
		fail("dup2");
	close(ends[0]);
	close(ends[1]);
	execl("/usr/bin/sqlite3", "sqlite3", "-batch", NULL);
	fail("sqlite3");
}

/* Sends a query and reads its reply, which must be the expected one. */
static void ask(const struct query *query)
{
	const size_t asked = strlen(query->text), expected = strlen(query->reply);
	char reply[PAGE];
	size_t held = 0;

	if (write(ends[0], query->text, asked) != (ssize_t)asked)
		fail(query->text);
	while (held < expected) {
		ssize_t got = read(ends[0], reply + held, sizeof(reply) - held);

		if (got <= 0)
			fail(query->text);
		held += got;
	}
	if (held != expected || memcmp(reply, query->reply, expected))
		fail(query->text);
}

static void prepare(void)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	start_child(serve);
	close(ends[1]);
	ask(&create);
}

static void run_constant(long count)
{
	while (count--)
		ask(&constant);
}

static void run_row(long count)
{
	while (count--)
		ask(&by_number);
}

static void run_scan(long count)
{
	while (count--)
		ask(&all);
}

static void finish(void)
{
	close(ends[0]);
	end_children();
}

static const struct row rows[] = {
	{ "select-constant", QUERIES, prepare, NULL, run_constant, finish, .settles = 1 },
	{ "select-row", QUERIES, prepare, NULL, run_row, finish, .settles = 1 },
	{ "select-scan", SCANS, prepare, NULL, run_scan, finish, .settles = 1 },
};
const struct rows database_rows = { rows, COUNT(rows) };
