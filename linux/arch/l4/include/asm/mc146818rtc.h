/* SPDX-License-Identifier: GPL-2.0-only */
/* The CMOS clock: arm's header has the ports of PCs, x86's has calls of functions for them. */
#include <arm/include/asm/mc146818rtc.h>
