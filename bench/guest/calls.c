// SPDX-License-Identifier: GPL-2.0-only
/*
 * System calls that do almost nothing, one of them by each interface of Linux on Keel, and from a
 * program in supervisor mode (--place).
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "keel_call.h"

/* The bits of a code selector that are the privilege level. */
#define LEVEL_MASK 3

static int null_fd;

static void run_getpid(long count)
{
	while (count--)
		syscall(SYS_getpid);
}

static void run_message(long count)
{
	while (count--)
		keel_call3(SYS_getpid, 0, 0, 0);
}

static void allow(unsigned long how)
{
	if (keel_calls(how))
		fail("messages");
}

static void prepare_library(void)
{
	allow(KEEL_DISPATCH_ON);
}

static void prepare_entry(void)
{
	allow((unsigned long)keel_entry);
}

static void take_back(void)
{
	allow(KEEL_DISPATCH_OFF);
}

/* In user mode the figure would be that of the row getpid. */
static void prepare_supervisor(void)
{
	unsigned long cs;

	__asm__("mov %%cs, %0" : "=r"(cs));
	if (cs & LEVEL_MASK)
		fail("supervisor mode");
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
	{ "getpid-library", 2000, prepare_library, NULL, run_message, take_back },
	{ "getpid-entry", 2000, prepare_entry, NULL, run_getpid, take_back },
	{ "getpid-ring-0", 2000, prepare_supervisor, NULL, run_getpid, NULL },
	{ "write-null", 2000, prepare_write, NULL, run_write, NULL },
};
const struct rows call_rows = { rows, COUNT(rows) };
