// SPDX-License-Identifier: GPL-2.0-only
/*
 * The root, and the file systems and links that programs expect, on a root that may
 * lack any of them. A file system that cannot be mounted is left out: the
 * root may be made without it on purpose.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init.h"

static const struct {
	const char *type;
	const char *target;
	const char *options;
	unsigned long flags;
} mounts[] = {
	{ "proc", "/proc", NULL, MS_NOSUID | MS_NOEXEC | MS_NODEV },
	{ "sysfs", "/sys", NULL, MS_NOSUID | MS_NOEXEC | MS_NODEV },
	{ "devtmpfs", "/dev", "mode=0755", MS_NOSUID },
	{ "devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666", MS_NOSUID | MS_NOEXEC },
	{ "tmpfs", "/dev/shm", "mode=1777", MS_NOSUID | MS_NODEV },
	{ "mqueue", "/dev/mqueue", NULL, MS_NOSUID | MS_NOEXEC | MS_NODEV },
	{ "tmpfs", "/tmp", "mode=1777", MS_NOSUID | MS_NODEV },
	{ "tmpfs", "/run", "mode=0755", MS_NOSUID | MS_NODEV },
};

static const char *const links[][2] = {
	{ "/proc/self/fd", "/dev/fd" },
	{ "/proc/self/fd/0", "/dev/stdin" },
	{ "/proc/self/fd/1", "/dev/stdout" },
	{ "/proc/self/fd/2", "/dev/stderr" },
	/* What the kernel was told of name servers. */
	{ "/proc/net/pnp", "/etc/resolv.conf" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A memory file system must not hide what the root brings in that place. */
static int holds_files(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int found = 0;

	if (!directory)
		return 0;
	while (!found && (entry = readdir(directory)) != NULL)
		found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(directory);
	return found;
}

void mount_all(void)
{
	size_t i;

	for (i = 0; i < COUNT(mounts); i++) {
		mkdir(mounts[i].target, 0755);
		if (strcmp(mounts[i].type, "tmpfs") == 0 && holds_files(mounts[i].target))
			continue;
		mount(mounts[i].type, mounts[i].target, mounts[i].type,
		      mounts[i].flags, mounts[i].options);
	}
	for (i = 0; i < COUNT(links); i++)
		(void)!symlink(links[i][0], links[i][1]);
}

void enter_root(const char *disk)
{
	char device[SETTING_MAX + 4];
	int part, error = -1;

	mkdir("/new", 0755);
	for (part = 0; error && part < 10; part++) {
		snprintf(device, sizeof(device), part ? "%s%d" : "%s", disk, part);
		error = mount(device, "/new", "ext4", 0, NULL);
	}
	if (error || chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot("."))
		fatal("the root disk holds no file system that can be mounted");
}
