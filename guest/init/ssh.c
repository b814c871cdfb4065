// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's SSH server. The keys of this run, and the script that starts the server with them,
 * come in an archive beside this init (tools/keel/ssh.py); a root has the server itself.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend.h"
#include "end.h"
#include "ssh.h"

#define SOURCE "/keel/ssh"
#define PLACE "/run/keel/ssh"
#define SERVER "/usr/sbin/dropbear"

static int source = -1;

void open_ssh_keys(void)
{
	source = open(SOURCE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void copy(const char *name, int place)
{
	int from = openat(source, name, O_RDONLY | O_CLOEXEC);
	int to = openat(place, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat about;

	if (from < 0 || to < 0 || fstat(from, &about) < 0 ||
	    sendfile(to, from, NULL, about.st_size) != about.st_size || close(to) < 0)
		fatal("cannot copy the keys of the SSH server");
	close(from);
}

bool place_ssh_keys(void)
{
	static const char *const names[] = { "authorized_keys", "host-key", "start" };
	size_t i;
	int place;

	if (source < 0)
		return false;
	if (access(SERVER, X_OK) < 0)
		fatal("the root has no SSH server, " SERVER ": add Debian's dropbear-bin, or leave --ssh out");
	mkdir("/run/keel", 0755);
	mkdir(PLACE, 0700);
	place = open(PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		copy(names[i], place);
	close(place);
	close(source);
	return true;
}

void start_ssh(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fatal("cannot start a process");
	if (pid > 0)
		return;
	setsid();
	prepare_child();
	execl("/bin/sh", "sh", SSH_START, (char *)NULL);
	_exit(127);
}
