// SPDX-License-Identifier: GPL-2.0-only
/*
 * The root, and the file systems and links that programs expect, on a root that may
 * lack any of them. A file system that cannot be mounted is left out: the
 * root may be made without it on purpose.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "end.h"
#include "mounts.h"
#include "settings.h"

/*
 * Programs rely on its being empty at boot: pid files of the last one would keep services from
 * starting.
 */
#define RUN "/run"
/* Lock files of all users, as in Debian: nobody fills what services need. */
#define LOCK RUN "/lock"

#define OPTIONS_MAX 80
#define PAGE_BYTES 4096
/* One file for so many pages of the size: without data it takes about a quarter of a page. */
#define PAGES_PER_FILE 2

/*
 * Any user may fill some of those that are in memory, and nobody takes back what is there. They
 * have hundredths of the memory, beside a root on a disk and beside one in memory, to which Linux
 * gives half: all of them together leave some to others.
 */
static const struct {
	const char *type;
	const char *target;
	unsigned long flags;
	const char *options;
	unsigned int size[2];
} mounts[] = {
	{ "proc", "/proc", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL, { 0 } },
	{ "sysfs", "/sys", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL, { 0 } },
	{ "devtmpfs", "/dev", MS_NOSUID, "mode=0755", { 0 } },
	{ "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666", { 0 } },
	{ "tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777", { 25, 10 } },
	{ "mqueue", "/dev/mqueue", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL, { 0 } },
	{ "tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777", { 40, 15 } },
	{ "tmpfs", RUN, MS_NOSUID | MS_NODEV, "mode=0755", { 0 } },
	{ "tmpfs", LOCK, MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777", { 1, 1 } },
};

static const char *const links[][2] = {
	{ "/proc/self/fd", "/dev/fd" },
	{ "/proc/self/fd/0", "/dev/stdin" },
	{ "/proc/self/fd/1", "/dev/stdout" },
	{ "/proc/self/fd/2", "/dev/stderr" },
	/* The name servers that the kernel was given. */
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

/* Returns true if what is written to the root takes memory. */
static int is_in_memory(void)
{
	struct statfs info;

	return statfs("/", &info) == 0 &&
	       (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC ||
		info.f_type == OVERLAYFS_SUPER_MAGIC);
}

/* The options of a mount, into a buffer if it has a size. */
static const char *options_of(size_t number, int in_memory, char options[OPTIONS_MAX])
{
	unsigned int size = mounts[number].size[in_memory];
	struct sysinfo info;

	if (size == 0 || sysinfo(&info) < 0)
		return mounts[number].options;
	snprintf(options, OPTIONS_MAX, "%s,size=%u%%,nr_inodes=%lu", mounts[number].options, size,
		 info.totalram / 100 * size * info.mem_unit / PAGE_BYTES / PAGES_PER_FILE);
	return options;
}

void mount_all(void)
{
	char options[OPTIONS_MAX];
	int in_memory = is_in_memory();
	size_t i;

	for (i = 0; i < COUNT(mounts); i++) {
		mkdir(mounts[i].target, 0755);
		if (strcmp(mounts[i].type, "tmpfs") == 0 && strcmp(mounts[i].target, RUN) != 0 &&
		    holds_files(mounts[i].target))
			continue;
		mount(mounts[i].type, mounts[i].target, mounts[i].type,
		      mounts[i].flags, options_of(i, in_memory, options));
	}
	for (i = 0; i < COUNT(links); i++)
		(void)!symlink(links[i][0], links[i][1]);
}

static int mount_disk(const char *disk)
{
	char device[SETTING_MAX + 4];
	int part, error = -1;

	for (part = 0; error && part < 10; part++) {
		snprintf(device, sizeof(device), part ? "%s%d" : "%s", disk, part);
		error = mount(device, "/new", "ext4", 0, NULL);
	}
	return error;
}

/* The file's device; the loop device lets go of the file when it is taken off. */
static int attach(const char *file, char *device, size_t size)
{
	struct loop_config config = { .info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	int loop, content = open(file, O_RDONLY | O_CLOEXEC);

	close(control);
	if (number < 0 || content < 0)
		return -1;
	snprintf(device, size, "/dev/loop%d", number);
	loop = open(device, O_RDONLY | O_CLOEXEC);
	config.fd = content;
	if (loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config))
		return -1;
	close(content);
	return loop;
}

static int mount_file(const char *file)
{
	char device[SETTING_MAX];
	int loop = attach(file, device, sizeof(device));
	int error = loop < 0;

	mkdir("/file", 0755);
	mkdir("/memory", 0755);
	error = error || mount(device, "/file", "squashfs", MS_RDONLY, NULL) ||
		mount("tmpfs", "/memory", "tmpfs", 0, "mode=0755") ||
		mkdir("/memory/changes", 0755) || mkdir("/memory/work", 0755) ||
		mount("overlay", "/new", "overlay", 0,
		      "lowerdir=/file,upperdir=/memory/changes,workdir=/memory/work");
	close(loop);	/* what is mounted keeps it */
	return error;
}

void enter_root(const char *place)
{
	struct stat info;
	int error;

	mkdir("/new", 0755);
	error = stat(place, &info) == 0 && S_ISREG(info.st_mode) ? mount_file(place) : mount_disk(place);
	if (error || chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot("."))
		fatal("the root holds no file system that can be mounted");
}
