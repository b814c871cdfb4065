// SPDX-License-Identifier: GPL-2.0-only
/*
 * The time of system calls and page faults, by the time-stamp counter. Each row is a line: its name
 * and the figure of each repetition. The same source is measured in ring 0 and in ring 3.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ukl.h"
#include "clock.h"

#define REPETITIONS 5
#define CALLS 2000
#define EXECS 50
/* The argument of a program that ends at once. */
#define ENDS "ends"
#define PAGES 500
#define PAGE 4096
#define STACK_PAGES 300
#define LARGEST 8192

static char buffer[LARGEST];
static int zero, null, sender, receiver;
static struct sockaddr_in address = { .sin_family = AF_INET };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void do_getppid(size_t size)
{
	(void)size;
	getppid();
}

static void do_getpid(size_t size)
{
	(void)size;
	getpid();
}

static void do_read(size_t size)
{
	if (read(zero, buffer, size) != (ssize_t)size)
		fail("read");
}

static void do_write(size_t size)
{
	if (write(null, buffer, size) != (ssize_t)size)
		fail("write");
}

static void do_send_and_receive(size_t size)
{
	if (sendto(sender, buffer, size, 0, (struct sockaddr *)&address, sizeof(address)) != (ssize_t)size)
		fail("sendto");
	if (recvfrom(receiver, buffer, size, 0, NULL, NULL) != (ssize_t)size)
		fail("recvfrom");
}

static void measure_calls(const char *name, size_t size, void (*call)(size_t size))
{
	printf("%s-%zu", name, size);
	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		uint64_t start;

		call(size);
		start = begun();
		for (int i = 0; i < CALLS; i++)
			call(size);
		printf(" %.1f", (double)(ended() - start) / CALLS);
	}
	printf("\n");
}

static void measure_faults(void)
{
	printf("mmap-fault");
	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		uint64_t start;

		if (memory == MAP_FAILED || madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE) < 0)
			fail("mmap");
		start = begun();
		for (int i = 0; i < PAGES; i++)
			((volatile char *)memory)[i * PAGE] = 1;
		printf(" %.1f", (double)(ended() - start) / PAGES);
		munmap(memory, PAGES * PAGE);
	}
	printf("\n");
}

/* Touches the stack's pages below the current one, each for the first time. */
static void measure_stack(void)
{
	uintptr_t next = (uintptr_t)__builtin_frame_address(0) / PAGE * PAGE - PAGE;

	printf("stack-fault");
	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		uint64_t start = begun();

		for (int i = 0; i < STACK_PAGES; i++, next -= PAGE)
			*(volatile char *)next = 1;
		printf(" %.1f", (double)(ended() - start) / STACK_PAGES);
	}
	printf("\n");
}

static void must(int done, const char *what)
{
	if (!done)
		fail(what);
}

/* A byte to a child and back. It is an ordinary process where the program is in the server. */
static void measure_pipe(void)
{
	int there[2], back[2];
	char byte = 0;

	must(pipe(there) == 0 && pipe(back) == 0, "pipe");
	if (fork() == 0) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			must(write(back[1], &byte, 1) == 1, "write");
		_exit(0);
	}
	printf("pipe-round-trip");
	for (int repetition = 0; repetition < REPETITIONS; repetition++) {
		uint64_t start = begun();

		for (int i = 0; i < CALLS; i++)
			must(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1, "pipe");
		printf(" %.1f", (double)(ended() - start) / CALLS);
	}
	printf("\n");
	close(there[1]);
	wait(NULL);
}

/* A child that executes this file, which then ends at once. */
static void measure_exec(void)
{
	fflush(stdout);
	for (int repetition = -1; repetition < REPETITIONS; repetition++) {
		uint64_t start = begun();

		for (int i = 0; i < EXECS; i++) {
			if (fork() == 0) {
				execl("/proc/self/exe", "calls", ENDS, NULL);
				_exit(1);
			}
			wait(NULL);
		}
		if (repetition < 0)
			printf("fork-exec");
		else
			printf(" %.1f", (double)(ended() - start) / EXECS);
		fflush(stdout);
	}
	printf("\n");
}

static void open_all(void)
{
	socklen_t length = sizeof(address);

	zero = open("/dev/zero", O_RDONLY);
	null = open("/dev/null", O_WRONLY);
	sender = socket(AF_INET, SOCK_DGRAM, 0);
	receiver = socket(AF_INET, SOCK_DGRAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (zero < 0 || null < 0 || sender < 0 || receiver < 0 ||
	    bind(receiver, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    getsockname(receiver, (struct sockaddr *)&address, &length) < 0)
		fail("set-up");
}

/* `calls bypass`: with the bypass of entry and exit. */
int main(int argc, char **argv)
{
	static const size_t sizes[] = { 1, 1024, 2048, 4096, LARGEST };

	if (argc > 1 && strcmp(argv[1], ENDS) == 0)
		return 0;
	open_all();
	if (argc > 1 && ukl_bypass(UKL_BYPASS_MOST) < 0)
		fail(argv[1]);
	measure_calls("getpid", 0, do_getpid);
	measure_calls("getppid", 0, do_getppid);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		measure_calls("read", sizes[i], do_read);
		measure_calls("write", sizes[i], do_write);
		measure_calls("sendto-and-recvfrom", sizes[i], do_send_and_receive);
	}
	measure_pipe();
	measure_exec();
	measure_faults();
	measure_stack();
	return 0;
}
