// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interactive mode: the root's own init where it has one, else a login
 * shell on each console, which is its controlling terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "channel.h"
#include "init.h"

static const char default_console[] = "ttyS0";
static const char serial_prefix[] = "ttyS";
/* What Linux's own terminal on the screen is called. */
static const char screen_terminal[] = "linux";
static const struct {
	const char *path;
	const char *name;	/* with the dash that makes it a login shell */
} shells[] = {
	{ "/bin/bash", "-bash" },
	{ "/usr/bin/bash", "-bash" },
	{ "/bin/sh", "-sh" },
	{ "/usr/bin/sh", "-sh" },
};

void tell_ready(void)
{
	struct channel channel;

	if (channel_open(&channel, "/dev/ttyS1") == 0) {
		channel_send_ready(&channel);
		channel_drain(&channel);
	}
	if (channel.fd >= 0)
		close(channel.fd);
}

static void set_window_size(int fd, const struct settings *settings)
{
	struct winsize size = {
		.ws_row = atoi(settings->rows),
		.ws_col = atoi(settings->cols),
	};

	if (size.ws_row > 0 && size.ws_col > 0)
		ioctl(fd, TIOCSWINSZ, &size);
}

/* In a child: the console as terminal and standard files. */
static void take_console(const struct settings *settings, const char *console, int fd)
{
	setsid();
	ioctl(fd, TIOCSCTTY, 1);
	if (strncmp(console, serial_prefix, strlen(serial_prefix)) == 0)
		set_window_size(fd, settings);
	else
		setenv("TERM", screen_terminal, 1);
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	prepare_child();
}

static void become_shell(void)
{
	size_t i;

	for (i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		execl(shells[i].path, shells[i].name, (char *)NULL);
	_exit(127);
}

/* There is none where an application and its kernel are all there is. */
static bool has_shell(void)
{
	size_t i;

	for (i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (access(shells[i].path, X_OK) == 0)
			return true;
	return false;
}

static void become_application(const struct settings *settings, const char *path)
{
	settings->app_arguments[0] = (char *)path;
	execv(path, settings->app_arguments);
	dprintf(STDERR_FILENO, "keel-init: cannot start %s: %s\n", path, strerror(errno));
	_exit(127);
}

/* An application, or else a shell, of a console; none where the machine has no such line. */
static pid_t start(const struct settings *settings, const char *console, const char *application)
{
	char path[SETTING_MAX + 5];
	struct termios line;
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", console);
	fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || tcgetattr(fd, &line) < 0)
		return 0;
	pid = fork();
	if (pid < 0)
		fatal("cannot start a process");
	if (pid == 0) {
		take_console(settings, console, fd);
		if (application)
			become_application(settings, application);
		become_shell();
	}
	close(fd);
	return pid;
}

static void run_application(const struct settings *settings, const char *application)
{
	pid_t ended, pid = start(settings, default_console, application);
	int status = 0;

	if (pid == 0)
		fatal("cannot open the console");
	do {
		ended = wait(&status);
	} while (ended != pid && (ended > 0 || errno == EINTR));
	if (WIFSIGNALED(status))
		dprintf(STDERR_FILENO, "keel-init: %s was ended by signal %d\n", application, WTERMSIG(status));
}

void run_shell(struct settings *settings, const char *application)
{
	char *rest = settings->console[0] ? settings->console : strdup(default_console);
	const char *console;
	int status = 0;
	pid_t shells[SETTING_MAX], ended;
	size_t i, count = 0;

	tell_ready();
	if (application)
		run_application(settings, application);
	if (application && !has_shell())
		return;
	if (access("/init", X_OK) == 0) {
		prepare_child();
		execl("/init", "/init", (char *)NULL);
		fatal("cannot start the root's /init");
	}
	while ((console = strsep(&rest, ",")) != NULL) {
		shells[count] = start(settings, console, NULL);
		count += shells[count] != 0;
	}
	if (count == 0)
		fatal("cannot open the console");
	/* The first shell that is left ends them all. */
	do {
		ended = wait(&status);
		for (i = 0; i < count && shells[i] != ended; i++)
			;
	} while (i == count && (ended > 0 || errno == EINTR));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		fatal("the root has no /bin/bash and no /bin/sh that starts");
}
