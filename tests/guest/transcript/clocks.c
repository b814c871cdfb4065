// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time: clocks, the vDSO against the system calls, sleeping, POSIX timers. Interval timers are in
 * signals.c.
 */
#include "check.h"
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>

#define SECOND_NS (1000 * (int64_t)MILLISECOND)

static int64_t read_clock(clockid_t clock)
{
	struct timespec now;

	must("clock_gettime", clock_gettime(clock, &now) == 0);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static int64_t ask_kernel(clockid_t clock)
{
	struct timespec now;

	must("clock_gettime", syscall(SYS_clock_gettime, clock, &now) == 0);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

CHECK(clocks, all_clocks_answer)
{
	struct timespec now;

	/* The alarm clocks 8 and 9 exist where the machine has a clock chip that can wake it. */
	for (clockid_t clock = 0; clock < 12; clock++)
		if (clock != CLOCK_REALTIME_ALARM && clock != CLOCK_BOOTTIME_ALARM)
			say_result("clock", clock_gettime(clock, &now));
	say_result("unknown", clock_gettime(99, &now));
	say_result("resolution", clock_getres(CLOCK_MONOTONIC, &now));
	say("resolution=%ld.%ld", (long)now.tv_sec, now.tv_nsec);
	clock_getres(CLOCK_MONOTONIC_COARSE, &now);
	say("coarse=%ld", now.tv_nsec);
}

CHECK(clocks, vdso_agrees_with_kernel)
{
	int disordered = 0;

	for (int i = 0; i < 2000; i++) {
		int64_t first = read_clock(CLOCK_MONOTONIC), second = ask_kernel(CLOCK_MONOTONIC),
			third = read_clock(CLOCK_MONOTONIC);

		disordered += first > second || second > third;
	}
	say("disordered=%d", disordered);
}

CHECK(clocks, monotonic_never_goes_back)
{
	int64_t last = 0;
	int back = 0;

	for (int i = 0; i < 200000; i++) {
		int64_t now = read_clock(CLOCK_MONOTONIC);

		back += now < last;
		last = now;
	}
	say("back=%d", back);
}

CHECK(clocks, realtime_agrees)
{
	struct timeval now;
	int64_t realtime = read_clock(CLOCK_REALTIME);

	gettimeofday(&now, NULL);
	say_bool("gettimeofday", (now.tv_sec * 1000000 + now.tv_usec) * 1000 - realtime < 2 * SECOND_NS);
	say_bool("time", llabs(time(NULL) - realtime / SECOND_NS) <= 2);
	say_bool("coarse", llabs(read_clock(CLOCK_REALTIME_COARSE) - realtime) < 2 * SECOND_NS);
	say_bool("after_2020", realtime / SECOND_NS > 1577836800);
}

CHECK(clocks, sleep_lasts)
{
	static const int milliseconds[] = { 1, 10, 100 };

	for (size_t i = 0; i < ARRAY_SIZE(milliseconds); i++) {
		int64_t start = now_ns(), lasted;

		sleep_ms(milliseconds[i]);
		lasted = now_ns() - start;
		say("%dms=%s", milliseconds[i], lasted < milliseconds[i] * MILLISECOND ? "short" :
		    lasted < 5 * SECOND_NS ? "good" : "long");
	}
}

CHECK(clocks, sleep_until)
{
	struct timespec when;
	int64_t now;

	clock_gettime(CLOCK_MONOTONIC, &when);
	when.tv_nsec += 50 * MILLISECOND;
	if (when.tv_nsec >= SECOND_NS) {
		when.tv_sec++;
		when.tv_nsec -= SECOND_NS;
	}
	say("sleep=%d", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL));
	now = now_ns();
	say_bool("reached", now >= when.tv_sec * SECOND_NS + when.tv_nsec);
	say("past=%d", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){ 1, 0 }, NULL));
	say("bad=%d", clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 0, -1 }, NULL));
	say("cpu_clock=%d", clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &(struct timespec){ 0, 1 }, NULL));
}

