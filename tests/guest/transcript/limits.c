// SPDX-License-Identifier: GPL-2.0-only
/* Resource limits and accounting. */
#include "check.h"
#include <sys/resource.h>
#include <sys/time.h>

CHECK(limits, descriptors)
{
	struct rlimit limit = { 20, 20 };
	int opened = 0;

	say_result("set", setrlimit(RLIMIT_NOFILE, &limit));
	while (open("/dev/null", O_RDONLY) >= 0)
		opened++;
	say("opened=%d then=%s", opened, errno_name(errno));
	say_value("dup2", dup2(0, 20));
	limit.rlim_cur = 30;
	say_result("above_hard", setrlimit(RLIMIT_NOFILE, &limit));
}

CHECK(limits, processes)
{
	struct rlimit limit = { 2, 2 };
	pid_t pid;

	must("setuid", setuid(4321) == 0);
	say_result("set", setrlimit(RLIMIT_NPROC, &limit));
	pid = fork();
	if (!pid) {
		say_value("second", fork());
		_exit(0);
	}
	say_child("first", pid);
}

CHECK(limits, processor_time)
{
	struct rlimit limit = { 1, 3 };
	pid_t pid = spawn();

	if (!pid) {
		setrlimit(RLIMIT_CPU, &limit);
		for (;;)
			__asm__ volatile("");
	}
	say_child("child", pid);
}

CHECK(limits, data_and_locked)
{
	struct rlimit limit = { 0, 0 };

	say_result("data", setrlimit(RLIMIT_DATA, &limit));
	say_result("map", (long)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	say_result("locked", setrlimit(RLIMIT_MEMLOCK, &limit));
	must("setuid", setuid(4322) == 0);
	say_result("mlock", mlock(&limit, 1));
}

CHECK(limits, of_other_process)
{
	struct rlimit old, limit = { 64, 128 };
	pid_t pid = spawn();

	if (!pid) {
		for (;;) {
			getrlimit(RLIMIT_NOFILE, &limit);
			if (limit.rlim_cur == 64)
				_exit(64);
			sleep_ms(1);
		}
	}
	say_result("prlimit", prlimit(pid, RLIMIT_NOFILE, &limit, &old));
	say_child("child", pid);
	say_result("bad_resource", prlimit(0, 99, NULL, &old));
	say_result("bad_order", prlimit(0, RLIMIT_NOFILE, &(struct rlimit){ 5, 4 }, NULL));
	say_result("bad_pointer", syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, 8));
}

CHECK(limits, faults_are_counted)
{
	struct rusage before, after;
	char *memory = map_pages(300);

	getrusage(RUSAGE_SELF, &before);
	for (size_t i = 0; i < 300; i++)
		memory[i * PAGE] = 1;
	getrusage(RUSAGE_SELF, &after);
	say_bool("minor", after.ru_minflt - before.ru_minflt >= 300 && after.ru_minflt - before.ru_minflt < 400);
	say("major=%ld", after.ru_majflt - before.ru_majflt);
}

CHECK(limits, switches_are_counted)
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	/* Long enough not to expire on a busy host before the sleep has begun. */
	for (int i = 0; i < 10; i++)
		sleep_ms(50);
	getrusage(RUSAGE_SELF, &after);
	say_bool("voluntary", after.ru_nvcsw - before.ru_nvcsw >= 10);
	say_bool("thread", getrusage(RUSAGE_THREAD, &after) == 0);
}
