// SPDX-License-Identifier: GPL-2.0-only
/* Waiting for children: wait4, waitid, stopped and continued children, pid file descriptors. */
#include "check.h"
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/resource.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

CHECK(wait, no_child)
{
	int status;
	siginfo_t info;

	say_value("wait4", wait4(-1, &status, 0, NULL));
	say_value("waitid", waitid(P_ALL, 0, &info, WEXITED));
	say_value("waitpid_group", waitpid(0, &status, WNOHANG));
	say_value("bad_options", waitpid(-1, &status, 0x77777777));
}

CHECK(wait, nohang)
{
	int status = 1234;
	pid_t pid = spawn();

	if (!pid) {
		pause();
		_exit(0);
	}
	say_value("running", waitpid(pid, &status, WNOHANG));
	say("status_untouched=%d", status);
	kill(pid, SIGINT);
	say_child("ended", pid);
}

CHECK(wait, stop_and_continue)
{
	int status;
	pid_t pid = spawn();

	if (!pid)
		for (;;)
			pause();
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	say("stopped=%d signal=%d", WIFSTOPPED(status), WSTOPSIG(status));
	kill(pid, SIGCONT);
	waitpid(pid, &status, WCONTINUED);
	say("continued=%d", WIFCONTINUED(status));
	kill(pid, SIGTERM);
	say_child("end", pid);
}

CHECK(wait, stop_spinning_child)
{
	int status;
	pid_t pid = spawn();

	if (!pid)
		for (;;)
			__asm__ volatile("");
	sleep_ms(10);
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	say("stopped=%d signal=%d", WIFSTOPPED(status), WSTOPSIG(status));
	kill(pid, SIGKILL);
	say_child("end", pid);
}

static void say_waitid(const char *what, int result, const siginfo_t *info)
{
	if (result)
		say("%s=%s", what, errno_name(errno));
	else
		say("%s=signo:%d,code:%d,status:%d", what, info->si_signo, info->si_code, info->si_status);
}

CHECK(wait, waitid_exited)
{
	siginfo_t info;
	pid_t pid = spawn();
	int result;

	if (!pid)
		_exit(33);
	result = waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	say_waitid("peek", result, &info);
	result = waitid(P_PID, pid, &info, WEXITED);
	say_waitid("take", result, &info);
	say_bool("pid", info.si_pid == pid);
	result = waitid(P_PID, pid, &info, WEXITED);
	say_waitid("again", result, &info);
}

CHECK(wait, waitid_killed)
{
	siginfo_t info;
	pid_t pid = spawn();
	int result;

	if (!pid)
		for (;;)
			pause();
	kill(pid, SIGKILL);
	result = waitid(P_PID, pid, &info, WEXITED);
	say_waitid("killed", result, &info);
}

CHECK(wait, waitid_stopped)
{
	siginfo_t info;
	pid_t pid = spawn();
	int result;

	if (!pid) {
		raise(SIGSTOP);
		_exit(0);
	}
	result = waitid(P_PID, pid, &info, WSTOPPED);
	say_waitid("stopped", result, &info);
	kill(pid, SIGCONT);
	result = waitid(P_PID, pid, &info, WCONTINUED | WEXITED);
	if (!result && info.si_code == CLD_CONTINUED)
		result = waitid(P_PID, pid, &info, WEXITED);
	say_waitid("end", result, &info);
}

CHECK(wait, waitid_nohang_clears)
{
	siginfo_t info;
	pid_t pid = spawn();

	if (!pid)
		for (;;)
			pause();
	memset(&info, 0x55, sizeof info);
	say_value("nohang", waitid(P_PID, pid, &info, WEXITED | WNOHANG));
	say("signo=%d pid=%d", info.si_signo, info.si_pid);
	kill(pid, SIGKILL);
	say_child("end", pid);
}

CHECK(wait, by_group)
{
	int status;
	pid_t own = spawn(), other;

	if (!own)
		_exit(1);
	other = spawn();
	if (!other) {
		setpgid(0, 0);
		_exit(2);
	}
	setpgid(other, other);
	say_bool("own_group", waitpid(0, &status, 0) == own);
	say("status=%d", WEXITSTATUS(status));
	say_bool("other_group", waitpid(-other, &status, 0) == other);
	say("status=%d", WEXITSTATUS(status));
}

CHECK(wait, ignored_children_leave_no_zombie)
{
	pid_t pid;
	int status;

	signal(SIGCHLD, SIG_IGN);
	pid = spawn();
	if (!pid)
		_exit(0);
	say_value("wait", waitpid(pid, &status, 0));
}

CHECK(wait, nocldwait)
{
	struct sigaction action = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
	pid_t pid;

	sigaction(SIGCHLD, &action, NULL);
	pid = spawn();
	if (!pid)
		_exit(0);
	say_value("wait", waitpid(pid, NULL, 0));
}

CHECK(wait, rusage_of_child)
{
	struct rusage usage;
	int status;
	pid_t pid = spawn();

	if (!pid) {
		for (volatile long i = 0; i < 60000000; i++)
			;
		_exit(0);
	}
	say_bool("waited", wait4(pid, &status, 0, &usage) == pid);
	say_bool("used_time", usage.ru_utime.tv_sec || usage.ru_utime.tv_usec || usage.ru_stime.tv_usec);
}

CHECK(wait, pidfd)
{
	siginfo_t info;
	pid_t pid = spawn();
	struct pollfd ready;
	int fd;

	if (!pid)
		for (;;)
			pause();
	fd = pidfd_open(pid, 0);
	ready = (struct pollfd){ fd, POLLIN, 0 };
	say_bool("open", fd >= 0);
	say_value("poll_before", poll(&ready, 1, 0));
	say_result("signal", pidfd_send_signal(fd, SIGTERM, NULL, 0));
	say_value("poll_after", poll(&ready, 1, 5000));
	say_waitid("wait", waitid(P_PIDFD, fd, &info, WEXITED), &info);
	say_result("signal_gone", pidfd_send_signal(fd, SIGTERM, NULL, 0));
	say_result("bad_pid", pidfd_open(-5, 0));
}

CHECK(wait, pidfd_getfd)
{
	int pipes[2], fd, got;
	char byte = 0;
	pid_t pid;

	must("pipe", pipe(pipes) == 0);
	pid = spawn();
	if (!pid)
		for (;;)
			pause();
	fd = pidfd_open(pid, 0);
	got = pidfd_getfd(fd, pipes[1], 0);
	say_bool("got", got >= 0);
	say_value("write", write(got, "x", 1));
	say_value("read", read(pipes[0], &byte, 1));
	say("byte=%c", byte);
	kill(pid, SIGKILL);
	say_child("end", pid);
}
