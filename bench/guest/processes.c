// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes from birth to death, as lmbench has them: that end at once, that become a program, that
 * are a shell's.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PROGRAM "/bin/true"
#define SHELL "/bin/sh"

static void run_children(long count, void (*end)(int))
{
	while (count--) {
		pid_t pid = fork();

		if (pid == 0)
			end(0);
		if (waitpid(pid, NULL, 0) != pid)
			fail("fork");
	}
}

static void run_fork(long count)
{
	run_children(count, _exit);
}

/* As lmbench's child ends: by libc's handlers, which touch more pages. */
static void run_fork_libc(long count)
{
	run_children(count, exit);
}

static void run_program(long count, const char *path, char *const argv[])
{
	int status;

	while (count--) {
		pid_t pid = fork();

		if (pid == 0) {
			execv(path, argv);
			_exit(127);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			fail(path);
	}
}

static void run_exec(long count)
{
	run_program(count, PROGRAM, (char *[]){ PROGRAM, NULL });
}

/* The shell starts the program in a process of its own: it is not the last that the shell does. */
static void run_shell(long count)
{
	run_program(count, SHELL, (char *[]){ SHELL, "-c", PROGRAM "; exit 0", NULL });
}

static const struct row rows[] = {
	{ "fork-exit", 40, NULL, NULL, run_fork, NULL },
	{ "fork-exit-libc", 40, NULL, NULL, run_fork_libc, NULL },
	{ "fork-exec", 20, NULL, NULL, run_exec, NULL },
	{ "shell", 10, NULL, NULL, run_shell, NULL },
};
const struct rows process_rows = { rows, COUNT(rows) };
