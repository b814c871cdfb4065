/* SPDX-License-Identifier: GPL-2.0-only */
/* The layout that programs and x86's mapping code know. */
#include "../../x86/entry/vdso/vdso.lds.S"
