/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's list of debug events, not the generic one. */
#include <x86/include/asm/kdebug.h>
