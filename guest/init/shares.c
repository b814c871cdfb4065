// SPDX-License-Identifier: GPL-2.0-only
/*
 * Directories that the host shares over 9P on virtio. The emulator serves each under a tag with its
 * number. It decides what the guest may do there; the flags of the mount only say so sooner.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "end.h"
#include "settings.h"
#include "shares.h"

/* msize and cache by measurement: docs/getting-started.md. */
#define OPTIONS "trans=virtio,version=9p2000.L,msize=131072,cache=mmap"
#define TAG_MAX 16
/* Directories in a share at which share_environment() looks. */
#define LOOKED_AT_MAX 256
#define GIT_KEY_MAX 40

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

/* Adds a value to git's configuration, of which the environment has this many already. */
static void configure_git(size_t *count, const char *key, const char *value)
{
	char name[GIT_KEY_MAX], number[GIT_KEY_MAX];

	snprintf(name, sizeof(name), "GIT_CONFIG_KEY_%zu", *count);
	setenv(name, key, 1);
	snprintf(name, sizeof(name), "GIT_CONFIG_VALUE_%zu", *count);
	setenv(name, value, 1);
	snprintf(number, sizeof(number), "%zu", ++*count);
	setenv("GIT_CONFIG_COUNT", number, 1);
}

static bool has(int directory, const char *name, const char *file)
{
	char path[NAME_MAX + 16];
	struct stat info;

	snprintf(path, sizeof(path), "%s/%s", name, file);
	return fstatat(directory, path, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Lets git trust the repositories directly in a share, with a work tree or bare. A link is none: it
 * may lead out of the share, to what anybody has made.
 */
static void trust_repositories(size_t *count, const char *place)
{
	DIR *directory = opendir(place);
	struct dirent *entry;
	char path[PATH_MAX];
	int left = LOOKED_AT_MAX;

	while (directory && left > 0 && (entry = readdir(directory)) != NULL) {
		if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0)
			continue;
		left--;
		if (!has(dirfd(directory), entry->d_name, ".git") &&
		    !has(dirfd(directory), entry->d_name, "HEAD"))
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", place, entry->d_name) < (int)sizeof(path))
			configure_git(count, "safe.directory", path);
	}
	if (directory)
		closedir(directory);
}

/*
 * git refuses repositories of other owners, whose configuration could make it run their programs,
 * and shares are the host user's. It compares whole paths without links. It takes a file for
 * changed whose inode number is not the host's, and would read them all for each status.
 */
void share_environment(const struct settings *settings)
{
	char place[PATH_MAX];
	size_t i, count = 0;

	for (i = 0; i < settings->share_count; i++) {
		if (!realpath(settings->shares[i].place, place))
			continue;
		configure_git(&count, "safe.directory", place);
		trust_repositories(&count, place);
	}
	if (settings->share_count > 0)
		configure_git(&count, "core.checkStat", "minimal");
}
