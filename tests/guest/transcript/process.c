// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes: fork, vfork, exit, parents and orphans, names. Waiting is in wait.c, executing in
 * exec.c.
 */
#include "check.h"
#include <sys/prctl.h>
#include <sys/resource.h>

static int global_word = 1;

CHECK(process, fork_copies_memory)
{
	int local = 1;
	char *heap = malloc(PAGE);
	pid_t pid;

	heap[0] = 1;
	pid = spawn();
	if (!pid) {
		local = global_word = heap[0] = 7;
		_exit(local + global_word + heap[0]);
	}
	say_child("child", pid);
	say("parent=%d", local + global_word + heap[0]);
}

CHECK(process, fork_many_pages_cow)
{
	size_t pages = 512;
	unsigned *words = (unsigned *)map_pages(pages), sum = 0;
	pid_t pid;

	for (size_t i = 0; i < pages; i++)
		words[i * PAGE / sizeof *words] = i;
	pid = spawn();
	if (!pid) {
		for (size_t i = 0; i < pages; i += 2)
			words[i * PAGE / sizeof *words] = 0;
		for (size_t i = 0; i < pages; i++)
			sum += words[i * PAGE / sizeof *words];
		_exit(sum == 65536 ? 3 : 4);
	}
	say_child("child", pid);
	for (size_t i = 0; i < pages; i++)
		sum += words[i * PAGE / sizeof *words];
	say("sum=%u", sum);
}

CHECK(process, fork_parent_writes_first)
{
	volatile int word = 1;
	int go[2];
	char byte = 0;
	pid_t pid;

	must("pipe", pipe(go) == 0);
	pid = spawn();
	if (!pid) {
		must("read", read(go[0], &byte, 1) == 1);
		_exit(word);
	}
	word = 9;
	must("write", write(go[1], &byte, 1) == 1);
	say_child("child", pid);
	say("parent=%d", word);
}

CHECK(process, fork_three_generations)
{
	volatile int depth = 0;
	pid_t pid;
	int status;

	while (depth < 3) {
		pid = spawn();
		if (pid) {
			waitpid(pid, &status, 0);
			if (depth)
				_exit(WEXITSTATUS(status) * 2 + depth);
			say("status=%d", WEXITSTATUS(status));
			return;
		}
		depth++;
	}
	_exit(1);
}

CHECK(process, fork_shares_file_offset)
{
	int fd = make_file("offset", "0123456789");
	char text[4] = "";
	pid_t pid = spawn();

	if (!pid)
		_exit(read(fd, text, 3));
	say_child("child", pid);
	must("read", read(fd, text, 3) == 3);
	say("next=%s", text);
}

CHECK(process, fork_storm)
{
	int good = 0, status;

	for (int i = 0; i < 60; i++) {
		pid_t pid = spawn();

		if (!pid)
			_exit(i);
		good += waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == i;
	}
	say("good=%d", good);
}

CHECK(process, forty_at_once)
{
	pid_t pids[40];
	int sum = 0, status;

	for (int i = 0; i < 40; i++) {
		pids[i] = spawn();
		if (!pids[i]) {
			pause();
			_exit(1);
		}
	}
	for (int i = 0; i < 40; i++)
		kill(pids[i], SIGTERM);
	for (int i = 0; i < 40; i++)
		sum += waitpid(pids[i], &status, 0) == pids[i] && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	say("sum=%d", sum);
}

CHECK(process, vfork_shares_memory)
{
	volatile int word = 1;
	pid_t pid = vfork();

	if (!pid) {
		word = 5;
		_exit(2);
	}
	say("word=%d", word);
	say_child("child", pid);
}

CHECK(process, vfork_exec)
{
	pid_t pid = vfork();

	if (!pid) {
		execl(self_path, "transcript", "--as", "exit", "17", NULL);
		_exit(127);
	}
	say_child("child", pid);
}

CHECK(process, exit_status_is_a_byte)
{
	static const int codes[] = { 0, 1, 255, 256, 300, -1 };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		pid_t pid = spawn();

		if (!pid)
			_exit(codes[i]);
		say_child("status", pid);
	}
}

