// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pointers given to system calls: bad ones of every kind, copies that end at a page border, large
 * copies.
 */
#include "check.h"
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/utsname.h>

#define BIG_COPY (24UL << 20)

static void *const bad_pointers[] = { NULL, (void *)8, (void *)0x7ffffffff000UL, (void *)0x800000000000UL,
				      (void *)0xdead000000000000UL, (void *)0xffff888000000000UL,
				      (void *)0xffffffff81000000UL, (void *)-8L };

CHECK(usercopy, read_into_bad_pointers)
{
	int fd = open("/dev/zero", O_RDONLY);

	for (size_t i = 0; i < ARRAY_SIZE(bad_pointers); i++)
		say_value("read", read(fd, bad_pointers[i], 64));
}

CHECK(usercopy, write_from_bad_pointers)
{
	int fd = make_file("target", "");

	for (size_t i = 0; i < ARRAY_SIZE(bad_pointers); i++)
		say_value("write", write(fd, bad_pointers[i], 64));
}

CHECK(usercopy, path_from_bad_pointers)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_pointers); i++)
		say_value("open", syscall(SYS_open, bad_pointers[i], O_RDONLY));
}

CHECK(usercopy, results_to_bad_pointers)
{
	struct timespec *when = bad_pointers[5];

	say_result("uname", syscall(SYS_uname, bad_pointers[3]));
	say_result("stat", syscall(SYS_stat, "/", bad_pointers[5]));
	say_result("pipe", syscall(SYS_pipe, bad_pointers[5]));
	say_result("clock_gettime", syscall(SYS_clock_gettime, CLOCK_MONOTONIC, when));
	say_result("nanosleep", syscall(SYS_nanosleep, when, NULL));
	say_result("sigaction", syscall(SYS_rt_sigaction, SIGUSR1, NULL, bad_pointers[6], 8));
	say_result("getcwd", syscall(SYS_getcwd, bad_pointers[1], 100));
	say_result("wait4", syscall(SYS_wait4, -1, bad_pointers[1], 0, 0));
	say_result("poll", syscall(SYS_poll, bad_pointers[4], 1, 0));
	say_result("futex", syscall(SYS_futex, bad_pointers[5], 0, 0, 0, 0, 0));
	say_result("gettimeofday", syscall(SYS_gettimeofday, bad_pointers[1], 0));
	say_result("socketpair", syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, bad_pointers[1]));
}

/*
 * Writable pages are always readable by the processor, so Linux permits reads too, even of pages
 * not mapped yet.
 */
CHECK(usercopy, write_from_a_page_that_may_only_be_written)
{
	char content[PAGE];
	int fd = open("backing", O_RDWR | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_WRONLY);
	char *page;

	memset(content, 'w', sizeof(content));
	must("content", write(fd, content, sizeof(content)) == sizeof(content));
	page = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0);
	must("mapping", page != MAP_FAILED);
	say_value("write", write(null, page, PAGE));
	say_value("to_a_file", pwrite(fd, page, PAGE, PAGE));
	munmap(page, PAGE);
	page = mmap(NULL, PAGE, PROT_EXEC, MAP_SHARED, fd, 0);
	must("code", page != MAP_FAILED);
	say_value("from_code", pwrite(fd, page, PAGE, 2 * PAGE));
	page = mmap(NULL, PAGE, PROT_NONE, MAP_SHARED, fd, 0);
	must("nothing", page != MAP_FAILED);
	say_value("from_nothing", pwrite(fd, page, PAGE, 2 * PAGE));
}

CHECK(usercopy, vdso_with_bad_pointer)
{
	pid_t pid = spawn();

	if (!pid) {
		clock_gettime(CLOCK_MONOTONIC, (struct timespec *)bad_pointers[1]);
		_exit(errno == EFAULT ? 2 : 0);
	}
	say_child("child", pid);
}

CHECK(usercopy, read_only_target)
{
	char *page = map_pages(1);
	int fd = open("/dev/zero", O_RDONLY);

	page[0] = 5;
	mprotect(page, PAGE, PROT_READ);
	say_value("read", read(fd, page, 10));
	say("kept=%d", page[0]);
	mprotect(page, PAGE, PROT_NONE);
	say_value("none", read(fd, page, 10));
	say_value("write_none", write(make_file("x", ""), page, 10));
}

CHECK(usercopy, partial_read_at_border)
{
	char *pages = map_pages(2);
	int fd = make_file("long", "");

	munmap(pages + PAGE, PAGE);
	must("grow", ftruncate(fd, 100) == 0);
	say_value("read", read(fd, pages + PAGE - 30, 100));
	say_value("at_border", pread(fd, pages + PAGE, 100, 0));
	say_value("exact", pread(fd, pages + PAGE - 100, 100, 0));
}

CHECK(usercopy, partial_write_at_border)
{
	char *pages = map_pages(2);
	int fd = make_file("long", ""), ends[2];

	must("pipe", pipe(ends) == 0);
	memset(pages, 'w', PAGE);
	munmap(pages + PAGE, PAGE);
	say_value("file", write(fd, pages + PAGE - 30, 100));
	say_value("pipe", write(ends[1], pages + PAGE - 30, 100));
	say_value("pipe_exact", write(ends[1], pages + PAGE - 30, 30));
}

