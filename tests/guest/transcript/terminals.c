// SPDX-License-Identifier: GPL-2.0-only
/* Pseudo terminals, sessions, process groups and job control. */
#include "check.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

/*
 * Opens a pseudo terminal and forks a session whose controlling terminal it is; the child gets 0.
 */
static pid_t on_terminal(int *master)
{
	pid_t pid = forkpty(master, NULL, NULL, NULL);

	must("forkpty", pid >= 0);
	return pid;
}

/* Reads from the master until the text has come; false at the end. */
static bool await_text(int master, const char *wanted)
{
	char seen[1024] = "";
	size_t length = 0;
	ssize_t part;

	while (length < sizeof seen - 1 && (part = read(master, seen + length, sizeof seen - 1 - length)) > 0) {
		length += part;
		if (strstr(seen, wanted))
			return true;
	}
	return false;
}

static int opened_pair(int *slave)
{
	int master = -1;

	must("openpty", openpty(&master, slave, NULL, NULL, NULL) == 0);
	return master;
}

CHECK(terminals, echo_and_line_editing)
{
	char line[64] = "";
	int slave, master = opened_pair(&slave);

	say_value("write", write(master, "helxo\x7f\x7flo\n", 10));
	say_value("line", read(slave, line, sizeof line));
	say("text=%s", line);
	say_bool("erased", await_text(master, "\b \b"));
}

CHECK(terminals, output_processing)
{
	int slave, master = opened_pair(&slave);

	/* What is written may arrive at the other side in pieces. */
	say_value("write", write(slave, "a\nb", 3));
	say_bool("crlf", await_text(master, "a\r\nb"));
}

CHECK(terminals, raw_mode)
{
	struct termios mode;
	char byte = 0;
	int slave, master = opened_pair(&slave);

	say_result("get", tcgetattr(slave, &mode));
	say_bool("canonical", mode.c_lflag & ICANON);
	cfmakeraw(&mode);
	say_result("set", tcsetattr(slave, TCSANOW, &mode));
	must("write", write(master, "\x03", 1) == 1);
	say_value("read", read(slave, &byte, 1));
	say("byte=%d", byte);
	mode.c_cc[VMIN] = 0;
	mode.c_cc[VTIME] = 1;
	tcsetattr(slave, TCSANOW, &mode);
	say_value("timeout", read(slave, &byte, 1));
}

CHECK(terminals, end_of_file_character)
{
	char text[16];
	int slave, master = opened_pair(&slave);

	must("write", write(master, "ab\x04\x04", 4) == 4);
	say_value("text", read(slave, text, sizeof text));
	say_value("end", read(slave, text, sizeof text));
}

CHECK(terminals, window_size_signal)
{
	struct winsize size = { 40, 100, 0, 0 };
	int master;
	pid_t pid = on_terminal(&master);

	if (!pid) {
		sigset_t set;
		int signo;

		sigemptyset(&set);
		sigaddset(&set, SIGWINCH);
		sigprocmask(SIG_BLOCK, &set, NULL);
		puts("ready");
		fflush(stdout);
		sigwait(&set, &signo);
		ioctl(0, TIOCGWINSZ, &size);
		_exit(size.ws_row);
	}
	await_text(master, "ready");
	say_result("set", ioctl(master, TIOCSWINSZ, &size));
	say_child("rows", pid);
}

static void say_control_character(const char *what, const char *character)
{
	int master;
	pid_t pid = on_terminal(&master);

	if (!pid) {
		puts("ready");
		fflush(stdout);
		for (;;)
			pause();
	}
	await_text(master, "ready");
	must("write", write(master, character, 1) == 1);
	say_child(what, pid);
	close(master);
}

CHECK(terminals, control_characters)
{
	say_control_character("interrupt", "\x03");
	say_control_character("quit", "\x1c");
}

CHECK(terminals, interrupts_spinning_process)
{
	int master;
	pid_t pid = on_terminal(&master);

	if (!pid) {
		puts("ready");
		fflush(stdout);
		for (;;)
			__asm__ volatile("");
	}
	await_text(master, "ready");
	must("write", write(master, "\x03", 1) == 1);
	say_child("child", pid);
}

CHECK(terminals, hang_up)
{
	int master;
	pid_t pid = on_terminal(&master);

	if (!pid) {
		puts("ready");
		fflush(stdout);
		for (;;)
			pause();
	}
	await_text(master, "ready");
	close(master);
	say_child("child", pid);
}

