// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `full`: keeps the µ-kernel's account full of mappings in one way, and does everyday
 * work at the same time.
 *
 *   full WAY ROUNDS | full WAY SECONDSs
 *                              one line: how often each kind of work was done right
 *   full dense PAGES ROUNDS    nanoseconds per page touched again after all were unmapped
 *   full apart PAGES ROUNDS    the same for pages that have a page table each and may stay
 *   full filters COUNT         socket filters that stay, beside an account that is full
 *   full crowd                 threads with FPU states until memory is exhausted
 *
 * Each way repeatedly touches more pages than the account has room for (/proc/keel/accounting shows
 * the account). The work begins when everything was touched once, and lasts for the given rounds or
 * guest seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define REGION (2ul << 20) /* the range of one page table */
#define SHARED (16ul << 20)
/*
 * The least account pages for a process with all shared pages mapped: its nodes, 128 per page.
 */
#define SHARED_COST (SHARED / PAGE / 128)
#define THREADS 100
#define THREAD_STACK 65536
#define CROWD 20000
#define FILTERS 32
#define FILTERS_MAX 4096
#define FILTER_STEPS 4096
#define MODULE "keel_probe"

/* Pages of the account. */
static unsigned long limit;
/* Set by a filler, or the last of many, when everything was touched once. */
static int filled[2];

