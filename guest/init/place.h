/* SPDX-License-Identifier: GPL-2.0-only */
/* The command keel-place, which runs a program at another place (docs/placements.md). */
#ifndef KEEL_PLACE_H
#define KEEL_PLACE_H

#define PLACE_COMMAND "keel-place"

/* Puts the command into the root, on the usual PATH, if that can be written. */
void install_place(void);

/* The command itself: executes its words, or returns the exit status of its failure. */
int run_place(int argc, char **argv);

#endif
