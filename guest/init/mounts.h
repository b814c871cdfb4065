/* SPDX-License-Identifier: GPL-2.0-only */
/* The root, and the file systems and devices that programs expect. */
#ifndef KEEL_MOUNTS_H
#define KEEL_MOUNTS_H

/* Makes the file systems and devices that programs expect. */
void mount_all(void);

/*
 * Makes the file system of a disk, or of its first partition that has one, the root; or that of a
 * file, which is never written: what changes stays in memory.
 */
void enter_root(const char *place);

#endif
