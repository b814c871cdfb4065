// SPDX-License-Identifier: GPL-2.0-only
/* x86's tool that turns the vDSO into a C file. */
#include "../../x86/entry/vdso/vdso2c.c"
