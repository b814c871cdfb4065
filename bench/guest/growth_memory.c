// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on a set of memory, and on pages touched afterwards, by the set's size in MB or by the
 * number of pages.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "growth.h"

#define HUGE (2 * MB)
/* Bytes that one read() takes. */
#define CHUNK (64UL << 10)
/* A process beside fork() maps and unmaps this much in a loop. */
#define NEIGHBOUR_BYTES (64UL << 10)
#define MOUNTED "/tmp/growth-huge"

/* Address space for a set, without any page present. */
static char *reserve(unsigned long bytes, int huge)
{
	char *area = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *aligned = (char *)(((unsigned long)area + HUGE - 1) & ~(HUGE - 1));

	if (area == MAP_FAILED)
		fail("mmap");
	if (aligned > area)
		munmap(area, aligned - area);
	munmap(aligned + bytes, area + HUGE - aligned);
	if (madvise(aligned, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		fail("madvise");
	return aligned;
}

static void write_pages(char *area, unsigned long bytes)
{
	for (unsigned long place = 0; place < bytes; place += PAGE)
		*(volatile char *)(area + place) = 1;
}

static void read_pages(const char *area, unsigned long bytes)
{
	for (unsigned long place = 0; place < bytes; place += PAGE)
		(void)*(volatile const char *)(area + place);
}

static char *populated(unsigned long bytes, int huge)
{
	char *area = reserve(bytes, huge);

	write_pages(area, bytes);
	return area;
}

static void run_touch(const struct row *row, long size)
{
	char *area = reserve(size * MB, row->huge);

	stage_begins("touch-first");
	write_pages(area, size * MB);
	stage_ends(1);
	stage_begins("munmap");
	munmap(area, size * MB);
	stage_ends(1);
}

/* A child that waits until the writing end of the pipe is closed. */
static pid_t fork_waiting(int pipes[2])
{
	pid_t pid;
	char byte;

	if (pipe(pipes))
		fail("pipe");
	stage_begins("fork");
	pid = fork();
	if (pid == 0) {
		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) != 0);
	}
	stage_ends(1);
	if (pid < 0)
		fail("fork");
	close(pipes[0]);
	return pid;
}

static void run_fork(const struct row *row, long size)
{
	char *area = populated(size * MB, row->huge);
	int pipes[2];
	pid_t pid = fork_waiting(pipes);

	stage_begins("cow");
	write_pages(area, size * MB);
	stage_ends(1);
	stage_begins("fork-end");
	close(pipes[1]);
	reap(pid);
	stage_ends(1);
	munmap(area, size * MB);
}

/* fork() alone: nothing is written while the child lives. */
static void run_fork_only(const struct row *row, long size)
{
	char *area = populated(size * MB, row->huge);
	int pipes[2];
	pid_t pid = fork_waiting(pipes);

	close(pipes[1]);
	reap(pid);
	munmap(area, size * MB);
}

/* fork() beside a process that maps and unmaps. */
static void run_fork_beside(const struct row *row, long size)
{
	pid_t neighbour = fork();

	if (neighbour < 0)
		fail("fork");
	if (neighbour == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			char *area = mmap(NULL, NEIGHBOUR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			write_pages(area, NEIGHBOUR_BYTES);
			munmap(area, NEIGHBOUR_BYTES);
		}
	}
	run_fork_only(row, size);
	kill(neighbour, SIGKILL);
	waitpid(neighbour, NULL, 0);
}

/* A child with the set, which exits or executes another program. */
static void in_child(const struct row *row, long size, const char *name, int execs)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		populated(size * MB, row->huge);
		stage_begins(name);
		if (execs)
			exec_to_end_stage();
		_exit(0);
	}
	reap(pid);
	if (!execs)
		stage_ends(1);
}

static void run_exit(const struct row *row, long size)
{
	in_child(row, size, "exit", 0);
}

static void run_exec(const struct row *row, long size)
{
	in_child(row, size, "exec", 1);
}

static void run_mremap(const struct row *row, long size)
{
	char *area = populated(size * MB, row->huge), *target = reserve(size * MB, row->huge);

	stage_begins("mremap");
	if (mremap(area, size * MB, size * MB, MREMAP_MAYMOVE | MREMAP_FIXED, target) != target)
		fail("mremap");
	stage_ends(1);
	stage_begins("mremap-touch");
	write_pages(target, size * MB);
	stage_ends(1);
	munmap(target, size * MB);
}

static void advise(const char *name, char *area, long size, int advice)
{
	stage_begins(name);
	if (madvise(area, size * MB, advice))
		fail(name);
	stage_ends(1);
}

