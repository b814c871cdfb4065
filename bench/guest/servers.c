// SPDX-License-Identifier: GPL-2.0-only
/* The rows of the program `servers`, 32-bit code that is the client of servers of Debian's. */
#include <stddef.h>

#include "bench.h"

const struct rows *const all_rows[] = { &web_rows, &database_rows, NULL };
