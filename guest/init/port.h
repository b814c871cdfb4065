/* SPDX-License-Identifier: GPL-2.0-only */
/* A virtio port by its name. */
#ifndef KEEL_PORT_H
#define KEEL_PORT_H

/* Room for the path of a port's device, with its terminating zero. */
#define PORT_PATH_MAX 280

/*
 * Puts the path of the port with this name into `path`, and waits for it if it is yet to come.
 * Returns 0, or -1 where this machine, as Linux sees it, has no device with ports.
 */
int port_find(const char *name, char path[PORT_PATH_MAX]);

#endif
