/* SPDX-License-Identifier: GPL-2.0-only */
/* Modules need nothing special. */
#include <asm-generic/module.h>
