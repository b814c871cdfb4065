/* SPDX-License-Identifier: GPL-2.0-only */
/* The interactive mode: a shell on each console. */
#ifndef KEEL_SHELL_H
#define KEEL_SHELL_H

#include "settings.h"

/* The console and its keys are those of another init from now on. */
void begin_other_init(const struct settings *settings);

/* Runs an application, if there is one, and then shells; returns when a shell has ended. */
void run_shell(struct settings *settings, const char *application);

#endif
