// SPDX-License-Identifier: GPL-2.0-only
/*
 * The functions of check.h: how checks state what they see, and preparations that many of them
 * share.
 */
#include "check.h"
#include <stdarg.h>

#define SLURP_BYTES 16384
#define STATE_TRIES 5000

sigjmp_buf fault_return;
siginfo_t fault_info;
ucontext_t fault_context;
struct _libc_fpstate fault_fpu;

void say(const char *format, ...)
{
	char text[1024] = " ";
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text + 1, sizeof text - 1, format, arguments) + 1;
	va_end(arguments);
	for (int i = 0; i < length; i++)
		if (text[i] == '\n' || text[i] == '\t')
			text[i] = '|';
	if (write(STDOUT_FILENO, text, length) != length)
		abort();
}

const char *errno_name(int number)
{
	static char unknown[16];
	const char *name = strerrorname_np(number);

	if (name)
		return name;
	snprintf(unknown, sizeof unknown, "%d", number);
	return unknown;
}

void say_result(const char *what, long result)
{
	say("%s=%s", what, result == -1 ? errno_name(errno) : "ok");
}

void say_value(const char *what, long result)
{
	if (result == -1)
		say("%s=%s", what, errno_name(errno));
	else
		say("%s=%ld", what, result);
}

void say_bool(const char *what, bool value)
{
	say("%s=%s", what, value ? "yes" : "no");
}

pid_t spawn(void)
{
	pid_t pid = fork();

	must("fork", pid >= 0);
	return pid;
}

void say_child(const char *what, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		say("%s=wait:%s", what, errno_name(errno));
	else if (WIFSIGNALED(status))
		say("%s=signal:%d", what, WTERMSIG(status));
	else
		say("%s=exit:%d", what, WEXITSTATUS(status));
}

void must(const char *what, bool worked)
{
	if (worked)
		return;
	say("cannot %s: %s", what, errno_name(errno));
	_exit(0);
}

int make_file(const char *name, const char *text)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	must("create a file", fd >= 0);
	must("write a file", write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	must("seek", lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

char *map_pages(size_t pages)
{
	char *start = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must("map memory", start != MAP_FAILED);
	/* Counts of pages and faults shall not depend on where huge pages are used. */
	madvise(start, pages * PAGE, MADV_NOHUGEPAGE);
	return start;
}

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) * MILLISECOND + now.tv_nsec;
}

void sleep_ms(long milliseconds)
{
	struct timespec rest = { milliseconds / 1000, milliseconds % 1000 * MILLISECOND };

	while (nanosleep(&rest, &rest) == -1 && errno == EINTR)
		;
}

bool await_state(pid_t pid, char state)
{
	char path[64];
	const char *end;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	for (int i = 0; i < STATE_TRIES; i++) {
		end = strrchr(slurp(path), ')');
		if (end && end[2] == state)
			return true;
		sleep_ms(1);
	}
	return false;
}

const char *slurp(const char *path)
{
	static char text[SLURP_BYTES];
	size_t length = 0;
	ssize_t part = 0;
	int fd = open(path, O_RDONLY);

	do {
		length += part;
		part = fd < 0 ? 0 : read(fd, text + length, sizeof text - 1 - length);
	} while (part > 0);
	text[length] = 0;
	if (fd >= 0)
		close(fd);
	return text;
}

static void on_fault(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	fault_info = *info;
	fault_context = *(ucontext_t *)context;
	fault_fpu = *fault_context.uc_mcontext.fpregs;
	siglongjmp(fault_return, 1);
}

void catch_faults(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigaction(faults[i], &action, NULL);
}

void say_fault(const char *what, const void *expected)
{
	say("%s=signo:%d,code:%d,address:%s", what, fault_info.si_signo, fault_info.si_code,
	    fault_info.si_addr == expected ? "expected" : "other");
}
