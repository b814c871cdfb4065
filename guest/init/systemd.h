/* SPDX-License-Identifier: GPL-2.0-only */
/* The root's own systemd as process 1. */
#ifndef KEEL_SYSTEMD_H
#define KEEL_SYSTEMD_H

#include <stdbool.h>

#include "settings.h"

/* The argument of this init where it runs the host's command beside systemd. */
#define SERVICE "service"

/* Lets the root's systemd take over, with the host's command and an SSH server as services. */
void become_systemd(const struct settings *settings, bool has_ssh) __attribute__((noreturn));

#endif
