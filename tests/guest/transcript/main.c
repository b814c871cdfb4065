// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `transcript`: lists or runs the checks, each in a child of its own with a time limit,
 * and prints one line for each. It owns the runner only; the checks are in the files named
 * by topic.
 *
 *   transcript            all checks      transcript --list   their names
 *   transcript NAME...    the named checks or topics
 *   transcript --by FILE ...  each check is executed by that file, which is this program again
 */
#include "check.h"
#include <ftw.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define LIMIT_SECONDS 20
#define LINE_BYTES 4096
#define WORK_DIRECTORY "/tmp/transcript-work"
#define WALK_DEPTH 16

extern const struct check __start_checks[], __stop_checks[];
const char *self_path;

static int by_name(const void *left, const void *right)
{
	return strcmp(((const struct check *)left)->name, ((const struct check *)right)->name);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
	(void)info;
	(void)kind;
	if (walk->level > 0)
		remove(path);
	return 0;
}

static void clean_work_directory(void)
{
	mkdir("/tmp", 01777);
	mkdir(WORK_DIRECTORY, 0777);
	nftw(WORK_DIRECTORY, remove_entry, WALK_DEPTH, FTW_DEPTH | FTW_PHYS);
}

/*
 * In the child: a known state whatever the runner was started with; the line goes to standard
 * output.
 */
static void become_check(const struct check *check, int line)
{
	sigset_t none;
	struct rlimit no_core = { 0, 0 };
	int null = open("/dev/null", O_RDWR);

	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setrlimit(RLIMIT_CORE, &no_core);
	dup2(null < 0 ? line : null, STDIN_FILENO);
	dup2(null < 0 ? line : null, STDERR_FILENO);
	dup2(line, STDOUT_FILENO);
	closefrom(STDERR_FILENO + 1);
	if (chdir(WORK_DIRECTORY))
		say("no working directory");
	umask(022);
	check->run();
	_exit(0);
}

/* The program that each check executes, which is this one by another name, or NULL. */
static const char *program;

/* Executes the program for a check; main() has the other end. */
static void execute_check(const struct check *check, int line)
{
	char number[16];

	snprintf(number, sizeof number, "%d", line);
	fcntl(line, F_SETFD, 0);
	execl(program, program, "--check", number, check->name, NULL);
	_exit(EXIT_FAILURE);
}

/* Waits for the child; false when the limit passed and it had to be killed. */
static bool await_check(pid_t pid, int *status)
{
	struct timespec limit = { LIMIT_SECONDS, 0 };
	int64_t end = now_ns() + (int64_t)LIMIT_SECONDS * 1000 * MILLISECOND;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (waitpid(pid, status, WNOHANG) != pid) {
		if (now_ns() >= end) {
			kill(pid, SIGKILL);
			waitpid(pid, status, 0);
			return false;
		}
		sigtimedwait(&child, NULL, &limit);
	}
	return true;
}

/* Ends what a check left running: its process group and the orphans that came to the runner. */
static void kill_leftovers(pid_t group)
{
	kill(-group, SIGKILL);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void print_line(const struct check *check, int line, const char *end)
{
	char text[LINE_BYTES];
	struct pollfd ready = { line, POLLIN, 0 };
	ssize_t length = 0;

	if (poll(&ready, 1, 0) > 0)
		length = read(line, text, sizeof text);
	printf("%s:%.*s%s\n", check->name, length > 0 ? (int)length : 0, text, end);
	fflush(stdout);
}

static void run_check(const struct check *check)
{
	char end[64] = "";
	int line[2], status = 0;
	pid_t pid;

	clean_work_directory();
	if (pipe2(line, O_CLOEXEC)) {
		printf("%s: the runner has no pipe\n", check->name);
		return;
	}
	pid = fork();
	if (pid == 0) {
		if (program)
			execute_check(check, line[1]);
		become_check(check, line[1]);
	}
	if (!await_check(pid, &status))
		strcpy(end, " timed out");
	else if (WIFSIGNALED(status))
		snprintf(end, sizeof end, " killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(end, sizeof end, " exit status %d", WEXITSTATUS(status));
	kill_leftovers(pid);
	print_line(check, line[0], end);
	close(line[0]);
	close(line[1]);
}

/* A name selects the check of that name, or all checks of the topic of that name. */
static bool selected(const struct check *check, int names, char **name)
{
	if (names == 0)
		return true;
	for (int i = 0; i < names; i++) {
		size_t length = strlen(name[i]);

		if (!strncmp(check->name, name[i], length) &&
		    (check->name[length] == 0 || check->name[length] == '.'))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	size_t count = __stop_checks - __start_checks;
	bool list = argc > 1 && !strcmp(argv[1], "--list");
	struct check *checks = calloc(count, sizeof *checks);
	int found = 0;
	sigset_t child;

	self_path = "/proc/self/exe";
	if (argc > 2 && !strcmp(argv[1], "--as"))
		return play_part(argc - 2, argv + 2);
	if (argc == 4 && !strcmp(argv[1], "--check")) {
		for (size_t i = 0; i < count; i++)
			if (!strcmp(__start_checks[i].name, argv[3]))
				become_check(&__start_checks[i], atoi(argv[2]));
		return EXIT_FAILURE;
	}
	if (argc > 2 && !strcmp(argv[1], "--by")) {
		program = argv[2];
		argv += 2;
		argc -= 2;
	}
	memcpy(checks, __start_checks, count * sizeof *checks);
	qsort(checks, count, sizeof *checks, by_name);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (size_t i = 0; i < count; i++) {
		if (list) {
			puts(checks[i].name);
		} else if (selected(&checks[i], argc - 1, argv + 1)) {
			run_check(&checks[i]);
			found++;
		}
	}
	if (!list && !found) {
		fprintf(stderr, "transcript: no check of this name; see --list\n");
		return 2;
	}
	return 0;
}