CHECK(clocks, processor_time)
{
	int64_t start = read_clock(CLOCK_PROCESS_CPUTIME_ID), spun, slept;

	while ((spun = read_clock(CLOCK_PROCESS_CPUTIME_ID) - start) < 20 * MILLISECOND)
		;
	start = read_clock(CLOCK_PROCESS_CPUTIME_ID);
	sleep_ms(200);
	slept = read_clock(CLOCK_PROCESS_CPUTIME_ID) - start;
	say_bool("spinning_counts", spun >= 20 * MILLISECOND);
	say_bool("sleeping_does_not", slept < 100 * MILLISECOND);
	say_bool("times", times(&(struct tms){ 0 }) != -1);
}

CHECK(clocks, child_time_is_added)
{
	struct tms before, after;
	pid_t pid;

	times(&before);
	pid = spawn();
	if (!pid) {
		int64_t start = read_clock(CLOCK_PROCESS_CPUTIME_ID);

		while (read_clock(CLOCK_PROCESS_CPUTIME_ID) - start < 200 * MILLISECOND)
			;
		_exit(0);
	}
	say_child("child", pid);
	times(&after);
	/* The least of its 20 ticks: on a busy host the guest counts fewer. */
	say_bool("added", after.tms_cutime + after.tms_cstime >= before.tms_cutime + before.tms_cstime + 10);
}

static volatile sig_atomic_t expirations;

static void count_expiration(int signo)
{
	(void)signo;
	expirations++;
}

CHECK(clocks, posix_timer)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec often = { { 0, 5 * MILLISECOND }, { 0, 5 * MILLISECOND } }, left;
	timer_t timer;

	signal(SIGRTMIN, count_expiration);
	say_result("create", timer_create(CLOCK_MONOTONIC, &event, &timer));
	say_result("set", timer_settime(timer, 0, &often, NULL));
	while (expirations < 4)
		pause();
	say_result("get", timer_gettime(timer, &left));
	say_bool("interval", left.it_interval.tv_nsec == 5 * MILLISECOND);
	say_result("delete", timer_delete(timer));
	say_result("again", timer_delete(timer));
}

CHECK(clocks, timer_overrun)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec often = { { 0, MILLISECOND }, { 0, MILLISECOND } };
	timer_t timer;
	sigset_t set;
	siginfo_t info;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	must("create", timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	timer_settime(timer, 0, &often, NULL);
	sleep_ms(50);
	say_bool("signal", sigwaitinfo(&set, &info) == SIGRTMIN);
	say("code=%d", info.si_code);
	say_bool("overrun", timer_getoverrun(timer) >= 20);
}

CHECK(clocks, cpu_time_timer)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec once = { { 0, 0 }, { 0, 20 * MILLISECOND } };
	timer_t timer;

	signal(SIGRTMIN, count_expiration);
	say_result("create", timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer));
	timer_settime(timer, 0, &once, NULL);
	while (!expirations)
		;
	say_bool("time_used", read_clock(CLOCK_PROCESS_CPUTIME_ID) >= 20 * MILLISECOND);
}

CHECK(clocks, set_clock)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	say_result("same_time", clock_settime(CLOCK_REALTIME, &now));
	say_result("monotonic", clock_settime(CLOCK_MONOTONIC, &now));
	now.tv_nsec = -1;
	say_result("bad", clock_settime(CLOCK_REALTIME, &now));
	say_bool("adjtimex", adjtimex(&(struct timex){ 0 }) >= 0);
}

CHECK(clocks, getcpu)
{
	unsigned cpu = 99, node = 99;

	say_result("getcpu", syscall(SYS_getcpu, &cpu, &node, NULL));
	say_bool("vdso_same", sched_getcpu() == (int)cpu || sysconf(_SC_NPROCESSORS_ONLN) > 1);
	say("node=%u", node);
}
