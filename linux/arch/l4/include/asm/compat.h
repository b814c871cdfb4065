/* SPDX-License-Identifier: GPL-2.0-only */
/* The types of 32-bit programs are x86's, not the generic ones. */
#include <x86/include/asm/compat.h>
