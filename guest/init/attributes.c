// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attributes of the files of a root in memory. The format that Linux unpacks has no place for them,
 * so the archive has notes: tools/keel/attributes.py. A note is a file whose name is a mark and the
 * attribute's, in a folder with the path of the file that has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attributes.h"

#define FOLDER "/.keel-attributes"
#define MARK '='
/* More than any root has: an access list with some 8,000 users. */
#define VALUE_MAX 65536
/* Directories that the walk has open at once. */
#define OPEN_MAX_COUNT 16

static void give(const char *note)
{
	static char value[VALUE_MAX];
	char path[PATH_MAX];
	char *mark;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s", note + strlen(FOLDER));
	mark = strrchr(path, '/');
	if (mark == path || mark[1] != MARK)
		return;
	*mark = '\0';
	fd = open(note, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : read(fd, value, sizeof(value));
	if (length < 0 || lsetxattr(path, mark + 2, value, length, 0) < 0)
		dprintf(STDERR_FILENO, "keel-init: %s has no %s: %s\n", path, mark + 2,
			strerror(errno));
	close(fd);
}

static int restore(const char *note, const struct stat *info, int kind, struct FTW *place)
{
	(void)info;
	(void)place;
	if (kind == FTW_F)
		give(note);
	(void)!remove(note);
	return 0;
}

void restore_attributes(void)
{
	nftw(FOLDER, restore, OPEN_MAX_COUNT, FTW_DEPTH | FTW_PHYS);
}
