// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads each clock again and again, by each way that there is to it: the system call, the vDSO
 * itself, the C library; and the processor's counter.
 *
 *   times COUNT LIMIT_US
 *
 * For each clock and way, and for all ways in turn, prints how often a reading was before the one
 * before it, and how often it was later by more than LIMIT_US, or for a coarse clock by more than
 * that beyond a tick. With a third argument also the largest step in microseconds.
 *
 *   times early COUNT
 *
 * Waits by each kind of timer, and prints how often the clock had not reached the end of the wait.
 */
#include <elf.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define MICROSECOND_NS INT64_C(1000)

/* The vDSO's functions, or NULL. */
static int (*vdso_gettime)(clockid_t, struct timespec *);
static int (*vdso_gettimeofday)(struct timeval *, void *);
static time_t (*vdso_time)(time_t *);

static int64_t of_timespec(const struct timespec *t)
{
	return t->tv_sec * SECOND_NS + t->tv_nsec;
}

static int64_t of_timeval(const struct timeval *t)
{
	return t->tv_sec * SECOND_NS + t->tv_usec * MICROSECOND_NS;
}

enum way { BY_CALL, BY_VDSO, BY_LIBRARY, WAYS };
static const char *const way_names[WAYS + 1] = { "call", "vdso", "library", "all" };

static int64_t read_gettime(clockid_t clock, enum way way)
{
	struct timespec now = { 0, 0 };

	if (way == BY_CALL)
		syscall(SYS_clock_gettime, clock, &now);
	else if (way == BY_VDSO)
		vdso_gettime(clock, &now);
	else
		clock_gettime(clock, &now);
	return of_timespec(&now);
}

static int64_t read_timeofday(clockid_t unused, enum way way)
{
	struct timeval now = { 0, 0 };

	(void)unused;
	if (way == BY_CALL)
		syscall(SYS_gettimeofday, &now, NULL);
	else if (way == BY_VDSO)
		vdso_gettimeofday(&now, NULL);
	else
		gettimeofday(&now, NULL);
	return of_timeval(&now);
}

static int64_t read_time(clockid_t unused, enum way way)
{
	(void)unused;
	return SECOND_NS * (way == BY_CALL ? (time_t)syscall(SYS_time, NULL) : way == BY_VDSO ? vdso_time(NULL) : time(NULL));
}

static double ticks_per_ns;

static int64_t read_counter(clockid_t unused, enum way unused_too)
{
	(void)unused;
	(void)unused_too;
	return (int64_t)(__builtin_ia32_rdtsc() / ticks_per_ns);
}

/* What is read, and by how much it may step besides the limit. */
static const struct clock {
	const char *name;
	int64_t (*read)(clockid_t clock, enum way way);
	clockid_t id;
	int64_t step_ns;
} clocks[] = {
	{ "realtime", read_gettime, CLOCK_REALTIME, 0 },
	{ "monotonic", read_gettime, CLOCK_MONOTONIC, 0 },
	{ "boottime", read_gettime, CLOCK_BOOTTIME, 0 },
	{ "raw", read_gettime, CLOCK_MONOTONIC_RAW, 0 },
	{ "tai", read_gettime, CLOCK_TAI, 0 },
	{ "realtime_coarse", read_gettime, CLOCK_REALTIME_COARSE, 4000 * MICROSECOND_NS },
	{ "monotonic_coarse", read_gettime, CLOCK_MONOTONIC_COARSE, 4000 * MICROSECOND_NS },
	{ "gettimeofday", read_timeofday, 0, MICROSECOND_NS },
	{ "time", read_time, 0, SECOND_NS },
	{ "counter", read_counter, 0, 0 },
};

/* The steps of one clock, read by one way or, for WAYS, by all in turn. */
static void read_on(const struct clock *clock, enum way way, long count, int64_t limit_ns, bool verbose)
{
	int64_t last = clock->read(clock->id, way % WAYS), step, largest = 0;
	long back = 0, far = 0;

	for (long i = 1; i < count; i++) {
		int64_t now = clock->read(clock->id, way == WAYS ? i % WAYS : way);

		step = now - last;
		back += step < 0;
		far += step > limit_ns + clock->step_ns;
		largest = step > largest ? step : largest;
		last = now;
	}
	printf("%s %s back %ld far %ld", clock->name, way_names[way], back, far);
	if (verbose)
		printf(" largest %ld", (long)(largest / MICROSECOND_NS));
	printf("\n");
}

/* An address of the vDSO, whose segments are where its image has them. */
static void *vdso_symbol(uintptr_t image, const char *name)
{
	const ElfW(Ehdr) *header = (void *)image;
	const ElfW(Shdr) *sections = (void *)(image + header->e_shoff);

	for (int i = 0; i < header->e_shnum; i++) {
		const ElfW(Sym) *symbols = (void *)(image + sections[i].sh_offset);
		const char *names = (void *)(image + sections[sections[i].sh_link].sh_offset);

		if (sections[i].sh_type != SHT_DYNSYM)
			continue;
		for (size_t n = 0; n < sections[i].sh_size / sizeof(*symbols); n++)
			if (!strcmp(names + symbols[n].st_name, name))
				return (void *)(image + symbols[n].st_value);
	}
	fprintf(stderr, "no %s in the vDSO\n", name);
	exit(1);
}

