// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtio port by its name. The device is there when Linux starts this init, but its host
 * names the ports afterwards, one message for each; Linux reports each name as an event.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port.h"

#define DRIVER "/sys/bus/virtio/drivers/virtio_console"
#define PORTS "/sys/class/virtio-ports"
#define NAME_MAX_BYTES 64
/* The group of netlink's to which Linux, not udev, sends events. */
#define EVENTS_OF_LINUX 1
#define EVENT_MAX_BYTES 4096

/* Whether the directory has an entry that begins like this. */
static int has_entry(const char *path, const char *prefix)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int found = 0;

	if (!directory)
		return 0;
	while (!found && (entry = readdir(directory)) != NULL)
		found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(directory);
	return found;
}

static int is_called(const char *port, const char *name)
{
	char path[PORT_PATH_MAX], text[NAME_MAX_BYTES] = "";
	int fd;

	snprintf(path, sizeof(path), PORTS "/%.200s/name", port);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	(void)!read(fd, text, sizeof(text) - 1);
	close(fd);
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, name) == 0;
}

static int look(const char *name, char path[PORT_PATH_MAX])
{
	DIR *ports = opendir(PORTS);
	struct dirent *entry;
	int found = 0;

	if (!ports)
		return 0;
	while (!found && (entry = readdir(ports)) != NULL) {
		found = is_called(entry->d_name, name);
		if (found)
			snprintf(path, PORT_PATH_MAX, "/dev/%s", entry->d_name);
	}
	closedir(ports);
	return found;
}

static int events_open(void)
{
	const struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = EVENTS_OF_LINUX };
	int events = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

	if (events >= 0 && bind(events, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		close(events);
		return -1;
	}
	return events;
}

int port_find(const char *name, char path[PORT_PATH_MAX])
{
	char event[EVENT_MAX_BYTES];
	int events;

	if (!has_entry(DRIVER, "virtio"))
		return -1;
	/* Before the first look, so that no name comes between the two. */
	events = events_open();
	if (events < 0)
		return -1;
	/* An overrun of events is an error that only says to look again. */
	while (!look(name, path))
		(void)!read(events, event, sizeof(event));
	close(events);
	return 0;
}
