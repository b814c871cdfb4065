// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who can trace a program, or look at it, that has given up root.
 *
 *   access master		as a daemon does: a child that gives up root and allows core dumps;
 *				prints both process ids, and waits
 *   access worker ROOM		gives up root in this process, prints what prctl says; its id, too, is
 *				printed. "namespace" as ROOM: it also makes a user namespace
 *   access try PID		gives up root, and tries each way to that process: prints those that
 *				worked, and how many were tried
 *   access traceme		gives up root, and is asked by a child with its memory to trace it
 *   access exec PROGRAM...	executes it as a child that this process traces, to its end
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER 1000
#define NAME_BYTES 64

/* What others try to read: programs that are linked at the same place have it at the same place. */
static char memory[16] = "memory";

static void give_up_root(void)
{
	if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
		exit(1);
}

static void allow_dumps(const char *who)
{
	int result = prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);

	printf("%s %d: %s, dumpable %d\n", who, getpid(), result ? strerror(errno) : "allowed",
	       prctl(PR_GET_DUMPABLE));
	fflush(stdout);
}

static int wait_here(void)
{
	while (pause())
		;
	return 0;
}

static int master(void)
{
	printf("master %d\n", getpid());
	fflush(stdout);
	if (fork())
		return wait_here();
	give_up_root();
	allow_dumps("worker");
	return wait_here();
}

static int worker(const char *room)
{
	give_up_root();
	allow_dumps("worker");
	if (!strcmp(room, "namespace"))
		printf("namespace %d\n", unshare(CLONE_NEWUSER));
	fflush(stdout);
	return wait_here();
}

static int by_attach(pid_t pid)
{
	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL))
		return 0;
	waitpid(pid, NULL, 0);
	return !ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

static int by_seize(pid_t pid)
{
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL))
		return 0;
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	waitpid(pid, NULL, 0);
	return !ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

static int by_reading(pid_t pid)
{
	char here[sizeof(memory)];
	struct iovec local = { here, sizeof(here) }, remote = { memory, sizeof(memory) };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(memory);
}

static int by_writing(pid_t pid)
{
	struct iovec local = { memory, sizeof(memory) }, remote = { memory, sizeof(memory) };

	return process_vm_writev(pid, &local, 1, &remote, 1, 0) == sizeof(memory);
}

/* Opens a file of the process, and reads from it if `at` is not 0. */
static int by_file(pid_t pid, const char *file, int flags, uintptr_t at)
{
	char name[NAME_BYTES], byte;
	int fd, worked;

	snprintf(name, sizeof(name), "/proc/%d/%s", pid, file);
	fd = open(name, flags);
	worked = fd >= 0 && (!at || pread(fd, &byte, 1, at) == 1);
	if (fd >= 0)
		close(fd);
	return worked;
}

static int by_memory_file(pid_t pid)
{
	return by_file(pid, "mem", O_RDWR, (uintptr_t)memory);
}

static int by_maps(pid_t pid)
{
	char name[NAME_BYTES], text[1];
	ssize_t length;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	fd = open(name, O_RDONLY);
	length = fd < 0 ? -1 : read(fd, text, sizeof(text));
	close(fd);
	return length > 0;
}

static int by_page_map(pid_t pid)
{
	return by_file(pid, "pagemap", O_RDONLY, 0);
}

/* Reads a link of the process. */
static int by_link(pid_t pid, const char *link)
{
	char name[NAME_BYTES], text[NAME_BYTES];

	snprintf(name, sizeof(name), "/proc/%d/%s", pid, link);
	return readlink(name, text, sizeof(text)) > 0;
}

static int by_files(pid_t pid)
{
	return by_link(pid, "fd/1");
}

static int by_program(pid_t pid)
{
	return by_link(pid, "exe");
}

static int by_descriptor(pid_t pid)
{
	int process = syscall(SYS_pidfd_open, pid, 0);

	return process >= 0 && syscall(SYS_pidfd_getfd, process, STDOUT_FILENO, 0) >= 0;
}

static int by_counters(pid_t pid)
{
	struct perf_event_attr asked = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(asked),
					 .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1 };

	return syscall(SYS_perf_event_open, &asked, pid, -1, -1, 0) >= 0;
}

static int by_comparison(pid_t pid)
{
	return syscall(SYS_kcmp, getpid(), pid, KCMP_VM, 0, 0) >= 0;
}

static int by_futexes(pid_t pid)
{
	size_t length;
	void *head;

	return !syscall(SYS_get_robust_list, pid, &head, &length);
}

static const struct {
	const char *name;
	int (*works)(pid_t pid);
} ways[] = {
	{ "attach", by_attach }, { "seize", by_seize }, { "read", by_reading }, { "write", by_writing },
	{ "mem", by_memory_file }, { "maps", by_maps }, { "pagemap", by_page_map }, { "files", by_files },
	{ "program", by_program }, { "descriptor", by_descriptor }, { "counters", by_counters },
	{ "comparison", by_comparison }, { "futexes", by_futexes },
};

static int try(pid_t pid)
{
	size_t count = sizeof(ways) / sizeof(ways[0]);

	give_up_root();
	printf("of %zu:", count);
	for (size_t i = 0; i < count; i++)
		if (ways[i].works(pid))
			printf(" %s", ways[i].name);
	printf("\n");
	return 0;
}

/* The child has the program's place: by fork in supervisor mode, by its memory in the server. */
static int traceme(void)
{
	int status;
	pid_t pid;

	give_up_root();
	pid = vfork();
	if (pid) {
		waitpid(pid, &status, 0);
		printf("traceme %s\n", strerror(WEXITSTATUS(status)));
		return 0;
	}
	_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? errno : 0);
}

static int traced_exec(char **words)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execvp(words[0], words);
		_exit(1);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, pid, NULL, WSTOPSIG(status) == SIGTRAP ? 0 : (long)WSTOPSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **words)
{
	if (count == 2 && !strcmp(words[1], "master"))
		return master();
	if (count == 3 && !strcmp(words[1], "worker"))
		return worker(words[2]);
	if (count == 3 && !strcmp(words[1], "try"))
		return try(atoi(words[2]));
	if (count == 2 && !strcmp(words[1], "traceme"))
		return traceme();
	if (count > 2 && !strcmp(words[1], "exec"))
		return traced_exec(words + 2);
	return 1;
}