/* The counter's rate, by the clock. */
static void measure_counter(void)
{
	const struct timespec pause = { 0, SECOND_NS / 50 };
	int64_t began = read_gettime(CLOCK_MONOTONIC_RAW, BY_CALL), ended;
	uint64_t first = __builtin_ia32_rdtsc();

	nanosleep(&pause, NULL);
	ended = read_gettime(CLOCK_MONOTONIC_RAW, BY_CALL);
	ticks_per_ns = (double)(__builtin_ia32_rdtsc() - first) / (ended - began);
}

/* Waits of some microseconds, by each kind of timer. SIGALRM and SIGUSR1 are blocked. */
static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){ ns / SECOND_NS, ns % SECOND_NS };
}

static void wait_for_signal(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	sigwaitinfo(&set, NULL);
}

static void by_nanosleep(int64_t ns)
{
	nanosleep(&(struct timespec){ 0, ns }, NULL);
}

static void until_realtime(int64_t ns)
{
	struct timespec end = timespec_of(read_gettime(CLOCK_REALTIME, BY_CALL) + ns);

	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &end, NULL);
}

static void by_itimer(int64_t ns)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, (ns + MICROSECOND_NS - 1) / MICROSECOND_NS } }, NULL);
	wait_for_signal(SIGALRM);
}

static void by_posix_timer(int64_t ns)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	static timer_t timer;

	if (!timer && timer_create(CLOCK_MONOTONIC, &event, &timer))
		exit(2);
	timer_settime(timer, 0, &(struct itimerspec){ { 0, 0 }, { 0, ns } }, NULL);
	wait_for_signal(SIGUSR1);
}

static void by_timerfd(int64_t ns)
{
	static int fd = -1;
	uint64_t count;

	if (fd < 0)
		fd = timerfd_create(CLOCK_BOOTTIME, 0);
	timerfd_settime(fd, 0, &(struct itimerspec){ { 0, 0 }, { 0, ns } }, NULL);
	if (read(fd, &count, sizeof count) != sizeof count)
		exit(2);
}

static void by_poll(int64_t ns)
{
	ppoll(NULL, 0, &(struct timespec){ 0, ns }, NULL);
}

static void by_futex(int64_t ns)
{
	static int word;

	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){ 0, ns }, NULL, 0);
}

static void by_alarm(int64_t unused)
{
	(void)unused;
	alarm(1);
	wait_for_signal(SIGALRM);
}

/* The clock is read by the call and by the vDSO in turn: they are one clock. */
static void wait_by(const char *name, void (*wait)(int64_t), clockid_t clock, long count, int64_t all_ns)
{
	long early = 0;

	for (long i = 0; i < count; i++) {
		int64_t ns = all_ns ? all_ns : 1 + i * 7919 * 37 % (3000 * MICROSECOND_NS);
		int64_t began = read_gettime(clock, i & 1 ? BY_CALL : BY_VDSO);

		wait(ns);
		early += read_gettime(clock, i & 2 ? BY_CALL : BY_VDSO) - began < ns;
	}
	printf("%s early %ld\n", name, early);
}

static int wait_early(long count)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	wait_by("nanosleep", by_nanosleep, CLOCK_MONOTONIC, count, 0);
	wait_by("realtime", until_realtime, CLOCK_REALTIME, count, 0);
	wait_by("itimer", by_itimer, CLOCK_MONOTONIC, count, 0);
	wait_by("posix_timer", by_posix_timer, CLOCK_MONOTONIC, count, 0);
	wait_by("timerfd", by_timerfd, CLOCK_BOOTTIME, count, 0);
	wait_by("poll", by_poll, CLOCK_MONOTONIC, count, 0);
	wait_by("futex", by_futex, CLOCK_MONOTONIC, count, 0);
	wait_by("alarm", by_alarm, CLOCK_MONOTONIC, 2, SECOND_NS);
	return 0;
}

int main(int argc, char **argv)
{
	uintptr_t image = getauxval(AT_SYSINFO_EHDR);

	if (argc < 3 || !image)
		return 2;
	vdso_gettime = vdso_symbol(image, "__vdso_clock_gettime");
	vdso_gettimeofday = vdso_symbol(image, "__vdso_gettimeofday");
	vdso_time = vdso_symbol(image, "__vdso_time");
	if (!strcmp(argv[1], "early"))
		return wait_early(atol(argv[2]));
	measure_counter();
	for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
		for (enum way way = 0; way <= (clocks[i].read == read_counter ? BY_CALL : WAYS); way++)
			read_on(&clocks[i], way, atol(argv[1]), atol(argv[2]) * MICROSECOND_NS, argc > 3);
	return 0;
}