CHECK(usercopy, string_ends_at_border)
{
	char *pages = map_pages(2);

	munmap(pages + PAGE, PAGE);
	memcpy(pages + PAGE - 5, "/tmp", 5);
	say_result("terminated", access(pages + PAGE - 5, F_OK));
	memcpy(pages + PAGE - 4, "/tmp", 4);
	say_result("unterminated", access(pages + PAGE - 4, F_OK));
	for (int i = 1; i <= 9; i++) {
		memset(pages + PAGE - i, '/', i);
		pages[PAGE - 1] = 0;
		if (access(pages + PAGE - i, F_OK) != (i > 1 ? 0 : -1))
			say("length_%d=%s", i, errno_name(errno));
	}
}

CHECK(usercopy, path_too_long)
{
	char *path = map_pages(3);

	memset(path, 'a', 2 * PAGE);
	say_result("component", access(path, F_OK));
	for (size_t i = 0; i < 2 * PAGE; i += 2)
		path[i] = '/';
	say_result("two_pages", access(path, F_OK));
	path[PAGE] = 0;
	say_result("limit", access(path, F_OK));
	path[PAGE - 1] = 0;
	say_result("below_limit", access(path, F_OK));
}

CHECK(usercopy, unaligned_everywhere)
{
	char *from = map_pages(3), *to = map_pages(3);
	int fd = make_file("unaligned", ""), bad = 0;

	for (int i = 0; i < 1000; i++)
		from[PAGE - 500 + i] = i * 7;
	for (int shift = 0; shift < 17; shift++) {
		must("write", pwrite(fd, from + PAGE - 500 + shift, 983, 0) == 983);
		must("read", pread(fd, to + PAGE - 491 - shift, 983, 0) == 983);
		bad += memcmp(from + PAGE - 500 + shift, to + PAGE - 491 - shift, 983) != 0;
	}
	say("bad=%d", bad);
}

CHECK(usercopy, large_copy)
{
	char *from = map_pages(BIG_COPY / PAGE), *to = map_pages(BIG_COPY / PAGE);
	int fd = memfd_create("large", 0);

	for (size_t i = 0; i < BIG_COPY; i += 509)
		from[i] = i >> 9;
	say_value("write", pwrite(fd, from, BIG_COPY, 0));
	say_value("read", pread(fd, to, BIG_COPY, 0));
	say_bool("same", !memcmp(from, to, BIG_COPY));
}

CHECK(usercopy, beyond_two_gigabytes)
{
	int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
	char *memory = mmap(NULL, 3UL << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must("map", memory != MAP_FAILED);
	say_value("write_null", write(null, memory, 3UL << 30));
	say_value("read_negative", read(zero, memory, -1));
	say_value("write_too_long", write(make_file("x", ""), (void *)16, SIZE_MAX / 4 + 1));
}

CHECK(usercopy, vectors)
{
	char first[4] = "", second[8] = "";
	struct iovec parts[2] = { { first, 3 }, { second, 7 } }, bad[2] = { { first, 3 }, { (void *)16, 7 } };
	int fd = make_file("vectors", "0123456789abcdef");

	say_value("readv", readv(fd, parts, 2));
	say("parts=%s,%s", first, second);
	say_value("bad_second", preadv(fd, bad, 2, 0));
	say_value("bad_vector", readv(fd, (struct iovec *)16, 2));
	say_value("too_many", readv(fd, parts, 1025));
	say_value("none", readv(fd, parts, 0));
	parts[0].iov_len = -1;
	say_value("negative", readv(fd, parts, 1));
	parts[0].iov_len = 3;
	say_value("writev", pwritev(fd, parts, 2, 0));
}

CHECK(usercopy, fresh_pages_as_target)
{
	char *memory = map_pages(32);
	int fd = make_file("fresh", "");

	must("grow", ftruncate(fd, 32 * PAGE) == 0);
	must("write", pwrite(fd, "end", 3, 31 * PAGE) == 3);
	say_value("read", pread(fd, memory, 32 * PAGE, 0));
	say("text=%s", memory + 31 * PAGE);
}

CHECK(usercopy, copy_on_write_as_target)
{
	char *memory = map_pages(4);
	int fd = open("/dev/zero", O_RDONLY);
	pid_t pid;

	memset(memory, 1, 4 * PAGE);
	pid = spawn();
	if (!pid) {
		must("read", read(fd, memory, 4 * PAGE) == 4 * (ssize_t)PAGE);
		_exit(memory[3 * PAGE]);
	}
	say_child("child", pid);
	say("parent=%d", memory[3 * PAGE]);
}

CHECK(usercopy, file_pages_as_source)
{
	int from = make_file("from", ""), to = make_file("to", "");
	char text[4] = "", *memory;

	must("grow", ftruncate(from, 4 * PAGE) == 0);
	must("write", pwrite(from, "tip", 3, 4 * PAGE - 3) == 3);
	memory = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, from, 0);
	say_value("write", write(to, memory, 4 * PAGE));
	must("read", pread(to, text, 3, 4 * PAGE - 3) == 3);
	say("text=%s", text);
}

CHECK(usercopy, target_beyond_end_of_file)
{
	int fd = make_file("short", "x");
	char *memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	say_value("read", read(open("/dev/zero", O_RDONLY), memory + PAGE, 8));
	say_value("write", write(make_file("y", ""), memory + PAGE, 8));
}

CHECK(usercopy, write_from_own_mapping)
{
	int fd = make_file("self", "abcdefgh");
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	say_value("write", pwrite(fd, memory, 4, 4));
	say("text=%.8s", memory);
}