CHECK(process, parent_ids)
{
	pid_t self = getpid(), pid = spawn();

	if (!pid)
		_exit(getppid() == self && getpid() != self ? 1 : 2);
	say_child("child", pid);
	say_bool("gettid_is_getpid", syscall(SYS_gettid) == getpid());
}

CHECK(process, orphan_goes_to_subreaper)
{
	int status;
	pid_t pid, orphan;
	int pipes[2];

	must("pipe", pipe(pipes) == 0);
	say_result("subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1));
	pid = spawn();
	if (!pid) {
		pid_t middle = getpid();

		if (!spawn()) {
			while (getppid() == middle)
				sleep_ms(1);
			orphan = getppid();
			must("write", write(pipes[1], &orphan, sizeof orphan) == sizeof orphan);
			_exit(23);
		}
		_exit(0);
	}
	say_child("middle", pid);
	must("read", read(pipes[0], &orphan, sizeof orphan) == sizeof orphan);
	say_bool("adopted", orphan == getpid());
	pid = wait(&status);
	say("orphan_status=%d", pid > 0 ? WEXITSTATUS(status) : -1);
}

CHECK(process, parent_death_signal)
{
	int ends[2];
	char byte;
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	pid = spawn();
	if (!pid) {
		pid_t middle = getpid();

		if (!spawn()) {
			close(ends[0]);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != middle)
				_exit(0);
			for (;;)
				pause();
		}
		sleep_ms(20);
		_exit(0);
	}
	close(ends[1]);
	say_child("middle", pid);
	say_value("end_of_file", read(ends[0], &byte, 1));
}

CHECK(process, name)
{
	char name[17] = "";

	say_result("set", prctl(PR_SET_NAME, "a-name-longer-than-fifteen"));
	prctl(PR_GET_NAME, name);
	say("name=%s", name);
	say("comm=%s", slurp("/proc/self/comm"));
}

CHECK(process, dumpable)
{
	say_value("before", prctl(PR_GET_DUMPABLE));
	say_result("set", prctl(PR_SET_DUMPABLE, 0));
	say_value("after", prctl(PR_GET_DUMPABLE));
	say_result("invalid", prctl(PR_SET_DUMPABLE, 9));
}

CHECK(process, unknown_system_call)
{
	say_result("number_5000", syscall(5000));
	say_result("number_minus_one", syscall(-1));
	say_result("number_400", syscall(400));
}

CHECK(process, kill_spinning_child)
{
	pid_t pid = spawn();

	if (!pid)
		for (;;)
			__asm__ volatile("");
	sleep_ms(30);
	say_result("kill", kill(pid, SIGKILL));
	say_child("child", pid);
}

CHECK(process, kill_spinning_children)
{
	pid_t pids[8];

	for (int i = 0; i < 8; i++) {
		pids[i] = spawn();
		if (!pids[i])
			for (;;)
				__asm__ volatile("");
	}
	for (int i = 0; i < 8; i++)
		kill(pids[i], i % 2 ? SIGKILL : SIGTERM);
	for (int i = 0; i < 8; i++)
		say_child("child", pids[i]);
}

CHECK(process, kill_errors)
{
	pid_t pid = spawn();

	if (!pid)
		_exit(0);
	say_child("child", pid);
	say_result("gone", kill(pid, SIGTERM));
	say_result("bad_signal", kill(getpid(), 65));
	say_result("signal_zero", kill(getpid(), 0));
}

CHECK(process, getrusage_children)
{
	struct rusage usage;
	pid_t pid = spawn();

	if (!pid) {
		char *memory = map_pages(1024);

		memset(memory, 1, 1024 * PAGE);
		_exit(0);
	}
	say_child("child", pid);
	say_result("getrusage", getrusage(RUSAGE_CHILDREN, &usage));
	say_bool("faults_counted", usage.ru_minflt >= 1024);
	say_bool("memory_counted", usage.ru_maxrss >= 4096);
	say_result("bad_who", getrusage(9, &usage));
}
