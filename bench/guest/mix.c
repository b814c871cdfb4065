// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several users at once, similar to AIM's multiuser benchmark. Each user is a process that does all
 * kinds of tasks once, in its own order. Each kind takes native Linux about 650,000 instructions;
 * five of the twelve hardly enter the kernel.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PROGRAM "/bin/true"
#define CHUNK (16 << 10)
#define MATRIX 44
#define NAME_SIZE 64

/* A linear congruential generator (Knuth, volume 2, section 3.3.4: MMIX's). */
#define MULTIPLIER UINT64_C(6364136223846793005)
#define INCREMENT UINT64_C(1442695040888963407)

static volatile uint64_t result;
static char chunk[CHUNK];

static uint64_t next_random(uint64_t *state)
{
	*state = *state * MULTIPLIER + INCREMENT;
	return *state >> 33;
}

static void work_integers(void)
{
	uint64_t value = 1;

	for (int i = 1; i < 41000; i++)
		value = (value * 31 + i) / (i & 7 ? 3 : 5);
	result = value;
}

static void work_matrices(void)
{
	static double a[MATRIX][MATRIX], b[MATRIX][MATRIX], c[MATRIX][MATRIX];

	for (int i = 0; i < MATRIX; i++)
		for (int j = 0; j < MATRIX; j++)
			a[i][j] = b[j][i] = i + j;
	for (int i = 0; i < MATRIX; i++)
		for (int j = 0; j < MATRIX; j++)
			for (int k = 0; k < MATRIX; k++)
				c[i][j] += a[i][k] * b[k][j];
	result = c[1][1];
}

static int by_value(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static void work_sort(void)
{
	static uint32_t values[2000];
	uint64_t state = 1;

	for (size_t i = 0; i < COUNT(values); i++)
		values[i] = next_random(&state);
	qsort(values, COUNT(values), sizeof(values[0]), by_value);
	result = values[0];
}

static void work_sieve(void)
{
	static char composite[26000];
	uint64_t primes = 0;

	memset(composite, 0, sizeof composite);
	for (size_t i = 2; i < sizeof composite; i++) {
		primes += !composite[i];
		for (size_t j = i * i; !composite[i] && j < sizeof composite; j += i)
			composite[j] = 1;
	}
	result = primes;
}

static void work_text(void)
{
	char text[NAME_SIZE];
	uint64_t sum = 0;

	for (int i = 0; i < 410; i++) {
		snprintf(text, sizeof text, "user %d has %s in line %d", i, "words", i * 7);
		sum += strtoul(strrchr(text, ' ') + 1, NULL, 10);
	}
	result = sum;
}

static void must(int good, const char *what)
{
	if (!good)
		fail(what);
}

/* A file name that only this process uses. */
static void name_file(char *name, const char *kind)
{
	snprintf(name, NAME_SIZE, "bench.%s.%d", kind, getpid());
}

/* Writes a file and reads it again, some 64 KB each time. */
static void work_file(void)
{
	char name[NAME_SIZE];
	int file;

	name_file(name, "file");
	file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(file >= 0, name);
	for (int round = 0; round < 13; round++) {
		lseek(file, 0, SEEK_SET);
		for (int i = 0; i < 4; i++)
			must(write(file, chunk, CHUNK) == CHUNK, "write");
		lseek(file, 0, SEEK_SET);
		for (int i = 0; i < 4; i++)
			must(read(file, chunk, CHUNK) == CHUNK, "read");
	}
	close(file);
	unlink(name);
}

/* Makes a directory with files, reads it, and removes all. */
static void work_directory(void)
{
	char directory[NAME_SIZE], name[2 * NAME_SIZE];
	struct dirent *entry;
	struct stat about;
	DIR *listing;

	name_file(directory, "directory");
	must(!mkdir(directory, 0700), "mkdir");
	for (int i = 0; i < 45; i++) {
		snprintf(name, sizeof name, "%s/%d", directory, i);
		close(open(name, O_WRONLY | O_CREAT, 0600));
	}
	listing = opendir(directory);
	must(listing != NULL, "opendir");
	while ((entry = readdir(listing)))
		if (entry->d_name[0] != '.') {
			snprintf(name, sizeof name, "%s/%.20s", directory, entry->d_name);
			must(!stat(name, &about) && !unlink(name), name);
		}
	closedir(listing);
	must(!rmdir(directory), "rmdir");
}

/* A child sends data through a pair of descriptors, and this process receives it. */
static void transfer(const int ends[2], int rounds)
{
	pid_t child = fork();

	must(child >= 0, "fork");
	if (child == 0) {
		for (int i = 0; i < rounds; i++)
			must(write(ends[1], chunk, CHUNK / 4) == CHUNK / 4, "write");
		_exit(0);
	}
	for (long left = (long)rounds * CHUNK / 4; left > 0;) {
		long got = read(ends[0], chunk, CHUNK);

		must(got > 0, "read");
		left -= got;
	}
	close(ends[0]);
	close(ends[1]);
	must(waitpid(child, NULL, 0) == child, "waitpid");
}

static void work_pipe(void)
{
	int ends[2];

	must(!pipe(ends), "pipe");
	transfer(ends, 80);
}

static void work_socket(void)
{
	int ends[2];

	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	transfer(ends, 63);
}

static void work_pages(void)
{
	for (int round = 0; round < 3; round++) {
		char *memory = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		must(memory != MAP_FAILED, "mmap");
		for (int page = 0; page < 64; page++)
			memory[page * PAGE] = 1;
		munmap(memory, 64 * PAGE);
	}
}

static void work_forks(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		must(waitpid(child, NULL, 0) == child, "fork");
	}
}

static void work_program(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		execl(PROGRAM, PROGRAM, NULL);
		_exit(127);
	}
	must(waitpid(child, &status, 0) == child && !status, PROGRAM);
}

static void (*const tasks[])(void) = {
	work_integers, work_matrices, work_sort, work_sieve, work_text, work_file,
	work_directory, work_pipe, work_socket, work_pages, work_forks, work_program,
};

/* All tasks once, in a different order for each user. */
static void be_user(long number)
{
	unsigned int order[COUNT(tasks)];
	uint64_t state = number;

	for (unsigned int i = 0; i < COUNT(tasks); i++) {
		unsigned int other = next_random(&state) % (i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (unsigned int i = 0; i < COUNT(tasks); i++)
		tasks[order[i]]();
}

static void run_users(long count)
{
	for (long number = 0; number < count; number++) {
		pid_t child = fork();

		must(child >= 0, "fork");
		if (child == 0) {
			be_user(number);
			_exit(0);
		}
	}
	for (long left = count; left > 0; left--) {
		int status;

		must(wait(&status) > 0 && !status, "a user");
	}
}

/* The iterations are users that run at once, so the figure is that of one user's job. */
static const struct row rows[] = {
	{ "job-of-1-user", 1, NULL, NULL, run_users, NULL },
	{ "job-of-4-users", 4, NULL, NULL, run_users, NULL },
	{ "job-of-16-users", 16, NULL, NULL, run_users, NULL },
	{ "job-of-32-users", 32, NULL, NULL, run_users, NULL },
	{ "job-of-64-users", 64, NULL, NULL, run_users, NULL },
};
const struct rows mix_rows = { rows, COUNT(rows) };
