// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's options that an application requests by ukl.h: `asked` prints a line for each, on a
 * machine with one or more processors.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ukl.h"

#define PAGE 4096
#define PAGES 64
#define ALONE_MS 300
#define MOST_MS 20000
#define BYTES 100000
#define MS_US 1000

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* How far another process on this processor counts in this time, or until it counts at all. */
static unsigned long counted(volatile unsigned long *count, long ms, int until)
{
	unsigned long before = *count;
	long end = now_ms() + ms;

	while (now_ms() < end && !(until && *count != before))
		;
	return *count - before;
}

static void run_to_completion(void)
{
	volatile unsigned long *count = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cpu_set_t one;
	pid_t child;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		fail("sched_setaffinity");
	child = fork();
	if (child == 0) {
		for (;;)
			++*count;
	}
	counted(count, MOST_MS, 1);
	if (ukl_run_to_completion(1) < 0)
		fail("ukl_run_to_completion");
	printf("run-to-completion: alone %lu, ", counted(count, ALONE_MS, 0));
	if (ukl_run_to_completion(0) < 0)
		fail("ukl_run_to_completion");
	printf("then %s, ", counted(count, MOST_MS, 1) ? "not" : "alone");
	printf("2 is %s\n", ukl_run_to_completion(2) < 0 && errno == EINVAL ? "refused" : "taken");
	kill(child, SIGKILL);
	wait(NULL);
}

/* Two ends of a connection of TCP. */
static void connect_ends(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int server = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(server, (struct sockaddr *)&address, length) < 0 || listen(server, 1) < 0 ||
	    getsockname(server, (struct sockaddr *)&address, &length) < 0 ||
	    connect(ends[0], (struct sockaddr *)&address, length) < 0)
		fail("connect");
	ends[1] = accept(server, NULL, NULL);
	close(server);
}

static void nothing(int number)
{
	(void)number;
}

/* Bytes of a child that a signal interrupts the wait for. */
static ssize_t interrupted(int ends[2])
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	struct itimerval soon = { { 0, 0 }, { 0, 10 * MS_US } };
	char byte = 0;
	ssize_t got;

	sigaction(SIGALRM, &action, NULL);
	if (fork() == 0) {
		usleep(100 * MS_US);
		_exit(ukl_socket_write(ends[0], "x", 1) != 1);
	}
	setitimer(ITIMER_REAL, &soon, NULL);
	got = ukl_socket_read(ends[1], &byte, 1);
	wait(NULL);
	return byte == 'x' ? got : -1;
}

/* Whether pieces that are sent by one call arrive complete. */
static int pieces(int from, int to)
{
	struct iovec two[] = { { "ab", 2 }, { "cde", 3 } };
	char got[8] = "";
	ssize_t sent = ukl_socket_writev(from, two, 2);

	return ukl_socket_read(to, got, sizeof(got)) == sent && strcmp(got, "abcde") == 0;
}

static const char *refused(int end, const struct iovec *vector, int count)
{
	return ukl_socket_writev(end, vector, count) < 0 ? strerror(errno) : "written";
}

static void sockets(const char *how)
{
	static char sent[BYTES], got[BYTES];
	int ends[2], pipe_ends[2];
	size_t so_far = 0;
	ssize_t more;

	connect_ends(ends);
	if (pipe(pipe_ends) < 0)
		fail("pipe");
	for (size_t i = 0; i < BYTES; i++)
		sent[i] = i * 7;
	if (fork() == 0)
		_exit(ukl_socket_write(ends[0], sent, BYTES) != BYTES);
	while (so_far < BYTES && (more = ukl_socket_read(ends[1], got + so_far, BYTES - so_far)) > 0)
		so_far += more;
	wait(NULL);
	printf("%s: %zu bytes %s, ", how, so_far, memcmp(sent, got, BYTES) == 0 ? "right" : "wrong");
	printf("interrupted %zd, pipe %zd and ", interrupted(ends), ukl_socket_write(pipe_ends[1], "x", 1));
	printf("%zd, ", ukl_socket_read(pipe_ends[0], got, 1));
	printf("pieces %d and %d, ", pieces(ends[0], ends[1]), pieces(pipe_ends[1], pipe_ends[0]));
	printf("%s, %s, ", refused(ends[0], (void *)-1L, 1), refused(ends[0], (void *)got, -1));
	printf("%s, ", ukl_socket_read(-1, got, 1) < 0 ? strerror(errno) : "read");
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	printf("%s, ", ukl_socket_read(ends[1], got, 1) < 0 ? strerror(errno) : "read");
	printf("%s, ", ukl_socket_write(ends[0], (void *)-1L, 1) < 0 ? strerror(errno) : "written");
	printf("none %zd, ", ukl_socket_read(ends[1], got, 0));
	close(ends[0]);
	printf("end %zd, ", ukl_socket_read(ends[1], got, 1));
	signal(SIGPIPE, SIG_IGN);
	ukl_socket_write(ends[1], "x", 1);
	printf("%s\n", ukl_socket_write(ends[1], "x", 1) < 0 ? strerror(errno) : "written");
	close(ends[1]);
}

static void memory(void)
{
	char *there = ukl_alloc(PAGES * PAGE);
	struct rusage before, after;

	if (!there)
		fail("ukl_alloc");
	getrusage(RUSAGE_SELF, &before);
	memset(there, 1, PAGES * PAGE);
	getrusage(RUSAGE_SELF, &after);
	printf("memory: %ld faults, %s\n", after.ru_minflt - before.ru_minflt,
	       ukl_free(there, PAGES * PAGE) == 0 && !ukl_alloc(1UL << 46) ? "given back" : "kept");
}

/* With an argument: what programs in the server on Keel have, too. */
int main(int argc, char **argv)
{
	(void)argv;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc == 1)
		run_to_completion();
	sockets("sockets");
	if (ukl_bypass(UKL_BYPASS_MOST) < 0)
		fail("ukl_bypass");
	sockets("shortcuts");
	memory();
	return 0;
}
