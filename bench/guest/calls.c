// SPDX-License-Identifier: GPL-2.0-only
/* System calls that do next to nothing. */
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

static int null_fd;

static void run_getpid(long count)
{
	while (count--)
		syscall(SYS_getpid);
}

static void prepare_write(void)
{
	null_fd = open("/dev/null", O_WRONLY);
	if (null_fd < 0)
		fail("/dev/null");
}

static void run_write(long count)
{
	while (count--)
		write(null_fd, "x", 1);
}

static const struct row rows[] = {
	{ "getpid", 2000, NULL, NULL, run_getpid, NULL },
	{ "write-null", 2000, prepare_write, NULL, run_write, NULL },
};
const struct rows call_rows = { rows, COUNT(rows) };
