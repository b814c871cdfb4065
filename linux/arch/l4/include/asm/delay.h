/* SPDX-License-Identifier: GPL-2.0-only */
/* Delays count cycles, of which kernel/setup.c says how many a tick has: as loongarch's do. */
#include <loongarch/include/asm/delay.h>
