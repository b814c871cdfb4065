// SPDX-License-Identifier: GPL-2.0-only
/* Linux's scheduler as programs see it: priorities, policies, affinity, the order of running. */
#include "check.h"
#include <sys/resource.h>

static void pin_to_first_processor(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	must("pin", sched_setaffinity(0, sizeof set, &set) == 0);
}

CHECK(scheduling, nice)
{
	say_value("start", getpriority(PRIO_PROCESS, 0));
	say_value("nice", nice(7));
	say_result("set", setpriority(PRIO_PROCESS, 0, -5));
	say_value("get", getpriority(PRIO_PROCESS, 0));
	setpriority(PRIO_PROCESS, 0, 100);
	say_value("clamped", getpriority(PRIO_PROCESS, 0));
	say_result("bad", setpriority(99, 0, 0));
	say_result("nobody", setpriority(PRIO_PROCESS, 999999, 0));
}

CHECK(scheduling, policies)
{
	struct sched_param param = { 10 };
	struct timespec slice;

	say_result("fifo", sched_setscheduler(0, SCHED_FIFO, &param));
	say_value("policy", sched_getscheduler(0));
	param.sched_priority = 0;
	say_result("zero", sched_setscheduler(0, SCHED_FIFO, &param));
	param.sched_priority = 100;
	say_result("hundred", sched_setscheduler(0, SCHED_RR, &param));
	param.sched_priority = 5;
	say_result("rr", sched_setscheduler(0, SCHED_RR, &param));
	say_result("interval", sched_rr_get_interval(0, &slice));
	say("slice_ms=%ld", slice.tv_nsec / MILLISECOND);
	say("min=%d max=%d", sched_get_priority_min(SCHED_FIFO), sched_get_priority_max(SCHED_RR));
	param.sched_priority = 0;
	say_result("other", sched_setscheduler(0, SCHED_OTHER, &param));
	say_result("idle", sched_setscheduler(0, SCHED_IDLE, &param));
	say_result("unknown", sched_setscheduler(0, 77, &param));
}

CHECK(scheduling, policy_is_inherited)
{
	struct sched_param param = { 3 };
	pid_t pid;

	must("set", sched_setscheduler(0, SCHED_FIFO, &param) == 0);
	pid = spawn();
	if (!pid)
		_exit(sched_getscheduler(0));
	say_child("kept", pid);
	must("set", sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0);
	pid = spawn();
	if (!pid)
		_exit(sched_getscheduler(0));
	say_child("reset", pid);
}

CHECK(scheduling, without_privilege)
{
	struct sched_param param = { 1 };

	must("setuid", setuid(1000) == 0);
	say_result("fifo", sched_setscheduler(0, SCHED_FIFO, &param));
	say_result("negative", setpriority(PRIO_PROCESS, 0, -1));
	say_result("positive", setpriority(PRIO_PROCESS, 0, 3));
	say_result("back", setpriority(PRIO_PROCESS, 0, 0));
}

CHECK(scheduling, affinity)
{
	cpu_set_t set;

	say_result("get", sched_getaffinity(0, sizeof set, &set));
	say_bool("first", CPU_ISSET(0, &set));
	CPU_ZERO(&set);
	say_result("empty", sched_setaffinity(0, sizeof set, &set));
	CPU_SET(0, &set);
	say_result("first_only", sched_setaffinity(0, sizeof set, &set));
	say("processor=%d", sched_getcpu());
	say_result("small", syscall(SYS_sched_getaffinity, 0, 1, &set));
}

CHECK(scheduling, fifo_runs_before_others)
{
	struct sched_param high = { 20 };
	volatile int *word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ends[2];
	char byte;
	pid_t pid;

	pin_to_first_processor();
	must("pipe", pipe(ends) == 0);
	pid = spawn();
	if (!pid) {
		sched_setscheduler(0, SCHED_FIFO, &high);
		must("wait", read(ends[0], &byte, 1) == 1);
		*word = 1;
		_exit(0);
	}
	must("sleep", await_state(pid, 'S'));
	must("wake", write(ends[1], "x", 1) == 1);
	say("ran_at_once=%d", *word);
	say_child("child", pid);
}

CHECK(scheduling, fifo_starves_others)
{
	struct sched_param high = { 20 };
	volatile long *word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t end;
	long before;
	pid_t pid;

	pin_to_first_processor();
	pid = spawn();
	if (!pid)
		for (;;)
			++*word;
	while (!*word)
		sleep_ms(1);
	must("set", sched_setscheduler(0, SCHED_FIFO, &high) == 0);
	before = *word;
	for (end = now_ns() + 50 * MILLISECOND; now_ns() < end;)
		;
	say_bool("starved", *word == before);
	kill(pid, SIGKILL);
	say_child("child", pid);
}

CHECK(scheduling, others_share)
{
	volatile long *words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[3];
	int ran = 0;

	pin_to_first_processor();
	for (int i = 0; i < 3; i++) {
		pids[i] = spawn();
		if (!pids[i])
			for (;;)
				++words[i];
	}
	sleep_ms(400);
	for (int i = 0; i < 3; i++)
		ran += words[i] > 0;
	say("ran=%d", ran);
	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGKILL);
		say_child("child", pids[i]);
	}
}

CHECK(scheduling, nice_gives_less)
{
	volatile long *words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[2];

	pin_to_first_processor();
	for (int i = 0; i < 2; i++) {
		pids[i] = spawn();
		if (!pids[i]) {
			setpriority(PRIO_PROCESS, 0, i ? 19 : 0);
			for (;;)
				++words[i];
		}
	}
	sleep_ms(800);
	say_bool("less", words[1] * 3 < words[0]);
	for (int i = 0; i < 2; i++)
		kill(pids[i], SIGKILL);
}

CHECK(scheduling, yield)
{
	int failures = 0;

	for (int i = 0; i < 1000; i++)
		failures += sched_yield() != 0;
	say("failures=%d", failures);
}

CHECK(scheduling, preempts_spinning_child_for_timer)
{
	int64_t late = 0;
	pid_t pid = spawn();

	if (!pid)
		for (;;)
			__asm__ volatile("");
	for (int i = 0; i < 20; i++) {
		int64_t start = now_ns();

		sleep_ms(5);
		late += now_ns() - start > 2000 * MILLISECOND;
	}
	say("late=%d", (int)late);
	kill(pid, SIGKILL);
}
