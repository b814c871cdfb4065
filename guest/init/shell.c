// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interactive mode: the root's own init where it has one, else a login
 * shell that owns the console as its controlling terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "channel.h"
#include "init.h"

static const char console[] = "/dev/ttyS0";
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
		channel_send(&channel, FRAME_READY, NULL, 0);
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

static void become_shell(const struct settings *settings)
{
	size_t i;
	int fd;

	setsid();
	fd = open(console, O_RDWR);
	if (fd < 0)
		fatal("cannot open the console");
	ioctl(fd, TIOCSCTTY, 1);
	set_window_size(fd, settings);
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	prepare_child();
	for (i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		execl(shells[i].path, shells[i].name, (char *)NULL);
	_exit(127);
}

void run_shell(const struct settings *settings)
{
	int status = 0;
	pid_t shell, ended;

	tell_ready();
	if (access("/init", X_OK) == 0) {
		prepare_child();
		execl("/init", "/init", (char *)NULL);
		fatal("cannot start the root's /init");
	}
	shell = fork();
	if (shell < 0)
		fatal("cannot start a process");
	if (shell == 0)
		become_shell(settings);
	do {
		ended = wait(&status);
	} while (ended != shell && (ended > 0 || errno == EINTR));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		fatal("the root has no /bin/bash and no /bin/sh that starts");
}
