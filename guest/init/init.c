// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keel's init: process 1 of every guest, on Keel and natively alike. It sets
 * up what the root may lack, runs a shell or the host's command, and powers
 * the machine off, or lets systemd do so. It is outside the root, in an archive of its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "init.h"

static const char default_path[] =
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

void end_machine(enum end end)
{
	/* Who still writes would keep a disk from being clean. */
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
	sync();
	mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
	reboot(end == SHUTDOWN_REBOOT ? RB_AUTOBOOT : RB_POWER_OFF);
	/* Returning would panic the kernel, which says more than a hang. */
	_exit(1);
}

void fatal(const char *what)
{
	dprintf(STDERR_FILENO, "keel-init: error: %s\n", what);
	if (getpid() != 1)
		_exit(126);
	/* The kernel's last lines would come into the middle of it. */
	tcdrain(STDERR_FILENO);
	end_machine(SHUTDOWN_POWER_OFF);
}

void prepare_child(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
}

static void take_setting(const char *word, const char *name, char *value)
{
	size_t length = strlen(name);

	if (strncmp(word, name, length) == 0 && word[length] == '=')
		snprintf(value, SETTING_MAX, "%s", word + length + 1);
}

static void read_settings(struct settings *settings)
{
	char line[4096] = "";
	char *word, *rest = line;
	ssize_t got;
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);

	memset(settings, 0, sizeof(*settings));
	if (fd < 0)
		fatal("cannot read /proc/cmdline");
	got = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (got > 0)
		line[got] = '\0';
	while ((word = strsep(&rest, " \n")) != NULL) {
		take_setting(word, "keel.mode", settings->mode);
		take_setting(word, "keel.root", settings->root);
		take_setting(word, "keel.init", settings->init);
		take_setting(word, "keel.console", settings->console);
		take_setting(word, "keel.app", settings->app);
		take_setting(word, "keel.attended", settings->attended);
		take_setting(word, "keel.term", settings->term);
		take_setting(word, "keel.rows", settings->rows);
		take_setting(word, "keel.cols", settings->cols);
	}
}

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
}

/* Prepares what child processes inherit, whichever program is process 1. */
static void prepare_surroundings(const struct settings *settings)
{
	signal(SIGPIPE, SIG_IGN);
	set_environment(settings);
	(void)!chdir(getenv("HOME"));
}

static int run_service(void)
{
	struct settings settings;

	read_settings(&settings);
	prepare_surroundings(&settings);
	run_exec();
	return 0;
}

int main(int argc, char **argv)
{
	const char *application = NULL;
	struct settings settings;
	int fd = -1;

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
	if (settings.root[0]) {
		enter_root(settings.root);
		mount_all();
	}
	if (settings.app[0])
		application = place_application(fd, settings.app);
	open_console();
	prepare_surroundings(&settings);
	sethostname("keel", strlen("keel"));
	loopback_up();
	if (strcmp(settings.init, "systemd") == 0)
		become_systemd(&settings);
	if (strcmp(settings.mode, "exec") == 0)
		run_exec();
	else
		run_shell(&settings, application);
	end_machine(SHUTDOWN_POWER_OFF);
}
