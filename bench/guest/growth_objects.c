// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many descriptors and files: operations on all of them, per descriptor or file, by their number.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "growth.h"

#define MOST 8192
#define NAME_BYTES 64
#define DIRECTORY "/tmp/growth-files"

static int fds[MOST][2];

static void check_size(long size)
{
	if (size > MOST)
		fail("more descriptors than there is room for");
}

static void run_epoll(const struct row *row, long size)
{
	int watch = epoll_create1(0);
	const uint64_t one = 1;

	(void)row;
	check_size(size);
	if (watch < 0)
		fail("epoll_create1");
	for (long i = 0; i < size; i++)
		if ((fds[i][0] = eventfd(0, 0)) < 0)
			fail("eventfd");
	stage_begins("epoll-add");
	for (long i = 0; i < size; i++)
		if (epoll_ctl(watch, EPOLL_CTL_ADD, fds[i][0], &(struct epoll_event){ EPOLLIN, { .fd = fds[i][0] } }))
			fail("epoll_ctl");
	stage_ends(size);
	stage_begins("epoll-wait");
	for (long i = 0; i < size; i++) {
		struct epoll_event found;
		uint64_t count;

		write(fds[i][0], &one, sizeof one);
		if (epoll_wait(watch, &found, 1, -1) != 1 || read(found.data.fd, &count, sizeof count) != sizeof count)
			fail("epoll_wait");
	}
	stage_ends(size);
	stage_begins("epoll-close");
	for (long i = 0; i < size; i++)
		close(fds[i][0]);
	stage_ends(size);
	close(watch);
}

static void run_sockets(const struct row *row, long size)
{
	char byte = 0;

	(void)row;
	check_size(size);
	stage_begins("sockets-make");
	for (long i = 0; i < size; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]))
			fail("socketpair");
	stage_ends(size);
	stage_begins("sockets-send");
	for (long i = 0; i < size; i++)
		if (write(fds[i][0], &byte, 1) != 1 || read(fds[i][1], &byte, 1) != 1)
			fail("sockets");
	stage_ends(size);
	stage_begins("sockets-close");
	for (long i = 0; i < size; i++) {
		close(fds[i][0]);
		close(fds[i][1]);
	}
	stage_ends(size);
}

static const char *file_name(long number)
{
	static char name[NAME_BYTES];

	snprintf(name, sizeof name, DIRECTORY "/%ld", number);
	return name;
}

static void run_files(const struct row *row, long size)
{
	struct stat status;

	(void)row;
	mkdir(DIRECTORY, S_IRWXU);
	stage_begins("files-create");
	for (long i = 0; i < size; i++) {
		int fd = open(file_name(i), O_CREAT | O_WRONLY, S_IRUSR | S_IWUSR);

		if (fd < 0 || write(fd, "x", 1) != 1)
			fail("open");
		close(fd);
	}
	stage_ends(size);
	stage_begins("files-stat");
	for (long i = 0; i < size; i++)
		if (stat(file_name(i), &status))
			fail("stat");
	stage_ends(size);
	stage_begins("files-unlink");
	for (long i = 0; i < size; i++)
		if (unlink(file_name(i)))
			fail("unlink");
	stage_ends(size);
	rmdir(DIRECTORY);
}

static const struct row rows[] = {
	{ "epoll", run_epoll, 0, "" },
	{ "sockets", run_sockets, 0, "" },
	{ "files", run_files, 0, "" },
};
const struct rows object_rows = { rows, COUNT(rows) };
