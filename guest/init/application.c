// SPDX-License-Identifier: GPL-2.0-only
/*
 * An application for ring 0, which is in an archive beside this init: the
 * root that the guest runs on gets it as /run/ukl/NAME.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "application.h"
#include "end.h"

#define PLACE "/run/ukl"

int open_application(const char *name)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "/keel/applications/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fatal("the application did not come with the init");
	return fd;
}

const char *place_application(int fd, const char *name)
{
	static char path[PATH_MAX];
	struct stat info;
	ssize_t put = 1;
	int out;

	mkdir(PLACE, 0755);
	snprintf(path, sizeof(path), PLACE "/%s", name);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (out < 0 || fstat(fd, &info) < 0)
		fatal("the application has no place in " PLACE);
	while (info.st_size > 0 && put > 0) {
		put = sendfile(out, fd, NULL, info.st_size);
		info.st_size -= put;
	}
	if (put <= 0)
		fatal("the application could not be copied");
	close(out);
	close(fd);
	return path;
}
