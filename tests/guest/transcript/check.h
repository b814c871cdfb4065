/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a check of the transcript is written: CHECK(topic, name) { ... }, and the functions by which
 * it states what it saw. main.c runs the checks.
 *
 * What a check states must be the same in every run on a correct system: never a process id,
 * an address or a time, but facts about them ("same", "inside", "errno=EFAULT").
 */
#ifndef KEEL_TRANSCRIPT_CHECK_H
#define KEEL_TRANSCRIPT_CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct check {
	const char *name;
	void (*run)(void);
};

/* The linker gathers all checks into one section; main.c sorts them by name. */
#define CHECK(topic, title)                                                      \
	static void topic##_##title(void);                                       \
	static const struct check check_##topic##_##title                        \
		__attribute__((used, section("checks"))) = { #topic "." #title,  \
							     topic##_##title };  \
	static void topic##_##title(void)

#define PAGE 4096UL
#define MILLISECOND 1000000L
/* The registers that a handler edits, by purpose, for both widths. */
#ifdef __x86_64__
#define REG_PLACE REG_RIP
#define REG_RESULT REG_RAX
#else
#define REG_PLACE REG_EIP
#define REG_RESULT REG_EAX
#endif
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Adds one word or phrase to the line of the running check. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds "what=ok", or "what=" and the name of errno where the result is -1. */
void say_result(const char *what, long result);

/* Adds "what=" and the number, or the name of errno where the result is -1. */
void say_value(const char *what, long result);

/* Adds "what=yes" or "what=no". */
void say_bool(const char *what, bool value);

/* The name of an errno value, "0" for none. */
const char *errno_name(int number);

/* Forks and cannot fail: the check ends with a statement if it does. */
pid_t spawn(void);

/* Waits for the child and adds "what=exit:N", "what=signal:N" or the error. */
void say_child(const char *what, pid_t pid);

/* Ends the running check with a statement if a preparation that must work has failed. */
void must(const char *what, bool worked);

/* A file of the given text in the working directory of the check, open for reading and writing. */
int make_file(const char *name, const char *text);

/* Anonymous private memory, readable and writable. */
char *map_pages(size_t pages);

/* Monotonic clock in nanoseconds. */
int64_t now_ns(void);

/* Sleeps for a number of milliseconds, whatever signals arrive. */
void sleep_ms(long milliseconds);

/*
 * Waits until the kernel shows the task as sleeping ('S'), stopped ('T'), ...; false after five
 * seconds.
 */
bool await_state(pid_t pid, char state);

/* Reads a small file such as one of /proc; returns its text in a static buffer, or "". */
const char *slurp(const char *path);

/* The path of this program, to execute it again. */
extern const char *self_path;

/*
 * Faults: after catch_faults(), the handler of SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGTRAP notes
 * what it was given and jumps to fault_return, which the check has set by sigsetjmp(fault_return,
 * 1).
 */
extern sigjmp_buf fault_return;
extern siginfo_t fault_info;
extern ucontext_t fault_context;
extern struct _libc_fpstate fault_fpu;
void catch_faults(void);

/* Adds signal number, code and whether the address is the one that was expected. */
void say_fault(const char *what, const void *expected);

/* Runs the statement and states its fault, or that there was none. */
#define SAY_FAULT_OF(what, expected, statement)           \
	do {                                              \
		if (!sigsetjmp(fault_return, 1)) {        \
			statement;                        \
			say("%s=none", what);             \
		} else {                                  \
			say_fault(what, expected);        \
		}                                         \
	} while (0)

/* A program started as `transcript --as NAME ARGUMENTS...` plays this part and ends. */
int play_part(int argc, char **argv);

#endif
