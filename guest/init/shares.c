// SPDX-License-Identifier: GPL-2.0-only
/*
 * Directories that the host shares over 9P on virtio. The emulator serves each under a tag with its
 * number. It decides what the guest may do there; the flags of the mount only say so sooner.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "end.h"
#include "settings.h"
#include "shares.h"

/* msize and cache by measurement: docs/getting-started.md. */
#define OPTIONS "trans=virtio,version=9p2000.L,msize=131072,cache=mmap"
#define TAG_MAX 16

static void refuse(const char *what, const char *path)
{
	char line[SETTINGS_MAX];

	snprintf(line, sizeof(line), "%s %s: %s", what, path, strerror(errno));
	fatal(line);
}

/* Makes the directory and those above it. */
static void make_directories(char *path)
{
	char *slash = path;

	while ((slash = strchr(slash + 1, '/')) != NULL) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		refuse("there can be no directory for the host's at", path);
}

static void mount_share(size_t number, const struct share *share)
{
	unsigned long flags = MS_NOSUID | MS_NODEV | (share->writable ? 0 : MS_RDONLY);
	char tag[TAG_MAX];

	snprintf(tag, sizeof(tag), "share%zu", number);
	make_directories(share->place);
	if (mount(tag, share->place, "9p", flags, OPTIONS) < 0)
		refuse(errno == ENODEV || errno == ENOENT ?
			       "this Linux has no 9P on virtio, or no such device, to mount" :
			       "the host's directory cannot be mounted at",
		       share->place);
}

void mount_shares(const struct settings *settings)
{
	size_t i;

	for (i = 0; i < settings->share_count; i++)
		mount_share(i, &settings->shares[i]);
}

/*
 * git refuses repositories of other owners, and these are the host user's. It takes a file for
 * changed whose inode number is not the host's, and would read them all for each status.
 */
void share_environment(const struct settings *settings)
{
	if (settings->share_count == 0)
		return;
	setenv("GIT_CONFIG_COUNT", "2", 1);
	setenv("GIT_CONFIG_KEY_0", "safe.directory", 1);
	setenv("GIT_CONFIG_VALUE_0", "*", 1);
	setenv("GIT_CONFIG_KEY_1", "core.checkStat", 1);
	setenv("GIT_CONFIG_VALUE_1", "minimal", 1);
}
