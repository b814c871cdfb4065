// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pipes and fifos, and the calls that move data between descriptors: splice, tee, sendfile,
 * copy_file_range.
 */
#include "check.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define TRANSFER (1 << 20)

CHECK(pipes, read_and_end)
{
	int ends[2];
	char text[8] = "";

	must("pipe", pipe(ends) == 0);
	say_value("write", write(ends[1], "hello", 5));
	say_value("part", read(ends[0], text, 3));
	say_value("rest", read(ends[0], text, 8));
	close(ends[1]);
	say_value("end", read(ends[0], text, 8));
	say_value("seek", lseek(ends[0], 0, SEEK_SET));
}

CHECK(pipes, broken)
{
	int ends[2];
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	close(ends[0]);
	pid = spawn();
	if (!pid) {
		write(ends[1], "x", 1);
		_exit(0);
	}
	say_child("child", pid);
	signal(SIGPIPE, SIG_IGN);
	say_value("ignored", write(ends[1], "x", 1));
}

CHECK(pipes, nonblocking)
{
	int ends[2];
	char byte;

	must("pipe", pipe2(ends, O_NONBLOCK) == 0);
	say_value("empty", read(ends[0], &byte, 1));
	say_value("fill", write(ends[1], map_pages(32), 32 * PAGE));
	say_value("full", write(ends[1], "x", 1));
	say_value("size", fcntl(ends[0], F_GETPIPE_SZ));
	say_value("grow", fcntl(ends[0], F_SETPIPE_SZ, 1 << 20));
	say_value("shrink_full", fcntl(ends[0], F_SETPIPE_SZ, 4096));
	say_value("more", write(ends[1], "x", 1));
	say_result("bad_flags", pipe2(ends, 0x7));
}

CHECK(pipes, megabyte_through_child)
{
	int ends[2];
	unsigned sum = 0;
	unsigned char buffer[3000];
	ssize_t part;
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	pid = spawn();
	if (!pid) {
		unsigned char *data = (unsigned char *)map_pages(TRANSFER / PAGE);

		for (int i = 0; i < TRANSFER; i++)
			data[i] = i * 31 + (i >> 8);
		for (int done = 0; done < TRANSFER; done += part)
			part = write(ends[1], data + done, TRANSFER - done < 7777 ? TRANSFER - done : 7777);
		_exit(0);
	}
	close(ends[1]);
	while ((part = read(ends[0], buffer, sizeof buffer)) > 0)
		for (int i = 0; i < part; i++)
			sum = sum * 33 + buffer[i];
	say("sum=%u", sum);
	say_child("child", pid);
}

CHECK(pipes, ping_pong)
{
	int there[2], back[2], value = 0;
	pid_t pid;

	must("pipe", pipe(there) == 0 && pipe(back) == 0);
	pid = spawn();
	if (!pid) {
		while (read(there[0], &value, sizeof value) == sizeof value && value < 1000) {
			value++;
			must("write", write(back[1], &value, sizeof value) == sizeof value);
		}
		_exit(0);
	}
	while (value < 1000) {
		must("write", write(there[1], &value, sizeof value) == sizeof value);
		must("read", read(back[0], &value, sizeof value) == sizeof value);
	}
	must("write", write(there[1], &value, sizeof value) == sizeof value);
	say("value=%d", value);
	say_child("child", pid);
}

CHECK(pipes, atomic_writes)
{
	int ends[2], mixed = 0, total = 0;
	char record[512];

	must("pipe", pipe(ends) == 0);
	for (int writer = 0; writer < 4; writer++)
		if (!spawn()) {
			memset(record, 'a' + writer, sizeof record);
			for (int i = 0; i < 100; i++)
				must("write", write(ends[1], record, sizeof record) == sizeof record);
			_exit(0);
		}
	close(ends[1]);
	for (; read(ends[0], record, sizeof record) == sizeof record; total++)
		for (size_t i = 1; i < sizeof record; i++)
			mixed += record[i] != record[0];
	say("records=%d mixed=%d", total, mixed);
}

CHECK(pipes, poll_events)
{
	int ends[2];
	struct pollfd set[2];

	must("pipe", pipe(ends) == 0);
	set[0] = (struct pollfd){ ends[0], POLLIN, 0 };
	set[1] = (struct pollfd){ ends[1], POLLOUT, 0 };
	say_value("writable", poll(set, 2, 0));
	must("write", write(ends[1], "x", 1) == 1);
	say_value("both", poll(set, 2, 0));
	say("events=%#x,%#x", set[0].revents, set[1].revents);
	close(ends[1]);
	set[1].fd = 444;
	say_value("hang_up", poll(set, 2, 0));
	say("events=%#x,%#x", set[0].revents, set[1].revents);
	close(ends[0]);
}

