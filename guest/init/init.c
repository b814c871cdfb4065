// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keel's init: process 1 of every guest, on Keel and natively alike. It sets
 * up what the root may lack, runs a shell or the host's command, and powers
 * the machine off, or lets systemd do so. It is outside the root, in an archive of its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "application.h"
#include "attend.h"
#include "attributes.h"
#include "end.h"
#include "exec.h"
#include "mounts.h"
#include "net.h"
#include "place.h"
#include "settings.h"
#include "shares.h"
#include "shell.h"
#include "ssh.h"
#include "systemd.h"

static const char default_path[] =
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR);

	if (fd < 0)
		return;
	while (fd < STDERR_FILENO) {
		int next = dup(fd);

		if (next < 0)
			return;
		fd = next;
	}
	if (fd > STDERR_FILENO)
		close(fd);
}

static void set_environment(const struct settings *settings)
{
	clearenv();
	setenv("PATH", default_path, 1);
	setenv("HOME", access("/root", F_OK) == 0 ? "/root" : "/", 1);
	setenv("USER", "root", 1);
	setenv("LOGNAME", "root", 1);
	setenv("TERM", settings->term[0] ? settings->term : "dumb", 1);
	if (access("/bin/bash", X_OK) == 0)
		setenv("SHELL", "/bin/bash", 1);
	else
		setenv("SHELL", "/bin/sh", 1);
	share_environment(settings);
}

/* Prepares what child processes inherit, whichever program is process 1. */
static void prepare_surroundings(const struct settings *settings)
{
	signal(SIGPIPE, SIG_IGN);
	set_environment(settings);
	(void)!chdir(settings->directory ? settings->directory : getenv("HOME"));
}

static int run_service(void)
{
	struct settings settings;

	read_settings(&settings);
	prepare_surroundings(&settings);
	run_exec(&settings);
	return 0;
}

int main(int argc, char **argv)
{
	const char *application = NULL;
	struct settings settings;
	bool has_ssh;
	int fd = -1;

	if (strcmp(basename(argv[0]), PLACE_COMMAND) == 0)
		return run_place(argc, argv);
	if (getpid() != 1 && argc == 2 && strcmp(argv[1], SERVICE) == 0)
		return run_service();
	if (getpid() != 1) {
		fprintf(stderr, "keel-init: error: it runs as process 1 only\n");
		return 1;
	}
	umask(022);
	mount_all();
	read_settings(&settings);
	settings.app_arguments = argv;
	if (settings.app[0])
		fd = open_application(settings.app);
	open_ssh_keys();
	if (settings.root[0]) {
		enter_root(settings.root);
		mount_all();
	}
	if (settings.app[0])
		application = place_application(fd, settings.app);
	install_place();
	mount_shares(&settings);
	open_console();
	if (!settings.root[0])
		restore_attributes();
	prepare_surroundings(&settings);
	sethostname("keel", strlen("keel"));
	loopback_up();
	has_ssh = place_ssh_keys();
	if (strcmp(settings.init, "systemd") == 0)
		become_systemd(&settings, has_ssh);
	if (has_ssh)
		start_ssh();
	if (strcmp(settings.mode, "exec") == 0)
		run_exec(&settings);
	else
		run_shell(&settings, application);
	end_machine(SHUTDOWN_POWER_OFF);
}