CHECK(terminals, suspend_foreground_group)
{
	int master, status;
	pid_t pid = on_terminal(&master);

	if (!pid) {
		pid_t job = fork();

		if (!job) {
			setpgid(0, 0);
			puts("ready");
			fflush(stdout);
			for (;;)
				pause();
		}
		setpgid(job, job);
		signal(SIGTTOU, SIG_IGN);
		tcsetpgrp(0, job);
		puts("foreground");
		fflush(stdout);
		waitpid(job, &status, WUNTRACED);
		if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTSTP)
			_exit(1);
		tcsetpgrp(0, getpgrp());
		kill(-job, SIGCONT);
		kill(-job, SIGKILL);
		waitpid(job, &status, 0);
		_exit(WTERMSIG(status));
	}
	await_text(master, "foreground");
	must("write", write(master, "\x1a", 1) == 1);
	say_child("shell", pid);
}

CHECK(terminals, background_read_stops)
{
	int master;
	pid_t pid = on_terminal(&master);

	if (!pid) {
		int status;
		pid_t job = fork();

		if (!job) {
			char byte;

			setpgid(0, 0);
			read(0, &byte, 1);
			_exit(1);
		}
		waitpid(job, &status, WUNTRACED);
		kill(job, SIGKILL);
		_exit(WIFSTOPPED(status) ? WSTOPSIG(status) : 0);
	}
	say_child("stopped_by", pid);
}

CHECK(terminals, background_write_with_tostop)
{
	int master;
	pid_t pid = on_terminal(&master);

	if (!pid) {
		struct termios mode;
		int status;
		pid_t job;

		tcgetattr(0, &mode);
		mode.c_lflag |= TOSTOP;
		tcsetattr(0, TCSANOW, &mode);
		job = fork();
		if (!job) {
			setpgid(0, 0);
			write(1, "x", 1);
			_exit(1);
		}
		waitpid(job, &status, WUNTRACED);
		kill(job, SIGKILL);
		_exit(WIFSTOPPED(status) ? WSTOPSIG(status) : 0);
	}
	say_child("stopped_by", pid);
}

CHECK(terminals, orphaned_group_gets_error)
{
	int master, ends[2];
	char result = '?';
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	pid = on_terminal(&master);
	if (!pid) {
		pid_t job = fork();

		if (!job) {
			pid_t middle = getpid();

			setpgid(0, 0);
			if (!fork()) {
				char byte;

				while (getppid() == middle)
					sleep_ms(1);
				byte = read(0, &byte, 1) == -1 && errno == EIO ? 'E' : 'n';
				write(ends[1], &byte, 1);
				_exit(0);
			}
			_exit(0);
		}
		for (;;)
			pause();
	}
	must("result", read(ends[0], &result, 1) == 1);
	say("read=%s", result == 'E' ? "EIO" : "other");
	kill(pid, SIGKILL);
}

CHECK(terminals, sessions)
{
	pid_t pid = spawn();

	if (!pid) {
		pid_t session;

		say_bool("own_group", getpgrp() != getpid());
		session = setsid();
		say_bool("leader", session == getpid() && getsid(0) == session && getpgrp() == session);
		say_value("again", setsid());
		say_value("move_leader", setpgid(0, 0));
		say_value("no_terminal", open("/dev/tty", O_RDWR));
		_exit(0);
	}
	say_child("child", pid);
	say_value("bad_group", setpgid(0, 999999));
	say_value("no_process", getpgid(999999));
	say_value("negative", setpgid(0, -1));
}

CHECK(terminals, controlling_terminal)
{
	int slave, master = opened_pair(&slave);
	pid_t pid = spawn();

	if (!pid) {
		setsid();
		say_result("take", ioctl(slave, TIOCSCTTY, 0));
		say_bool("group", tcgetpgrp(slave) == getpgrp());
		say_bool("tty", open("/dev/tty", O_RDWR) >= 0);
		signal(SIGHUP, SIG_IGN);
		say_result("give_up", ioctl(slave, TIOCNOTTY));
		say_value("no_terminal", open("/dev/tty", O_RDWR));
		_exit(0);
	}
	say_child("child", pid);
	say_value("other_session", tcgetpgrp(slave));
	say_bool("name", ptsname(master) && !strncmp(ptsname(master), "/dev/pts/", 9));
}

CHECK(terminals, group_signals)
{
	pid_t leader = spawn();

	if (!leader) {
		int status, killed = 0;

		setpgid(0, 0);
		signal(SIGUSR1, SIG_IGN);
		for (int i = 0; i < 3; i++)
			if (!spawn()) {
				signal(SIGUSR1, SIG_DFL);
				for (;;)
					pause();
			}
		sleep_ms(50);
		kill(0, SIGUSR1);
		while (wait(&status) > 0)
			killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1;
		_exit(killed);
	}
	say_child("killed", leader);
}
