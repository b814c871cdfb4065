/* SPDX-License-Identifier: GPL-2.0-only */
/* The end of the machine. */
#ifndef KEEL_END_H
#define KEEL_END_H

/* How the machine shuts down. */
enum end { END_NONE, SHUTDOWN_POWER_OFF, SHUTDOWN_REBOOT };

/* Ends all processes and shuts the machine down. */
void end_machine(enum end end) __attribute__((noreturn));

/*
 * Says what is wrong on the console and powers off; a process that is not the first one ends with
 * status 126 instead.
 */
void fatal(const char *what) __attribute__((noreturn));

#endif
