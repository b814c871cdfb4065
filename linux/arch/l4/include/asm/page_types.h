/* SPDX-License-Identifier: GPL-2.0-only */
/* x86 files ask for this name. */
#include <asm/page.h>
