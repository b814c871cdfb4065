/* SPDX-License-Identifier: GPL-2.0-only */
/* An application for ring 0, which came in an archive beside this init. */
#ifndef KEEL_APPLICATION_H
#define KEEL_APPLICATION_H

/* Opens the application while the archive that it came in is the root. The caller closes it. */
int open_application(const char *name);

/*
 * Puts it into the root's /run/ukl and closes it. Returns its path, which is good until the next
 * call.
 */
const char *place_application(int fd, const char *name);

#endif
