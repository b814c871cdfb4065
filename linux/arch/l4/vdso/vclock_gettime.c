// SPDX-License-Identifier: GPL-2.0-only
/* The clocks, read in user mode as on x86. */
#include "../../x86/entry/vdso/vclock_gettime.c"
