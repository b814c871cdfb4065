/* SPDX-License-Identifier: GPL-2.0-only */
/* Attributes of the files of a root in memory: capabilities and access lists. */
#ifndef KEEL_ATTRIBUTES_H
#define KEEL_ATTRIBUTES_H

/*
 * Gives the files of a root that Linux has unpacked their attributes, and removes the notes of
 * them. Says which file lacks its own if that fails, and goes on.
 */
void restore_attributes(void);

#endif