static void fail(const char *what)
{
	fprintf(stderr, "full: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void read_limit(void)
{
	FILE *file = fopen("/proc/keel/accounting", "r");

	if (!file || fscanf(file, "limit %lu", &limit) != 1)
		fail("/proc/keel/accounting");
	fclose(file);
}

/* A child that ends with its parent. */
static pid_t checked_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void say_filled(void)
{
	if (write(filled[1], "x", 1) != 1)
		fail("write");
}

static volatile char *map(unsigned long size, int rights, int flags, int fd)
{
	char *memory = mmap(NULL, size, rights, flags | MAP_NORESERVE, fd, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static void touch(volatile char *memory, unsigned long count, unsigned long stride)
{
	for (unsigned long i = 0; i < count; i++)
		(void)memory[i * stride];
}

/*
 * One page of zeros in each region: each needs a page table, and Linux uses no memory except for
 * its tables.
 */
static volatile char *sparse(unsigned long regions)
{
	volatile char *memory = map(regions * REGION, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	madvise((void *)memory, regions * REGION, MADV_NOHUGEPAGE);
	touch(memory, regions, REGION);
	return memory;
}

static void *fill_sparse(void *unused)
{
	volatile char *memory = sparse(limit);

	say_filled();
	for (;;)
		touch(memory, limit, REGION);
	return unused;
}

/* Many processes with the same pages. */
static void fill_processes(void)
{
	volatile char *memory = map(SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	unsigned long count = limit / SHARED_COST + 1;

	memset((void *)memory, 1, SHARED);
	for (unsigned long i = 0; i < count; i++) {
		if (checked_fork())
			continue;
		touch(memory, SHARED / PAGE, PAGE);
		if (i + 1 == count)
			say_filled();
		for (;;)
			touch(memory, SHARED / PAGE, PAGE);
	}
	pause();
}

static pthread_barrier_t all_there;

/* Each has an FPU state as well. */
static void *run_thread(void *unused)
{
	volatile double value = 1.5;
	volatile char *memory = sparse(limit / THREADS + 1);

	if (pthread_barrier_wait(&all_there) == PTHREAD_BARRIER_SERIAL_THREAD)
		say_filled();
	for (;; value = value * 1.5 + 1)
		touch(memory, limit / THREADS, REGION);
	return unused;
}

static int begin_thread(void *(*run)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK);
	return pthread_create(&thread, &attributes, run, NULL);
}

static void fill_threads(void)
{
	pthread_barrier_init(&all_there, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (begin_thread(run_thread))
			fail("pthread_create");
	pause();
}

/* The first thread ends, and another one continues. */
static void fill_ended(void)
{
	if (begin_thread(fill_sparse))
		fail("pthread_create");
	syscall(SYS_exit, 0);
}

static void fill_alone(void)
{
	fill_sparse(NULL);
}

/* Processes that come and go, each with all small pages of a file. */
static void fill_files(void)
{
	unsigned long count = limit / SHARED_COST + 1, begun = 0;
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600), ends[2];
	volatile char *memory;
	char byte;

	if (fd < 0 || ftruncate(fd, SHARED) || pipe(ends))
		fail("file");
	memory = map(SHARED, PROT_READ, MAP_PRIVATE, fd);
	touch(memory, SHARED / PAGE, PAGE);
	for (;; begun++) {
		if (begun == count)
			say_filled();
		/*
		 * More exist at once than the account has room for. Each ends when it is its turn.
		 */
		if (begun >= count && (write(ends[1], "x", 1) != 1 || wait(NULL) < 0))
			fail("wait");
		if (checked_fork())
			continue;
		touch(memory, SHARED / PAGE, PAGE);
		_exit(read(ends[0], &byte, 1) != 1);
	}
}

static bool ran_well(const char *program, const char *argument)
{
	int status, null;
	pid_t pid = checked_fork();

	if (!pid) {
		null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		execl(program, program, argument, NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static bool run_true(void)
{
	return ran_well("/bin/true", NULL);
}

static bool run_narrow(void)
{
	return ran_well("./transcript32", "--list");
}

/* A child changes its own copy of some memory. */
static bool run_fork(void)
{
	static volatile char memory[16 * PAGE];
	int status;
	pid_t pid;

	memset((void *)memory, 1, sizeof memory);
	pid = checked_fork();
	if (!pid) {
		memset((void *)memory, 2, sizeof memory);
		_exit(memory[5 * PAGE]);
	}
	return waitpid(pid, &status, 0) == pid && status == 2 << 8 && memory[5 * PAGE] == 1;
}

static unsigned int filters_kept = FILTERS;

/*
 * A socket filter of 32 KB, which Linux keeps in pages that it maps for itself. The last filters
 * are kept.
 */
static bool attach_filter(void)
{
	static struct sock_filter steps[FILTER_STEPS];
	static int sockets[FILTERS_MAX];
	static unsigned int next;
	struct sock_fprog program = { .len = FILTER_STEPS, .filter = steps };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	for (int i = 0; i < FILTER_STEPS; i++)
		steps[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xffff);
	if (fd < 0)
		return false;
	if (sockets[next])
		close(sockets[next]);
	sockets[next] = fd;
	next = (next + 1) % filters_kept;
	return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static bool load_module(void)
{
	int fd = open(MODULE ".ko", O_RDONLY | O_CLOEXEC);
	bool good;

	if (fd < 0)
		return false;
	good = !syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	return good && !syscall(SYS_delete_module, MODULE, O_NONBLOCK);
}

static const struct {
	const char *name;
	bool (*run)(void);
} works[] = { { "true", run_true },
	      { "32-bit", run_narrow },
	      { "fork", run_fork },
	      { "filter", attach_filter },
	      { "module", load_module } };

#define WORKS (sizeof works / sizeof works[0])

static long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000l + time.tv_nsec;
}

static void work(const char *way, const char *how_long)
{
	long amount = atol(how_long), good[WORKS] = { 0 }, rounds = 0, start = now_ns();
	bool timed = how_long[strlen(how_long) - 1] == 's';

	for (; timed ? now_ns() - start < amount * 1000000000l : rounds < amount; rounds++)
		for (size_t i = 0; i < WORKS; i++)
			good[i] += works[i].run();
	printf("%s:", way);
	for (size_t i = 0; i < WORKS; i++)
		if (timed)
			printf(" %s %s", works[i].name, good[i] == rounds && rounds ? "right" : "wrong");
		else
			printf(" %s %ld", works[i].name, good[i]);
	printf("\n");
}

static void print_touches(volatile char *memory, long count, unsigned long stride, long rounds)
{
	long best = -1, time;

	for (long i = 0; i < rounds; i++) {
		if (stride == PAGE)
			read_limit(); /* unmaps all */
		time = now_ns();
		touch(memory, count, stride);
		time = now_ns() - time;
		best = best < 0 || time < best ? time : best;
	}
	printf("%ld\n", best / count);
}

static void touch_dense(long pages, long rounds)
{
	volatile char *memory = map(pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	madvise((void *)memory, pages * PAGE, MADV_NOHUGEPAGE);
	memset((void *)memory, 1, pages * PAGE);
	print_touches(memory, pages, PAGE, rounds);
}

static void touch_apart(long pages, long rounds)
{
	print_touches(sparse(pages), pages, REGION, rounds);
}

/*
 * Fills the account and leaves it full, so that Linux must reclaim memory of mappings to map pages
 * for itself.
 */
static void keep_filters(unsigned int count)
{
	const struct rlimit files = { FILTERS_MAX + 100, FILTERS_MAX + 100 };
	unsigned int good = 0;
	char byte;

	read_limit();
	if (pipe(filled) || setrlimit(RLIMIT_NOFILE, &files))
		fail("filters");
	if (!checked_fork()) {
		sparse(limit);
		say_filled();
		pause();
	}
	if (read(filled[0], &byte, 1) != 1)
		fail("read");
	filters_kept = FILTERS_MAX;
	for (unsigned int i = 0; i < count; i++)
		good += attach_filter();
	printf("filters %u of %u\n", good, count);
}

static void *wait_with_state(void *unused)
{
	volatile double value = 1.5;

	for (;;) {
		value = value * 1.5;
		pause();
	}
	return unused;
}

static void crowd(void)
{
	int begun = 0;

	while (begun < CROWD && !begin_thread(wait_with_state))
		begun++;
	/*
	 * If there is no memory for a thread's frame, its creation fails. If there is none for a
	 * page, the process is killed.
	 */
	if (begun < CROWD)
		sparse(CROWD);
	printf("there was memory for all of %d\n", begun);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} ways[] = { { "sparse", fill_alone },
		     { "processes", fill_processes },
		     { "threads", fill_threads },
		     { "ended", fill_ended },
		     { "files", fill_files } };
	char byte;
	pid_t pid;

	if (argc == 2 && !strcmp(argv[1], "crowd")) {
		crowd();
		return 0;
	}
	if (argc == 4) {
		(strcmp(argv[1], "dense") ? touch_apart : touch_dense)(atol(argv[2]), atol(argv[3]));
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "filters")) {
		keep_filters(atol(argv[2]));
		return 0;
	}
	for (size_t i = 0; argc == 3 && i < sizeof ways / sizeof ways[0]; i++) {
		if (strcmp(argv[1], ways[i].name))
			continue;
		read_limit();
		if (pipe(filled))
			fail("pipe");
		pid = checked_fork();
		if (!pid) {
			nice(19); /* there may be a hundred of them */
			ways[i].run();
		}
		close(filled[1]);
		if (read(filled[0], &byte, 1) != 1) {
			printf("%s: ended before it had filled the account\n", argv[1]);
			return 1;
		}
		work(argv[1], argv[2]);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return 0;
	}
	fprintf(stderr, "usage: full WAY ROUNDS|SECONDSs | full dense|apart PAGES ROUNDS | full filters COUNT | full crowd\n");
	return 2;
}
