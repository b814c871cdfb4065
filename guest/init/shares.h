/* SPDX-License-Identifier: GPL-2.0-only */
/* The host's directories. */
#ifndef KEEL_SHARES_H
#define KEEL_SHARES_H

struct settings;

/* Mounts the host's directories in the root; the machine ends where that is not possible. */
void mount_shares(const struct settings *settings);

/* Adds what programs need for files of the host's owners to the environment. */
void share_environment(const struct settings *settings);

#endif
