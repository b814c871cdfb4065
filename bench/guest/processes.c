// SPDX-License-Identifier: GPL-2.0-only
/*
 * Creation and end of processes, as in lmbench: that exit at once, that execute a program, that a
 * shell starts.
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

/* Exits as lmbench's child does, through libc's handlers, which touch more pages. */
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

/* The shell forks for the program, because it is not the shell's last command. */
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
