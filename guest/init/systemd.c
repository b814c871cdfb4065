// SPDX-License-Identifier: GPL-2.0-only
/*
 * The root's own systemd as process 1. The host's command is then a service, which begins when the
 * machine is up, and whose end ends the machine: this program once more, beside systemd.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend.h"
#include "end.h"
#include "shell.h"
#include "ssh.h"
#include "systemd.h"

#define PROGRAM "/run/keel/init"
#define UNITS "/run/systemd/system"
#define UNIT "keel-command.service"
#define SSH_UNIT "keel-ssh.service"
#define WANTS UNITS "/multi-user.target.wants"

static const char unit[] =
	"[Unit]\n"
	"Description=Command of the host\n"
	"After=multi-user.target\n"
	"SuccessAction=poweroff\n"
	"FailureAction=poweroff\n"
	"[Service]\n"
	"ExecStart=" PROGRAM " " SERVICE "\n";
static const char ssh_unit[] =
	"[Unit]\n"
	"Description=SSH server for the host\n"
	"[Service]\n"
	"ExecStart=/bin/sh " SSH_START "\n";

static void write_unit(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) < 0)
		fatal("cannot write a unit");
}

/* systemd leaves a /run that is a file system, as ours is, as it is. */
static void add_unit(const char *name, const char *text)
{
	char path[PATH_MAX], link[PATH_MAX], target[PATH_MAX];

	snprintf(path, sizeof(path), UNITS "/%s", name);
	snprintf(link, sizeof(link), WANTS "/%s", name);
	snprintf(target, sizeof(target), "../%s", name);
	mkdir("/run/systemd", 0755);
	mkdir(UNITS, 0755);
	mkdir(WANTS, 0755);
	write_unit(path, text);
	if (symlink(target, link) < 0)
		fatal("cannot add a unit");
}

/* The init's own file is hidden below the root. */
static void copy_program(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to;
	struct stat about;

	mkdir("/run/keel", 0755);
	to = open(PROGRAM, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (from < 0 || to < 0 || fstat(from, &about) < 0 ||
	    sendfile(to, from, NULL, about.st_size) != about.st_size || close(to) < 0)
		fatal("cannot copy the init for the command");
	close(from);
}

static void add_service(void)
{
	copy_program();
	add_unit(UNIT, unit);
}

void become_systemd(const struct settings *settings, bool has_ssh)
{
	if (has_ssh)
		add_unit(SSH_UNIT, ssh_unit);
	if (strcmp(settings->mode, "exec") == 0)
		add_service();
	else
		begin_other_init(settings);
	prepare_child();
	execl("/lib/systemd/systemd", "systemd", (char *)NULL);
	fatal("the root has no systemd that starts");
}
