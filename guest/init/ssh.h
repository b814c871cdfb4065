/* SPDX-License-Identifier: GPL-2.0-only */
/* The guest's SSH server, where the host has sent keys for one beside this init. */
#ifndef KEEL_SSH_H
#define KEEL_SSH_H

#include <stdbool.h>

/* What starts the server, in its shell. */
#define SSH_START "/run/keel/ssh/start"

/* Opens the folder of the keys, which is not to be seen from the root. */
void open_ssh_keys(void);

/* Copies the keys to where the server is started; true if there is to be a server. */
bool place_ssh_keys(void);

/* Starts the server as a child. */
void start_ssh(void);

#endif