static void rewrite(const char *name, char *area, long size)
{
	stage_begins(name);
	write_pages(area, size * MB);
	stage_ends(1);
}

static void run_madvise(const struct row *row, long size)
{
	char *area = populated(size * MB, row->huge);

	advise("madvise-free", area, size, MADV_FREE);
	rewrite("free-rewrite", area, size);
	advise("madvise-cold", area, size, MADV_COLD);
	rewrite("cold-rewrite", area, size);
	advise("madvise-dontneed", area, size, MADV_DONTNEED);
	rewrite("dontneed-touch", area, size);
	munmap(area, size * MB);
}

static void protect(const char *name, char *area, long size, int protection)
{
	stage_begins(name);
	if (mprotect(area, size * MB, protection))
		fail(name);
	stage_ends(1);
}

static void run_mprotect(const struct row *row, long size)
{
	char *area = populated(size * MB, row->huge);

	protect("mprotect-read", area, size, PROT_READ);
	stage_begins("mprotect-reread");
	read_pages(area, size * MB);
	stage_ends(1);
	protect("mprotect-write", area, size, PROT_READ | PROT_WRITE);
	rewrite("mprotect-rewrite", area, size);
	munmap(area, size * MB);
}

/* A file in memory, in huge pages if the row wants them. */
static int open_file(const struct row *row, long size)
{
	static char chunk[CHUNK];
	int fd;

	if (row->huge) {
		mkdir(MOUNTED, S_IRWXU);
		if (mount("growth", MOUNTED, "tmpfs", 0, "huge=always,size=100%"))
			fail("mount");
		fd = open(MOUNTED "/file", O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
	} else {
		fd = memfd_create("growth-file", 0);
	}
	if (fd < 0)
		fail("open");
	for (unsigned long written = 0; written < size * MB; written += CHUNK)
		if (write(fd, chunk, CHUNK) != (ssize_t)CHUNK)
			fail("write");
	return fd;
}

static void run_file(const struct row *row, long size)
{
	static char chunk[CHUNK];
	int fd = open_file(row, size);
	char *area;

	lseek(fd, 0, SEEK_SET);
	stage_begins("file-read");
	for (unsigned long done = 0; done < size * MB; done += CHUNK)
		if (read(fd, chunk, CHUNK) != (ssize_t)CHUNK)
			fail("read");
	stage_ends(1);
	area = mmap(NULL, size * MB, PROT_READ, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED)
		fail("mmap");
	stage_begins("file-touch");
	read_pages(area, size * MB);
	stage_ends(1);
	stage_begins("file-munmap");
	munmap(area, size * MB);
	stage_ends(1);
	close(fd);
	if (row->huge && umount2(MOUNTED, MNT_DETACH))
		fail("umount");
}

/* One page in each 2 MB, so that each needs its own page table. The size is the number of pages. */
static void run_sparse(const struct row *row, long size)
{
	static const char *const names[] = { "sparse-first", "sparse-again" };
	char *area = reserve(size * HUGE, row->huge);

	for (unsigned int pass = 0; pass < COUNT(names); pass++) {
		stage_begins(names[pass]);
		for (long page = 0; page < size; page++)
			*(volatile char *)(area + page * HUGE) = 1;
		stage_ends(size);
	}
	munmap(area, size * HUGE);
}

static const struct row rows[] = {
	{ "touch", run_touch, 0, "" },
	{ "touch-huge", run_touch, 1, "-huge" },
	{ "fork", run_fork, 0, "" },
	{ "fork-huge", run_fork, 1, "-huge" },
	{ "exit", run_exit, 0, "" },
	{ "exit-huge", run_exit, 1, "-huge" },
	{ "exec", run_exec, 0, "" },
	{ "exec-huge", run_exec, 1, "-huge" },
	{ "mremap", run_mremap, 0, "" },
	{ "mremap-huge", run_mremap, 1, "-huge" },
	{ "madvise", run_madvise, 0, "" },
	{ "madvise-huge", run_madvise, 1, "-huge" },
	{ "mprotect", run_mprotect, 0, "" },
	{ "mprotect-huge", run_mprotect, 1, "-huge" },
	{ "file", run_file, 0, "" },
	{ "file-huge", run_file, 1, "-huge" },
	{ "sparse", run_sparse, 0, "" },
	{ "fork-alone", run_fork_only, 0, "-alone" },
	{ "fork-mapper", run_fork_beside, 0, "-mapper" },
	{ "fork-heartbeat", run_fork_only, 0, "-heartbeat" },
};
const struct rows memory_rows = { rows, COUNT(rows) };
