/* SPDX-License-Identifier: GPL-2.0-only */
/* The host's command. */
#ifndef KEEL_EXEC_H
#define KEEL_EXEC_H

#include "settings.h"

/* Runs the host's command over the channel; returns at its end. */
void run_exec(const struct settings *settings);

#endif
