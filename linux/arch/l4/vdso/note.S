/* SPDX-License-Identifier: GPL-2.0-only */
/* The notes that tell libraries the kernel's version. */
#include "../../x86/entry/vdso/vdso-note.S"