CHECK(pipes, bytes_waiting)
{
	int ends[2], waiting = -1;

	must("pipe", pipe(ends) == 0);
	must("write", write(ends[1], "12345", 5) == 5);
	say_result("ioctl", ioctl(ends[0], FIONREAD, &waiting));
	say("waiting=%d", waiting);
}

CHECK(pipes, fifo_between_processes)
{
	char text[8] = "";
	pid_t pid;
	int fd;

	must("fifo", mkfifo("fifo", 0600) == 0);
	pid = spawn();
	if (!pid) {
		fd = open("fifo", O_WRONLY);
		_exit(write(fd, "through", 7));
	}
	fd = open("fifo", O_RDONLY);
	say_value("read", read(fd, text, 7));
	say("text=%s", text);
	say_child("child", pid);
	say_value("end", read(fd, text, 7));
}

CHECK(pipes, packet_mode)
{
	int ends[2];
	char text[8];

	must("pipe", pipe2(ends, O_DIRECT) == 0);
	must("write", write(ends[1], "one", 3) == 3 && write(ends[1], "four", 4) == 4);
	say_value("first", read(ends[0], text, 8));
	say_value("second_short", read(ends[0], text, 2));
}

CHECK(pipes, splice_file_to_pipe)
{
	int fd = make_file("source", "spliced text"), ends[2];
	off_t offset = 2;
	char text[16] = "";

	must("pipe", pipe(ends) == 0);
	say_value("splice", splice(fd, &offset, ends[1], NULL, 6, 0));
	say("offset=%ld", (long)offset);
	must("read", read(ends[0], text, 15) > 0);
	say("text=%s", text);
	say_value("no_pipe", splice(fd, NULL, fd, NULL, 6, 0));
}

CHECK(pipes, tee_and_splice)
{
	int from[2], to[2], fd = make_file("out", "");
	char text[8] = "";

	must("pipe", pipe(from) == 0 && pipe(to) == 0);
	must("write", write(from[1], "twice", 5) == 5);
	say_value("tee", tee(from[0], to[1], 5, 0));
	say_value("splice", splice(from[0], NULL, fd, NULL, 5, 0));
	must("read", read(to[0], text, 7) > 0);
	say("tee=%s file=%s", text, slurp("out"));
}

CHECK(pipes, vmsplice)
{
	int ends[2];
	char text[8] = "", *page = map_pages(1);
	struct iovec part = { page, 4 };

	must("pipe", pipe(ends) == 0);
	strcpy(page, "gift");
	say_value("vmsplice", vmsplice(ends[1], &part, 1, 0));
	must("read", read(ends[0], text, 7) > 0);
	say("text=%s", text);
	part.iov_base = (void *)16;
	say_value("bad", vmsplice(ends[1], &part, 1, 0));
}

CHECK(pipes, sendfile)
{
	int from = make_file("from", "0123456789"), to = make_file("to", "");
	off_t offset = 3;

	say_value("sendfile", sendfile(to, from, &offset, 100));
	say("offset=%ld text=%s", (long)offset, slurp("to"));
	say_value("no_offset", sendfile(to, from, NULL, 4));
	say("text=%s", slurp("to"));
	say_value("bad", sendfile(999, from, NULL, 4));
}

CHECK(pipes, copy_file_range)
{
	int from = make_file("from", "abcdefgh"), to = make_file("to", "");
	loff_t in = 1, out = 2;

	say_value("copy", copy_file_range(from, &in, to, &out, 4, 0));
	say("in=%ld out=%ld size=%ld", (long)in, (long)out, (long)lseek(to, 0, SEEK_END));
	say_value("flags", copy_file_range(from, &in, to, &out, 4, 5));
}

CHECK(pipes, splice_large)
{
	int ends[2], fd = make_file("large", ""), out = make_file("copy", "");
	unsigned sum = 0;
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	for (int i = 0; i < 64; i++) {
		char block[PAGE];

		memset(block, i, sizeof block);
		must("write", write(fd, block, sizeof block) == sizeof block);
	}
	lseek(fd, 0, SEEK_SET);
	pid = spawn();
	if (!pid) {
		while (splice(fd, NULL, ends[1], NULL, 65536, 0) > 0)
			;
		_exit(0);
	}
	close(ends[1]);
	while (splice(ends[0], NULL, out, NULL, 65536, 0) > 0)
		;
	for (int i = 0; i < 64; i++) {
		unsigned char byte;

		must("read", pread(out, &byte, 1, i * PAGE + i) == 1);
		sum += byte;
	}
	say("sum=%u", sum);
	say_child("child", pid);
}
